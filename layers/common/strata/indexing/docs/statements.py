"""What a document says piece by piece: the blocks that D2's facts and D4's rules are taken from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from strata.model.corpus import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A paragraph, a list item's own text, or a table row.

    `text` has the source's markup and one line for each line of `span`. `lead` is the sentence or the item above that
    a list item hangs on. `cells` are a row's (column, value) pairs.
    """

    kind: Literal["paragraph", "item", "row"]
    text: str
    span: Span
    section: tuple[str, ...]
    title: str
    lead: str = ""
    cells: tuple[tuple[str, str], ...] = ()
