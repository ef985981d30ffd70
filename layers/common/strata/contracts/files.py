"""The files of an index on the wire, page by page."""

from __future__ import annotations

from collections.abc import Sequence

from strata.contracts.jobs import View
from strata.model.asking import IndexedText


class FileView(View):
    """A file as it was indexed."""

    path: str
    blob_sha: str
    text: str

    @classmethod
    def of(cls, file: IndexedText) -> FileView:
        # Half a character can't be sent; it shows as U+FFFD.
        return cls(path=file.path, blob_sha=file.blob_sha, text=file.text.encode("utf-8", "replace").decode())


class FilePageView(View):
    """`next` is the `after` of the next page; null when there are no more files."""

    session_id: str
    files: list[FileView]
    next: str | None

    @classmethod
    def of(cls, session_id: str, files: Sequence[IndexedText]) -> FilePageView:
        return cls(
            session_id=session_id,
            files=[FileView.of(file) for file in files],
            next=files[-1].path if files else None,
        )
