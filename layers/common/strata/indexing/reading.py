"""Bytes → the text that every span, quote and citation counts lines in.

The decoded text of a file has no byte-order mark, no NUL, and `\\n` as its only line end: `\\r\\n` and `\\r` are
turned into it, so a file has the same lines however it was checked out. Its blob is still named by its bytes: other
line ends are another blob, prepared anew. Other characters that some tools take for a line end (form feed, U+2028)
stay inside their line. A notebook's text is that of its cells (see `notebooks`).
`source_lines` is the one way to cut the text into lines.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence

from strata.errors import FileUnreadable
from strata.indexing.notebooks import notebook_text
from strata.model.corpus import Span

_MARKED = (  # UTF-32 first: its little-endian mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
NOTEBOOK_SUFFIX = ".ipynb"
_PYTHON_SUFFIXES = (".py", ".pyi", ".pyw")
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", re.ASCII)
_BLANK_OR_COMMENT = re.compile(rb"^[ \t\f]*(?:#.*)?$")
_NOT_FOR_FILES = frozenset({"idna", "punycode", "undefined"})
"""Codecs for host names (their time grows with the square of the size) and one that never decodes."""

_CONTROL = bytes(code for code in range(32) if code not in b"\t\n\f\r\x1b") + b"\x7f"
_MOST_CONTROL_SHARE = 0.1
_SURROGATE = re.compile("[\ud800-\udfff]")


def read_text(path: str, content: bytes) -> str:
    """The decoded text of a file: by its byte-order mark, by a Python file's coding comment, else as UTF-8.

    Raises `FileUnreadable` with the reason.
    """
    encoding = _encoding(path, content)
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        where = content.count(b"\n", 0, error.start) + 1
        name = encoding.upper().removesuffix("-SIG")
        raise FileUnreadable(f"It is not {name} text (line {where}): save it as {name}.") from error
    except (LookupError, UnicodeError) as error:
        raise FileUnreadable(f"Its encoding {encoding!r} can't be read.") from error
    text = text.lstrip("\ufeff").replace("\0", "")
    if path.lower().endswith(NOTEBOOK_SUFFIX):
        text = notebook_text(text)
    return clean_text(text.replace("\r\n", "\n").replace("\r", "\n"))


def source_lines(text: str) -> list[str]:
    """The lines of a decoded text without their ends; line `n` of a span is item `n - 1`.

    >>> source_lines("a\\n\\nb\\n"), source_lines("")
    (['a', '', 'b'], [])
    """
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def text_of(lines: Sequence[str], span: Span) -> str:
    """The source between the lines of a span, both included, without a final line end."""
    return "\n".join(lines[span.start - 1 : span.end])


def clean_text(text: str) -> str:
    """The text as Postgres and JSON can hold it: no NUL, a broken half of a character shown as U+FFFD."""
    text = text.replace("\0", "")
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def looks_binary(content: bytes) -> bool:
    """Whether the bytes are no text in any encoding that we read: not to be indexed, and no fault of the file's.

    Valid UTF-8 with a stray NUL is text; bytes that are neither UTF-8 nor free of control codes are not.
    """
    if any(content.startswith(mark) for mark, _ in _MARKED):
        return False
    share = (len(content) - len(content.translate(None, _CONTROL))) / max(1, len(content))
    if share > _MOST_CONTROL_SHARE:
        return True
    if not share:
        return False
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False


def _encoding(path: str, content: bytes) -> str:
    for mark, encoding in _MARKED:
        if content.startswith(mark):
            return encoding
    if path.lower().endswith(_PYTHON_SUFFIXES):
        for line in re.split(rb"\r\n|\r|\n", content[:1_000], maxsplit=2)[:2]:
            if found := _COOKIE.match(line):
                return _codec_named(found[1].decode("ascii"))
            if not _BLANK_OR_COMMENT.match(line):
                break
    return "utf-8"


def _codec_named(name: str) -> str:
    try:
        codec = codecs.lookup(name).name
    except LookupError as error:
        raise FileUnreadable(f"Its coding comment names {name!r}, which is no known encoding.") from error
    if codec in _NOT_FOR_FILES:
        raise FileUnreadable(f"Its coding comment names {name!r}, which is no encoding for files.")
    return codec
