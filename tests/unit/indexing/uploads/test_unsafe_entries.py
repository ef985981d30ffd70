"""What would leave the project, or is no plain file, ends the upload; a name that is none is skipped alone."""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import UnsafeEntry, UploadRejected
from tests.support.packed_uploads import FORMATS, entries_of, packed, refused
from tests.support.uploads import json_lines, member, tar_bytes, tar_gz

ESCAPES = [
    "../x.md", "../../x.md", "a/../../b.md", "a/../b.md", "/abs.md", "C:\\x.md", "C:/x.md", "..\\x.md", "a\\b.md", "..",
]  # fmt: skip


@pytest.mark.parametrize("upload_format", FORMATS)
@pytest.mark.parametrize("name", ESCAPES)
def test_a_path_out_of_the_project_ends_the_upload(name: str, upload_format: str) -> None:
    """A public report's case 66 asks for a refusal per entry. The whole upload is refused instead (decision 8), with
    the entry's name as the reason: a snapshot that lacked the refused files would remove them from the index and still
    end as `done`, and an archive that was made to escape is no list to trust. `a/../b.md` is refused too.
    """
    about = refused(packed({"ok.md": "x", name: "x"}, upload_format), upload_format)
    assert about.reason == f"The upload holds {name!r}, which is not inside the project."


@pytest.mark.parametrize("name", ESCAPES)
def test_a_json_path_out_of_the_project_ends_the_upload(name: str) -> None:
    about = refused(json_lines({"path": name, "content": "x", "acl": ["user:bob", "user:ann"]}), "jsonl")
    assert (about.path, about.acl) == (name, ("user:ann", "user:bob"))


@pytest.mark.parametrize("name", ["../d/", "/../d", "d\\"])
def test_a_directory_out_of_the_project_ends_the_upload(name: str) -> None:
    with pytest.raises(UnsafeEntry):
        entries_of(gzip.compress(tar_bytes([(member(name, type=tarfile.DIRTYPE), b"")])))


@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, b"Z"],
    ids=["symlink", "hard link", "character device", "block device", "fifo", "unknown"],
)
def test_what_is_no_plain_file_ends_a_tar(kind: bytes) -> None:
    tar = tar_bytes([(member("notes.md", type=kind, linkname="../secret.md"), b"")])
    assert refused(gzip.compress(tar)).path == "notes.md"


def test_a_sparse_file_ends_a_tar() -> None:
    tar = tar_bytes([(member("s.md", pax_headers={"GNU.sparse.major": "1"}), b"x")])
    assert "sparse" in refused(gzip.compress(tar)).reason


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO, stat.S_IFSOCK])
def test_what_is_no_plain_file_ends_a_zip(kind: int) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        info = zipfile.ZipInfo("notes.md")
        info.external_attr = (kind | 0o644) << 16
        archive.writestr(info, "../secret.md")
    assert refused(buffer.getvalue(), "zip").path == "notes.md"


@pytest.mark.parametrize("tar_format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT], ids=["gnu", "pax"])
def test_a_name_that_is_no_text_is_skipped_alone(tar_format: int) -> None:
    entries = entries_of(tar_gz({"caf\udce9.md": "x", "b.md": "x"}, tar_format=tar_format))
    assert [(entry.path.startswith("caf"), entry.skip_reason is None) for entry in entries] == [
        (True, False),
        (False, True),
    ]
    assert entries[0].content is None
    entries[0].path.encode("utf-8")


def test_a_name_that_can_not_be_stored_is_skipped_alone() -> None:
    entries = entries_of(tar_gz({"a\nb.md": "x", "d/" * 600 + "x.md": "x", "c.md": "x"}))
    assert [entry.skip_reason is None for entry in entries] == [False, False, True]


@given(st.text(max_size=40), st.sampled_from((*FORMATS, "jsonl")))
def test_no_name_gets_out_of_the_project(name: str, upload_format: str) -> None:
    """Any name: a path inside, a skip, or a refusal of the whole upload."""
    try:
        body = (
            json_lines({"path": name, "content": "x"})
            if upload_format == "jsonl"
            else packed({name: "x"}, upload_format)
        )
    except (ValueError, IndexError):  # the archiver can't write that name
        return
    try:
        entries = entries_of(body, upload_format)
    except UploadRejected:
        return
    for entry in entries:
        parts = entry.path.split("/")
        assert entry.skip_reason or (".." not in parts and parts[0] and "\\" not in entry.path)
