from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import FileUnreadable
from strata.indexing.reading import clean_text, read_text, source_lines, text_of
from strata.model.corpus import Span


@pytest.mark.parametrize(
    ("path", "content", "text"),
    [
        pytest.param("a.md", "привет".encode(), "привет", id="UTF-8"),
        pytest.param("a.md", "\ufeff# A".encode(), "# A", id="a byte-order mark"),
        pytest.param("a.md", codecs.BOM_UTF8 * 2 + b"# A", "# A", id="two byte-order marks"),
        pytest.param("a.md", "# Привет".encode("utf-16"), "# Привет", id="UTF-16, little"),
        pytest.param("a.md", codecs.BOM_UTF16_BE + "# Привет".encode("utf-16-be"), "# Привет", id="UTF-16, big"),
        pytest.param("a.md", "# Привет".encode("utf-32"), "# Привет", id="UTF-32"),
        pytest.param("a.md", b"a\r\nb\rc\n", "a\nb\nc\n", id="every line end"),
        pytest.param("a.md", b"a\x0cb\xe2\x80\xa8c", "a\x0cb\u2028c", id="a form feed ends no line"),
        pytest.param("a.md", b"both o\x00er", "both oer", id="a NUL"),
        pytest.param(
            "a.py",
            '# -*- coding: iso-8859-5 -*-\nMSG = "привет"\n'.encode("iso-8859-5"),
            '# -*- coding: iso-8859-5 -*-\nMSG = "привет"\n',
            id="a coding comment",
        ),
        pytest.param(
            "a.py",
            "#!/usr/bin/python\n# vim: set fileencoding=cp1251 :\nx = 'ж'".encode("cp1251"),
            "#!/usr/bin/python\n# vim: set fileencoding=cp1251 :\nx = 'ж'",
            id="a coding comment in the second line",
        ),
        pytest.param("a.py", "#\r# coding: cp1251\rx='ж'".encode("cp1251"), "#\n# coding: cp1251\nx='ж'", id="CR only"),
        pytest.param("a.py", "# coding: koi8-r\nx='ж'".encode("utf-8-sig"), "# coding: koi8-r\nx='ж'", id="mark wins"),
        pytest.param("a.md", "# coding: koi8-r\nж".encode(), "# coding: koi8-r\nж", id="only in Python"),
        pytest.param("a.py", "x = 1\n\n# coding: koi8-r\nж".encode(), "x = 1\n\n# coding: koi8-r\nж", id="too late"),
        pytest.param("a.py", "x = 1\n# coding: koi8-r\nж".encode(), "x = 1\n# coding: koi8-r\nж", id="below code"),
        pytest.param(
            "a.py", b"# coding: unicode_escape\n'\\ud83d\\x00'", "# coding: unicode_escape\n'\ufffd'", id="escapes"
        ),
    ],
)
def test_text_is_decoded(path: str, content: bytes, text: str) -> None:
    assert read_text(path, content) == text


@pytest.mark.parametrize(
    ("path", "content", "reason"),
    [
        pytest.param("a.md", "a\nпривет".encode("cp1251"), "not UTF-8 text (line 2)", id="another encoding"),
        pytest.param("a.py", b"# coding: ascii\nx = '\xd0'", "not ASCII text (line 2)", id="not as it says"),
        pytest.param("a.py", b"# coding: klingon\n", "'klingon', which is no known encoding", id="unknown"),
        pytest.param("a.py", b"# coding: rot13\n", "'rot-13' can't be read", id="no text encoding"),
        pytest.param("a.py", b"# coding: idna\n", "'idna', which is no encoding for files", id="idna"),
        pytest.param("a.py", b"# coding: undefined\n", "'undefined', which is no encoding for files", id="undefined"),
        pytest.param("a.md", codecs.BOM_UTF16_LE + b"a", "not UTF-16 text (line 1)", id="half of a UTF-16 unit"),
    ],
)
def test_what_can_not_be_decoded_has_a_reason(path: str, content: bytes, reason: str) -> None:
    with pytest.raises(FileUnreadable) as caught:
        read_text(path, content)
    assert reason in caught.value.message


@pytest.mark.parametrize(
    ("text", "lines"),
    [("", []), ("\n", [""]), ("a", ["a"]), ("a\n", ["a"]), ("a\n\n", ["a", ""]), ("\na", ["", "a"])],
)
def test_lines_are_what_stands_between_line_ends(text: str, lines: list[str]) -> None:
    assert source_lines(text) == lines


@given(st.text(alphabet="a\r\n\x0b\x0c\x1c\u2028\u0085", max_size=30))
def test_the_lines_make_the_text_again(text: str) -> None:
    decoded = read_text("a.md", text.encode())
    lines = source_lines(decoded)
    assert "\n".join(lines) in (decoded, decoded.removesuffix("\n"))
    if lines:
        assert text_of(lines, Span(start=1, end=len(lines))) == "\n".join(lines)


@given(st.binary(max_size=60), st.sampled_from(["a.md", "a.py"]))
def test_bytes_give_storable_text_or_a_reason(content: bytes, path: str) -> None:
    try:
        text = read_text(path, content)
    except FileUnreadable:
        return
    text.encode("utf-8")
    assert "\0" not in text
    assert "\r" not in text


def test_clean_text_can_be_stored() -> None:
    assert clean_text("a\0b\ud83dc") == "ab\ufffdc"
