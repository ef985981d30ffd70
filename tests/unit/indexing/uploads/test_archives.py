"""What is read from tar.gz and zip: names, times, contents, in order."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zipfile
from datetime import UTC, datetime

import pytest

from tests.support.packed_uploads import FORMATS, contents_of, entries_of, packed
from tests.support.uploads import member, tar_bytes, tar_gz, zipped


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
