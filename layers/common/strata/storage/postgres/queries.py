"""The fixed statements in `sql/*.sql`, by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType

NAME = re.compile(r"^-- name: ([a-z][a-z0-9_]*)[ \t]*$", re.MULTILINE)


@cache
def queries(module: str) -> Mapping[str, bytes]:
    """The statements of `sql/<module>.sql`: each begins with a line `-- name: x` and holds its comments.

    As bytes: psycopg's types take a literal or bytes for SQL, so that no statement is put together from texts.
    Raises `ValueError` for a name given twice or text before the first name.
    """
    text = resources.files(__package__).joinpath("sql", f"{module}.sql").read_text(encoding="utf-8")
    return parsed(text)


def parsed(text: str) -> Mapping[str, bytes]:
    """Split a file of named statements.

    >>> dict(parsed("-- name: one\\nSELECT 1;\\n-- name: two\\n-- Says two.\\nSELECT 2;\\n"))
    {'one': b'SELECT 1', 'two': b'-- Says two.\\nSELECT 2'}
    """
    before, *rest = NAME.split(text)
    if any(not line.startswith("--") for line in before.splitlines() if line.strip()):
        raise ValueError("a statement stands before the first `-- name:`")
    found: dict[str, bytes] = {}
    for name, body in zip(rest[::2], rest[1::2], strict=True):
        if name in found:
            raise ValueError(f"two statements are named {name}")
        found[name] = body.strip().rstrip(";").encode()
    return MappingProxyType(found)
