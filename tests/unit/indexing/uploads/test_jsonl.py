"""JSON Lines: a file or a change a line."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import CorruptArchive, UploadRejected
from strata.model.access import MAX_PRINCIPALS
from strata.model.jobs import ChangeOp
from tests.support.packed_uploads import contents_of, entries_of
from tests.support.uploads import json_lines


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


def test_an_empty_line_stands_for_no_files() -> None:
    assert entries_of(b"\n", "jsonl") == []


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
