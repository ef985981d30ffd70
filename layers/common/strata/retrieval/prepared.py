"""A statement as a server prepares it: `$1`, `$2` … for its parameters, whose values go beside it as texts. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_PLACEHOLDER = re.compile(r"%(?:\((\w+)\)s|%)")
_INDEX = "%(index_id)s"
_NUMBER_GOES_HERE = "$0"
"""No parameter has this number."""


@dataclass(frozen=True, slots=True)
class PreparedText:
    """`names` are the parameters in the order of their numbers.

    The number of the index is no parameter: a plan is made for one index, with its size and its partition.
    """

    digest: str
    text: str
    names: tuple[str, ...]

    @classmethod
    def of(cls, statement: str) -> PreparedText:
        """The same statement, from psycopg's `%(name)s`.

        >>> found = PreparedText.of("SELECT %(b)s, %(a)s FROM t WHERE i = %(index_id)s AND b % %(b)s")
        Traceback (most recent call last):
        ...
        ValueError: a % that is neither a parameter nor doubled
        >>> found = PreparedText.of("SELECT %(b)s, %(a)s FROM t WHERE i = %(index_id)s AND b %% %(b)s")
        >>> found.for_index(7), found.names
        ('SELECT $1, $2 FROM t WHERE i = 7 AND b % $1', ('b', 'a'))
        """
        numbers: dict[str, int] = {}

        def numbered(match: re.Match[str]) -> str:
            name = match[1]
            return "%" if name is None else f"${numbers.setdefault(name, len(numbers) + 1)}"

        text = statement.replace(_INDEX, _NUMBER_GOES_HERE)
        if "%" in _PLACEHOLDER.sub("", text):
            raise ValueError("a % that is neither a parameter nor doubled")
        text = _PLACEHOLDER.sub(numbered, text)
        return cls(hashlib.sha256(text.encode()).hexdigest()[:24], text, tuple(numbers))

    def name_for(self, index_id: int) -> str:
        """The name to prepare it under: the same only for the same text and index."""
        return f"strata_{self.digest}_{index_id}"

    def for_index(self, index_id: int) -> str:
        return self.text.replace(_NUMBER_GOES_HERE, str(index_id))

    def arguments(self, parameters: Mapping[str, object]) -> str:
        """The values in the order of their numbers, as Postgres reads an array of texts."""
        return _array([as_text(parameters[name]) for name in self.names])


def as_text(value: object) -> str | None:
    """A text, a number, None, or a list of such, as Postgres reads it.

    >>> as_text(["a", 'say "b\\\\c"', "NULL", ""]), as_text([1, None]), as_text([]), as_text(0.1), as_text(None)
    ('{"a","say \\\\"b\\\\\\\\c\\\\"","NULL",""}', '{"1",NULL}', '{}', '0.1', None)
    """
    if value is None:
        return None
    return _array([as_text(part) for part in value]) if isinstance(value, list) else str(value)


def _array(values: Sequence[str | None]) -> str:
    if values and None not in values:
        together = '","'.join(values)  # type: ignore[arg-type]
        if "\\" not in together and together.count('"') == 2 * (len(values) - 1):
            return f'{{"{together}"}}'
    return "{" + ",".join(map(_quoted, values)) + "}"


def _quoted(value: str | None) -> str:
    if value is None:
        return "NULL"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
