"""Any other text → D1 catalogue and D3 windows, cut at line borders, blank lines first.

The same cuts serve a source file that its own parser refuses (see `strata.indexing.code`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from strata.indexing.docs.catalog import catalog
from strata.indexing.docs.frontmatter import Frontmatter
from strata.indexing.passages import ParsedSource, Passage
from strata.indexing.reading import source_lines, text_of
from strata.indexing.window_prices import window_prices
from strata.model.corpus import Document, Layer, Span

_MAX_SUMMARY_LINES = 8


def parse_text(path: str, text: str) -> ParsedSource:
    lines = source_lines(text)
    filled = [number for number, line in enumerate(lines, start=1) if line.strip()]
    if not filled:
        return ParsedSource(passages=())
    span = Span(start=filled[0], end=filled[-1])
    title = path.rpartition("/")[2]
    summary = _first_paragraph(lines, span.start)
    return ParsedSource(
        passages=(
            catalog(
                title=title,
                artifact_type="text",
                frontmatter=Frontmatter(),
                summary=summary,
                outline=(),
                title_line=None,
                line_count=len(lines),
            ),
            Passage(
                document=Document(
                    layer=Layer.D3_SECTION_INDEX,
                    title=title,
                    content=text_of(lines, span),
                    span=span,
                    metadata={"artifact_type": "text"},
                ),
                verbatim=True,
                prices=window_prices(lines),
                overlaps=True,
            ),
        )
    )


def _first_paragraph(lines: Sequence[str], start: int) -> tuple[str, Span]:
    shown = list(_until_blank(lines[start - 1 : start - 1 + _MAX_SUMMARY_LINES]))
    return " ".join(" ".join(shown).split()), Span(start=start, end=start + len(shown) - 1)


def _until_blank(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        if not line.strip():
            return
        yield line
