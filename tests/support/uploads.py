"""Archives and JSON Lines as a test needs them: sound, strange or broken."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Caps:
    """Small caps by default allow small tests; each can be named."""

    max_archive_bytes: int = 64 * 1024 * 1024
    max_total_bytes: int = 256 * 1024 * 1024
    max_entries: int = 1_000
    max_ratio: int = 200
    max_file_bytes: int = 2 * 1024 * 1024


def member(name: str, **fields: Any) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def tar_bytes(entries: Sequence[tuple[tarfile.TarInfo, bytes]], *, tar_format: int = tarfile.PAX_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tar_format, encoding="utf-8") as archive:
        for info, content in entries:
            info.size = len(content) if info.isreg() else 0
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def tar_gz(files: Mapping[str, bytes | str], *, tar_format: int = tarfile.PAX_FORMAT, mtime: int = 0) -> bytes:
    entries = [
        (member(name, mtime=mtime), content.encode() if isinstance(content, str) else content)
        for name, content in files.items()
    ]
    return gzip.compress(tar_bytes(entries, tar_format=tar_format), mtime=0)


def zipped(files: Mapping[str, bytes | str], *, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def json_lines(*lines: Mapping[str, Any]) -> bytes:
    """No lines are one empty line: nothing at all would be an upload that was lost."""
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode() or b"\n"
