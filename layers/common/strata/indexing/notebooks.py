"""A Jupyter notebook's JSON → the text that is indexed, quoted and opened: its cells in order.

Markdown and raw cells as they are, code cells in fences; a blank line between two. Outputs and attachments, which may
be megabytes of base64, are left out. Lines are counted in this text: the file's own lines are JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from strata.errors import FileUnreadable

_FENCE = re.compile(r"^\s*(`{3,})", re.MULTILINE)
_EMBEDDED = re.compile(r"data:[\w.+-]+/[\w.+-]+(?:;[\w=.-]+)*;base64,[A-Za-z0-9+/=]{40,}")


def notebook_text(text: str) -> str:
    """The cells as Markdown. Raises `FileUnreadable` for what is no notebook."""
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileUnreadable("It is no notebook: its JSON can't be read.") from error
    if not isinstance(notebook, dict):
        raise FileUnreadable("It is no notebook: it holds no cells.")
    cells = notebook.get("cells")
    if cells is None and isinstance(sheets := notebook.get("worksheets"), list):  # format 3
        found = [sheet.get("cells") for sheet in sheets if isinstance(sheet, dict)]
        cells = [cell for cells_ in found if isinstance(cells_, list) for cell in cells_]
    if not isinstance(cells, list):
        raise FileUnreadable("It is no notebook: it holds no cells.")
    language = _language(notebook)
    shown = [cell for cell in _shown(cells, language) if cell.strip()]
    return "\n\n".join(shown) + ("\n" if shown else "")


def _shown(cells: list[Any], language: str) -> Iterator[str]:
    for cell in cells:
        if not isinstance(cell, dict):
            continue
        kind = cell.get("cell_type")
        source = _EMBEDDED.sub("", _joined(cell.get("source", cell.get("input"))).strip("\n"))
        if kind == "code" and source.strip():
            ticks = max((len(found) for found in _FENCE.findall(source)), default=2) + 1
            fence = "`" * max(3, ticks)
            yield f"{fence}{language}\n{source}\n{fence}"
        elif kind == "heading":  # format 3
            level = cell.get("level")
            yield f"{'#' * (level if isinstance(level, int) and 1 <= level <= 6 else 1)} {source}"
        elif kind in ("markdown", "raw"):
            yield source


def _joined(source: object) -> str:
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    return source.replace("\r\n", "\n").replace("\r", "\n") if isinstance(source, str) else ""


def _language(notebook: dict[str, Any]) -> str:
    metadata = notebook.get("metadata")
    info = metadata.get("language_info") if isinstance(metadata, dict) else None
    name = info.get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) and re.fullmatch(r"[\w+#.-]{1,30}", name) else "python"
