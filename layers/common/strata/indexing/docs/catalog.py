"""D1: one document a file, what it is and what it holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from strata.indexing.docs.frontmatter import LIST_FIELDS, Frontmatter
from strata.indexing.parsed import ParsedDocument
from strata.model.corpus import Document, Layer, Span

_MAX_SUMMARY_CHARACTERS = 600
_SHOWN = (
    ("doc_type", "Type"),
    ("domain", "Domain"),
    ("system_component", "Component"),
    ("owner", "Owner"),
    ("status", "Status"),
    ("tags", "Tags"),
    ("entities", "Entities"),
)


def catalog(
    *,
    title: str,
    artifact_type: str,
    frontmatter: Frontmatter,
    summary: tuple[str, Span] | None,
    outline: Sequence[tuple[int, str, int]],
    title_line: int | None,
    line_count: int,
) -> ParsedDocument:
    """The catalogue entry: title, typed fields, summary, outline (level, title, line of each heading).

    Its span holds what says what the file is: frontmatter, title and summary; the outline points at its own lines.
    """
    fields = frontmatter.fields
    rows: list[tuple[str, float]] = [(title, 0.0)]
    for name, label in _SHOWN:
        if value := fields.get(name):
            rows.append((f"{label}: {value if isinstance(value, str) else ', '.join(value)}", 0.5))
    if summary:
        text = summary[0]
        rows.append((text if len(text) <= _MAX_SUMMARY_CHARACTERS else f"{text[:_MAX_SUMMARY_CHARACTERS]}…", 0.3))
    shallowest = min((level for level, _, _ in outline), default=1)
    for level, heading, _ in outline:
        if heading != title:
            rows.append((f"{'  ' * (level - shallowest)}- {heading}", 0.1 * (level - shallowest)))
    metadata: dict[str, Any] = {"artifact_type": artifact_type}
    for name, value in fields.items():
        if name != "doc_title":
            metadata[name] = list(value) if name in LIST_FIELDS else value
    if frontmatter.fault:
        metadata["frontmatter_error"] = frontmatter.fault.text
    return ParsedDocument(
        document=Document(
            layer=Layer.D1_DOCUMENT_CATALOG,
            title=title,
            content="\n".join(text for text, _ in rows),
            span=_span(frontmatter, summary, title_line, line_count),
            metadata=metadata,
        ),
        verbatim=False,
        prices={number: price for number, (_, price) in enumerate(rows, start=1)},
    )


def _span(frontmatter: Frontmatter, summary: tuple[str, Span] | None, title_line: int | None, line_count: int) -> Span:
    starts = [1] if frontmatter.line_count else []
    ends = [frontmatter.line_count] if frontmatter.line_count else []
    if title_line:
        starts.append(title_line)
        ends.append(title_line)
    if summary:
        starts.append(summary[1].start)
        ends.append(summary[1].end)
    return Span(start=min(starts, default=1), end=max(ends, default=max(1, min(line_count, 1))))
