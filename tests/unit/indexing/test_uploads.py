from __future__ import annotations

import base64
import gzip
import io
import json
import os
import random
import stat
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import AboutFile, CorruptArchive, UnsafeEntry, UploadRejected, UploadTooLarge
from strata.indexing.uploads.entries import UploadEntry
from strata.indexing.uploads.reading import read_entries
from strata.model.access import MAX_PRINCIPALS
from strata.model.jobs import ChangeOp
from tests.support.uploads import Caps, json_lines, member, tar_bytes, tar_gz, zipped

FORMATS = ("tar.gz", "zip")


def packed(files: dict[str, bytes | str], upload_format: str) -> bytes:
    return tar_gz(files) if upload_format == "tar.gz" else zipped(files)


def entries_of(body: bytes, upload_format: str = "tar.gz", **caps: int) -> list[UploadEntry]:
    return list(read_entries(io.BytesIO(body), upload_format, Caps(**caps)))


def refused(body: bytes, upload_format: str = "tar.gz", fault: type[UploadRejected] = UnsafeEntry) -> AboutFile:
    """What is said about the file at fault; what everybody is told names no file."""
    with pytest.raises(fault) as refusal:
        entries_of(body, upload_format)
    about = refusal.value.about
    assert about is not None
    assert about.path not in str(refusal.value)
    return about


def contents_of(body: bytes, upload_format: str = "tar.gz", **caps: int) -> dict[str, bytes | None]:
    return {entry.path: entry.content for entry in entries_of(body, upload_format, **caps)}


# --- what is read --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("upload_format", FORMATS)
def test_files_come_with_their_content_in_order(upload_format: str) -> None:
    files: dict[str, bytes | str] = {"b/two.md": "# Two", "a.py": b"x = 1\n", "empty.md": b""}
    assert list(contents_of(packed(files, upload_format), upload_format).items()) == [
        ("b/two.md", b"# Two"),
        ("a.py", b"x = 1\n"),
        ("empty.md", b""),
    ]


@pytest.mark.parametrize("upload_format", FORMATS)
def test_a_common_leading_folder_stays(upload_format: str) -> None:
    assert list(contents_of(packed({"shop-1.0/a.md": "a", "shop-1.0/b.md": "b"}, upload_format), upload_format)) == [
        "shop-1.0/a.md",
        "shop-1.0/b.md",
    ]


@pytest.mark.parametrize("upload_format", FORMATS)
def test_an_archive_without_files_is_an_empty_list(upload_format: str) -> None:
    assert entries_of(packed({}, upload_format), upload_format) == []


@pytest.mark.parametrize("upload_format", FORMATS)
def test_a_decomposed_name_is_composed(upload_format: str) -> None:
    assert list(contents_of(packed({"e\u0301te\u0301.md": "x"}, upload_format), upload_format)) == ["été.md"]


@pytest.mark.parametrize("upload_format", FORMATS)
def test_an_archive_inside_an_archive_is_one_file(upload_format: str) -> None:
    inner = packed({"../../x": "x"}, upload_format)
    assert contents_of(packed({"inner.bin": inner}, upload_format), upload_format) == {"inner.bin": inner}


@pytest.mark.parametrize("upload_format", FORMATS)
def test_a_path_that_comes_twice_is_yielded_twice(upload_format: str) -> None:
    buffer = io.BytesIO()
    if upload_format == "zip":
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("a.md", "old")
            with pytest.warns(UserWarning, match="Duplicate"):
                archive.writestr("a.md", "new")
    else:
        buffer.write(gzip.compress(tar_bytes([(member("a.md"), b"old"), (member("a.md"), b"new")])))
    assert [entry.content for entry in entries_of(buffer.getvalue(), upload_format)] == [b"old", b"new"]


@pytest.mark.parametrize(
    "tar_format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT], ids=["ustar", "gnu", "pax"]
)
def test_every_tar_format_is_read(tar_format: int) -> None:
    assert contents_of(tar_gz({"a/b.md": "text", "c.md": "x" * 5_000}, tar_format=tar_format)) == {
        "a/b.md": b"text",
        "c.md": b"x" * 5_000,
    }


@pytest.mark.parametrize("tar_format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT], ids=["gnu", "pax"])
def test_long_and_foreign_names_are_whole(tar_format: int) -> None:
    names = ["папка/" * 20 + "файл.md", "d" * 90 + "/" + "e" * 90 + "/" + "f" * 90 + ".md", "short.md"]
    assert list(contents_of(tar_gz(dict.fromkeys(names, "x"), tar_format=tar_format))) == names


def test_a_tar_member_takes_its_time_without_fractions() -> None:
    body = gzip.compress(tar_bytes([(member("a.md", mtime=1_700_000_000.75), b"x"), (member("b.md", mtime=0), b"x")]))
    assert [entry.last_modified for entry in entries_of(body)] == [datetime.fromtimestamp(1_700_000_000, UTC), None]


@pytest.mark.parametrize("mtime", ["nan", "inf", "-5", "1e400", "99999999999999", "x"])
def test_a_senseless_time_is_none(mtime: str) -> None:
    body = gzip.compress(tar_bytes([(member("a.md", pax_headers={"mtime": mtime}), b"x")]))
    assert [entry.last_modified for entry in entries_of(body)] == [None]


def test_a_zip_member_takes_its_time() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo("a.md", (2026, 1, 2, 3, 4, 6)), "x")
        archive.writestr(zipfile.ZipInfo("b.md", (1980, 1, 1, 0, 0, 0)), "x")
    assert [entry.last_modified for entry in entries_of(buffer.getvalue(), "zip")] == [
        datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC),
        None,
    ]


def test_gzip_may_come_in_several_members_with_zeros_behind() -> None:
    tar = tar_bytes([(member("a.md"), b"a" * 3_000), (member("b.md"), b"b")])
    body = gzip.compress(tar[:1_000]) + gzip.compress(tar[1_000:]) + b"\0" * 200_000
    assert contents_of(body) == {"a.md": b"a" * 3_000, "b.md": b"b"}


def test_a_zip_name_without_the_utf8_flag_may_still_be_utf8() -> None:
    body = bytearray(zipped({"файл.md": "x"}))
    name = "файл.md".encode()
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = body.index(signature) + offset
        struct.pack_into("<H", body, at, struct.unpack_from("<H", body, at)[0] & ~0x800)
    assert name in bytes(body)
    assert list(contents_of(bytes(body), "zip")) == ["файл.md"]


def test_directories_are_passed_over() -> None:
    tar = tar_bytes(
        [(member("./", type=tarfile.DIRTYPE), b""), (member("d", type=tarfile.DIRTYPE), b""), (member("d/a"), b"x")]
    )
    assert list(contents_of(gzip.compress(tar))) == ["d/a"]
    assert list(contents_of(zipped({"d/": b"", "d/a": b"x"}), "zip")) == ["d/a"]


def test_a_zip_name_of_a_nul_is_skipped() -> None:
    (entry,) = entries_of(zipped({"Q": b"1"}).replace(b"Q", b"\0"), "zip")
    assert entry.skip_reason


# --- what is refused -----------------------------------------------------------------------------------------------

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


# --- caps ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("upload_format", FORMATS)
def test_a_file_over_the_cap_is_read_past(upload_format: str) -> None:
    body = packed({"big.md": os.urandom(2_000), "small.md": b"x"}, upload_format)
    big, small = entries_of(body, upload_format, max_file_bytes=1_000)
    assert (big.content, big.skip_reason) == (None, "It is larger than 1,000 bytes.")
    assert (small.content, small.skip_reason) == (b"x", None)


def test_a_large_file_in_json_lines_is_skipped_and_a_larger_line_refused() -> None:
    line = {"path": "big.md", "content": "x" * 2_000}
    (entry,) = entries_of(json_lines(line), "jsonl", max_file_bytes=1_000)
    assert (entry.content, entry.skip_reason) == (None, "It is larger than 1,000 bytes.")
    with pytest.raises(UploadTooLarge, match="Line 2"):
        entries_of(
            json_lines({"path": "a", "content": ""}, line | {"content": "x" * 2_000_000}), "jsonl", max_file_bytes=1_000
        )


@pytest.mark.parametrize("upload_format", FORMATS)
def test_too_many_entries_are_refused(upload_format: str) -> None:
    files: dict[str, bytes | str] = {f"{number}.md": "x" for number in range(11)}
    assert len(entries_of(packed(files, upload_format), upload_format, max_entries=11)) == 11
    with pytest.raises(UploadTooLarge, match="10 entries"):
        entries_of(packed(files, upload_format), upload_format, max_entries=10)


def test_directories_count_as_entries() -> None:
    tar = tar_bytes([(member(f"d{number}", type=tarfile.DIRTYPE), b"") for number in range(11)])
    with pytest.raises(UploadTooLarge):
        entries_of(gzip.compress(tar), max_entries=10)


@pytest.mark.parametrize("upload_format", FORMATS)
def test_the_total_is_counted_while_it_is_read(upload_format: str) -> None:
    files: dict[str, bytes | str] = {f"{number}.md": os.urandom(10_000) for number in range(20)}
    with pytest.raises(UploadTooLarge, match="unpacks to more than 100,000 bytes"):
        entries_of(packed(files, upload_format), upload_format, max_total_bytes=100_000)


@pytest.mark.parametrize("upload_format", FORMATS)
def test_a_bomb_is_refused_by_its_ratio(upload_format: str) -> None:
    files: dict[str, bytes | str] = {f"{number}.md": b"\0" * 2_000_000 for number in range(20)}
    with pytest.raises(UploadTooLarge, match="200 times"):
        entries_of(packed(files, upload_format), upload_format)


def test_a_bomb_behind_the_end_of_the_tar_is_refused() -> None:
    with pytest.raises(UploadTooLarge):
        entries_of(gzip.compress(tar_bytes([(member("a.md"), b"x")]) + b"\0" * 40_000_000))


def test_a_file_over_the_cap_counts_in_a_bomb() -> None:
    with pytest.raises(UploadTooLarge):
        entries_of(tar_gz({"a.md": b"\0" * 40_000_000}), max_file_bytes=1_000)


def test_a_zip_header_that_lies_about_the_size_gains_nothing() -> None:
    body = bytearray(zipped({"a.md": b"\0" * 30_000_000}))
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<I", body, body.index(signature) + offset, 10)
    with pytest.raises(UploadRejected):
        entries_of(bytes(body), "zip")


def test_a_pax_header_of_a_gigabyte_is_not_read_into_memory() -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 1 << 30
    with pytest.raises(CorruptArchive, match="megabyte"):
        entries_of(gzip.compress(header.tobuf(tarfile.USTAR_FORMAT) + b"\0" * 4_096))


def test_a_long_list_of_zip_entries_is_not_read_into_memory() -> None:
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 40_000_000, 0, 0)
    with pytest.raises(UploadTooLarge):
        entries_of(b"\0" * 40_000_000 + end, "zip", max_entries=1_000)


@pytest.mark.slow
@pytest.mark.parametrize("upload_format", FORMATS)
def test_memory_does_not_grow_with_the_upload(upload_format: str) -> None:
    """200 MB of files of 1 MB each, read in a process that may hold little more than one of them."""
    script = f"""
import io, resource, sys
from strata.indexing.uploads.reading import read_entries
from tests.support.uploads import Caps
body = sys.stdin.buffer.read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
entries = read_entries(io.BytesIO(body), {upload_format!r}, Caps(max_ratio=10_000))
count = sum(entry.content is not None for entry in entries)
print(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    text = random.Random(1).randbytes(2_000) * 500
    body = packed({f"{number}.md": text for number in range(200)}, upload_format)
    output = subprocess.run(
        [sys.executable, "-c", script], input=body, capture_output=True, check=True, cwd=os.getcwd()
    )
    count, grown_kb = map(int, output.stdout.split())
    assert count == 200
    assert grown_kb < 40_000


# --- corruption ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "upload_format"),
    [
        pytest.param(b"", "tar.gz", id="no bytes"),
        pytest.param(b"", "zip", id="no bytes, zip"),
        pytest.param(b"not an archive", "tar.gz", id="text"),
        pytest.param(b"not an archive", "zip", id="text, zip"),
        pytest.param(tar_bytes([(member("a.md"), b"x")]), "tar.gz", id="a tar that is not gzip"),
        pytest.param(gzip.compress(b""), "tar.gz", id="an empty gzip"),
        pytest.param(gzip.compress(b"text " * 1_000), "tar.gz", id="a gzip that is no tar"),
        pytest.param(zipped({"a.md": "x"}), "tar.gz", id="a zip as tar.gz"),
        pytest.param(tar_gz({"a.md": "x"}), "zip", id="a tar.gz as zip"),
        pytest.param(tar_gz({"a.md": "x"}) + b"garbage", "tar.gz", id="garbage behind the gzip"),
        pytest.param(b"PK\x05\x06" + b"\0" * 10, "zip", id="half an end of zip"),
        pytest.param(zipped({"a.md": "x"}, compression=zipfile.ZIP_LZMA), "zip", id="lzma"),
    ],
)
def test_what_is_no_archive_is_corrupt(body: bytes, upload_format: str) -> None:
    with pytest.raises(CorruptArchive):
        entries_of(body, upload_format)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(CorruptArchive, match="rar"):
        entries_of(b"", "rar")


@pytest.mark.parametrize("upload_format", FORMATS)
def test_an_archive_that_is_cut_short_is_corrupt_at_every_length(upload_format: str) -> None:
    """Even where every file came whole: a snapshot that lost its end would delete files."""
    body = packed({"a.md": os.urandom(700), "b/c.md": os.urandom(700)}, upload_format)
    for length in range(0, len(body) - 1, 7):
        with pytest.raises(CorruptArchive):
            entries_of(body[:length], upload_format)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        pytest.param({b"PK\x03\x04": 6, b"PK\x01\x02": 8}, "encrypted", id="encrypted"),
        pytest.param({b"PK\x01\x02": 16}, "CRC", id="wrong checksum"),
        pytest.param({b"PK\x01\x02": 46}, "differ", id="two names"),
        pytest.param({b"PK\x01\x02": 24}, "", id="wrong size"),
        pytest.param({b"PK\x03\x04": 0}, "magic", id="no file where the list says"),
        pytest.param({b"PK\x03\x04": 8, b"PK\x01\x02": 10}, "compressed", id="unknown compression"),
    ],
)
def test_a_zip_with_a_fault_in_one_file_is_corrupt_and_names_it_only_to_its_readers(
    fault: dict[bytes, int], said: str
) -> None:
    body = bytearray(zipped({"notes.md": "some text, twice: some text"}))
    for signature, offset in fault.items():
        body[body.index(signature) + offset] ^= 1
    about = refused(bytes(body), "zip", CorruptArchive)
    assert said in about.reason


def test_a_tar_that_ends_in_a_file_names_it_only_to_its_readers() -> None:
    tar = tar_bytes([(member("notes.md"), b"x" * 2_000)])[: 512 + 100]
    assert refused(gzip.compress(tar), fault=CorruptArchive).path == "notes.md"


def test_a_zip_list_that_points_before_the_file_is_corrupt(tmp_path: Any) -> None:
    """On a real file, where a negative seek is an OSError: it must not look like a fault worth a retry."""
    body = bytearray(zipped({"a.md": "x"}))
    struct.pack_into("<I", body, body.rindex(b"PK\x05\x06") + 12, 0x7FFFFFF)
    path = tmp_path / "a.zip"
    path.write_bytes(body)
    with path.open("rb") as file, pytest.raises(UploadRejected):
        list(read_entries(file, "zip", Caps(max_entries=10_000_000)))


@given(st.data())
def test_a_damaged_archive_never_fails_otherwise(data: st.DataObject) -> None:
    """Bit flips, cuts and splices: entries, or an `UploadRejected`, never another error."""
    upload_format = data.draw(st.sampled_from(FORMATS))
    files: dict[str, bytes | str] = {"a.md": "# A\n" * 50, "д/b.py": b"x = 1\n" * 40, "n" * 120 + ".md": "x"}
    body = bytearray(packed(files, upload_format))
    if upload_format == "tar.gz" and data.draw(st.booleans()):
        body = bytearray(gzip.decompress(body))
        _damage(body, data)
        body = bytearray(gzip.compress(bytes(body)))
    else:
        _damage(body, data)
    try:
        for entry in entries_of(bytes(body), upload_format):
            entry.path.encode("utf-8")
    except UploadRejected as error:
        error.message.encode("utf-8")


def _damage(body: bytearray, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
        if not body:
            body += b"\0"


# --- JSON Lines ----------------------------------------------------------------------------------------------------


def test_json_lines_carry_everything_about_a_file() -> None:
    text = "привет\n"
    first, second, third = entries_of(
        json_lines(
            {
                "path": "./docs//a.md",
                "content": text,
                "last_modified": "2026-01-02T03:04:05+03:00",
                "acl": ["user:bob", "group:dev", "user:bob"],
            },
            {"path": "b.bin", "content_b64": base64.b64encode(b"\xff\0").decode(), "acl": []},
            {"path": "c.md", "content_hash": "sha256:" + "AB" * 32, "unknown": 1},
        ),
        "jsonl",
    )
    assert (first.path, first.content, first.size_bytes) == ("docs/a.md", text.encode(), 13)
    assert (first.acl, first.last_modified) == (("group:dev", "user:bob"), datetime(2026, 1, 2, 0, 4, 5, tzinfo=UTC))
    assert (second.content, second.acl) == (b"\xff\0", ())
    assert (third.content, third.content_hash, third.acl) == (None, "ab" * 32, None)


def test_a_delete_needs_only_its_path() -> None:
    (entry,) = entries_of(json_lines({"path": "a.md", "op": "delete", "content": "ignored"}), "jsonl")
    assert (entry.op, entry.content) == (ChangeOp.DELETE, None)


def test_blank_lines_a_byte_order_mark_and_a_missing_line_end_do_no_harm() -> None:
    body = (
        b"\xef\xbb\xbf"
        + json_lines({"path": "a", "content": "x"})
        + b"\r\n\n"
        + json.dumps({"path": "b", "content": ""}).encode()
    )
    assert list(contents_of(body, "jsonl")) == ["a", "b"]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"{", id="no JSON"),
        pytest.param(b'"text"', id="no object"),
        pytest.param(b"\xff\xfe", id="no text"),
        pytest.param(b"[" * 100_000, id="nested without end"),
        pytest.param(b"{}", id="no path"),
        pytest.param(b'{"path": 1, "content": ""}', id="path is a number"),
        pytest.param(b'{"path": "a"}', id="nothing to index"),
        pytest.param(b'{"path": "a", "content": 1}', id="content is a number"),
        pytest.param(b'{"path": "a", "content": "", "content_b64": ""}', id="content twice"),
        pytest.param(b'{"path": "a", "content_b64": "***"}', id="no base64"),
        pytest.param(b'{"path": "a", "content_b64": "\\u00e9"}', id="base64 outside ASCII"),
        pytest.param(b'{"path": "a", "content": "", "content_hash": "abc"}', id="a short hash"),
        pytest.param(b'{"path": "a", "content": "", "op": "move"}', id="an unknown operation"),
        pytest.param(b'{"path": "a", "content": "", "acl": "user:ann"}', id="acl is text"),
        pytest.param(b'{"path": "a", "content": "", "acl": ["ann"]}', id="acl without a kind"),
        pytest.param(b'{"path": "a", "content": "", "acl": ["user:"]}', id="acl without a name"),
        pytest.param(b'{"path": "a", "content": "", "acl": ["user:a b"]}', id="acl with a blank"),
        pytest.param(b'{"path": "a", "content": "", "acl": ["user:a,user:b"]}', id="acl with a comma"),
        pytest.param(b'{"path": "a", "content": "", "acl": ["user:a\\n"]}', id="acl with a line end"),
        pytest.param(
            b'{"path": "a", "content": "", "acl": ["user:' + b"a" * 201 + b'"]}', id="acl with an endless name"
        ),
        pytest.param(
            json.dumps({"path": "a", "content": "", "acl": ["user:a"] * (MAX_PRINCIPALS + 1)}).encode(),
            id="acl of too many",
        ),
        pytest.param(b'{"path": "a", "content": "", "acl": ["user:a\\u0000"]}', id="acl with a NUL"),
        pytest.param(b'{"path": "a", "content": "", "last_modified": "soon"}', id="no time"),
        pytest.param(b'{"path": "a", "content": "", "last_modified": "0001-01-01T00:00:00+23:00"}', id="before time"),
    ],
)
def test_a_bad_line_is_named_by_its_number(line: bytes) -> None:
    body = json_lines({"path": "ok.md", "content": "x"}) + line + b"\n"
    with pytest.raises(CorruptArchive, match=r"^Line 2 of the upload"):
        entries_of(body, "jsonl")


def test_half_a_character_fails_its_file_alone() -> None:
    first, second = entries_of(
        b'{"path": "a", "content": "\\ud83d"}\n' + json_lines({"path": "b", "content": "x"}), "jsonl"
    )
    assert (first.content, first.fail_reason) == (None, "Its content holds half of a character.")
    assert second.content == b"x"


FIELDS = st.sampled_from(["path", "content", "content_b64", "acl", "op", "content_hash", "last_modified"])
VALUES = st.one_of(st.none(), st.text(max_size=12), st.integers(), st.lists(st.text(max_size=8), max_size=3))


@given(st.lists(st.dictionaries(FIELDS, VALUES), max_size=4))
def test_json_lines_give_entries_or_a_refusal(lines: list[dict[str, Any]]) -> None:
    try:
        entries = entries_of(json_lines(*lines), "jsonl")
    except UploadRejected:
        return
    assert len(entries) == len(lines)


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


def test_a_file_that_grows_by_inflating_is_not_held_twice() -> None:
    """A deflate stream that ends early inside a gzip is a damaged archive, not a short file."""
    stream = zlib.compressobj(9, zlib.DEFLATED, 31)
    body = stream.compress(tar_bytes([(member("a.md"), b"x" * 10_000)])) + stream.flush(zlib.Z_SYNC_FLUSH)
    with pytest.raises(CorruptArchive, match="cut short"):
        entries_of(body)
