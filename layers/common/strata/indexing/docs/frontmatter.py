"""The YAML block at the head of a Markdown file, and the fields of it that mean something.

Only a block that begins on the first line counts; a `---` further down is a rule. A block that is no sound YAML is
left out of the body all the same, and the fault is named with its line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import yaml

from strata.indexing.reading import clean_text
from strata.model.corpus import Note

_MAX_CHARACTERS = 64 * 1024
_MAX_VALUE_CHARACTERS = 500
_MAX_ITEMS = 100
_OPENING = re.compile(r"---[ \t]*$")
_CLOSING = re.compile(r"(?:---|\.\.\.)[ \t]*$")
_KEY = re.compile(r"[\w\"'][^:#]*:(?:\s|$)")

TEXT_FIELDS: Mapping[str, str] = {
    "id": "doc_id",
    "title": "doc_title",
    "doc_type": "doc_type",
    "domain": "domain",
    "owner": "owner",
    "status": "status",
    "system_component": "system_component",
}
"""A field's name in the file → its name in the metadata."""
_NO_YAML = "no sound YAML"
LIST_FIELDS = ("tags", "entities", "related_docs", "related_code")


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontmatter:
    """`line_count` lines at the head of the file belong to it, fences included; 0 without one."""

    line_count: int = 0
    fields: Mapping[str, Any] = field(default_factory=dict)
    fault: Note | None = None


def read_frontmatter(lines: Sequence[str]) -> Frontmatter:
    """The typed fields: text, or tuples of text for `LIST_FIELDS`; a field of another shape is left out.

    >>> read_frontmatter(["---", "id: x", "tags: [a, b]", "---", "# T"]).fields
    {'doc_id': 'x', 'tags': ('a', 'b')}
    """
    if not lines or not _OPENING.match(lines[0]):
        return Frontmatter()
    end = next((index for index in range(1, len(lines)) if _CLOSING.match(lines[index])), None)
    if end is None:
        return Frontmatter()
    block = lines[1:end]
    text = "\n".join(block)
    if len(text) > _MAX_CHARACTERS:
        values: object = None
        fault: Note | None = Note(reason=f"the block is longer than {_MAX_CHARACTERS:,} characters", line=2)
    else:
        values, fault = _loaded(text)
    if isinstance(values, dict):
        return Frontmatter(line_count=end + 1, fields=_typed(values))
    first = next((line for line in block if line.strip() and not line.lstrip().startswith("#")), "")
    if not any(line.strip() for line in block) or _KEY.match(first):
        return Frontmatter(line_count=end + 1, fault=fault)
    return Frontmatter()  # a rule, text, and another rule


class _Loader(yaml.SafeLoader):
    """Refuses aliases: merged over and over, a few lines of them grow without bound."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "an alias is not accepted here", event.start_mark)
        return super().compose_node(parent, index)


def _loaded(text: str) -> tuple[object, Note | None]:
    """The value, and what is wrong with the block if it can't be read."""
    try:
        return yaml.load(text, _Loader), None  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 2
        return None, Note(reason=error.problem or _NO_YAML, line=line)
    except RecursionError:
        return None, Note(reason="it is nested too deeply", line=2)
    except (yaml.YAMLError, ValueError, OverflowError, TypeError, AttributeError):
        return None, Note(reason=_NO_YAML, line=2)  # a date of month 13, a number of 5,000 digits


def _typed(values: Mapping[object, object]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, target in TEXT_FIELDS.items():
        if text := _text(values.get(name)):
            fields[target] = text
    for name in LIST_FIELDS:
        value = values.get(name)
        items = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else ()
        if texts := tuple(text for item in items[:_MAX_ITEMS] if (text := _text(item))):
            fields[name] = texts
    return fields


def _text(value: object) -> str:
    """A scalar as text on one line; empty for anything else."""
    if isinstance(value, date):  # also datetime
        value = value.isoformat()
    if isinstance(value, bool):
        value = str(value).lower()
    if not isinstance(value, str | int | float):
        return ""
    return " ".join(clean_text(str(value)).split())[:_MAX_VALUE_CHARACTERS]
