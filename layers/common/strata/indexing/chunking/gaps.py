"""What is left out between two chunks: where it is more than empty lines, a search can't put them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from strata.model.corpus import BLANKS_BEFORE, VERBATIM_LAYERS, Chunk, Layer


def with_gaps_marked(chunks: Sequence[Chunk], lines: Sequence[str]) -> tuple[Chunk, ...]:
    """A file's chunks, with a mark on those between which and the chunk before more than empty lines were left out."""
    end: dict[Layer, int] = {}
    marked: list[Chunk] = []
    for chunk in chunks:
        left_out = lines[end.get(chunk.layer, chunk.span.start) : chunk.span.start - 1]
        if chunk.layer in VERBATIM_LAYERS:
            end[chunk.layer] = chunk.span.end
        marked.append(replace(chunk, metadata={**chunk.metadata, BLANKS_BEFORE: True}) if any(left_out) else chunk)
    return tuple(marked)
