"""Any other text → D1 catalogue and D3 windows, cut at line borders, blank lines first.

The same cuts serve a source file that its own parser refuses (see `strata.indexing.code`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from strata.indexing.docs.catalog import catalog
from strata.indexing.docs.frontmatter import Frontmatter
from strata.indexing.parsed import ParsedDocument, ParsedSource
from strata.indexing.reading import source_lines, text_of
from strata.indexing.window_prices import window_prices
from strata.model.corpus import Document, Layer, Note, Span

TOO_LARGE = Note(reason="It is too large to be parsed: cut into windows, without its headings.")
"""Of a document whose own parser would take too long."""

_MAX_SUMMARY_LINES = 8
_KINDS = {
    "bash": "shell", "c": "c", "cc": "cpp", "cfg": "configuration", "clj": "clojure", "cpp": "cpp", "cs": "csharp",
    "css": "css", "csv": "table", "cxx": "cpp", "dart": "dart", "dockerfile": "dockerfile", "ex": "elixir",
    "exs": "elixir", "go": "go", "gradle": "groovy", "graphql": "graphql", "groovy": "groovy", "h": "c", "hcl": "hcl",
    "hpp": "cpp", "hs": "haskell", "htm": "html", "html": "html", "ini": "configuration", "java": "java",
    "js": "javascript", "json": "json", "jsx": "javascript", "kt": "kotlin", "kts": "kotlin", "lua": "lua",
    "makefile": "makefile", "mjs": "javascript", "mk": "makefile", "php": "php", "pl": "perl", "properties":
    "configuration", "proto": "protobuf", "ps1": "powershell", "r": "r", "rb": "ruby", "rs": "rust", "scala": "scala",
    "scss": "css", "sh": "shell", "sql": "sql", "swift": "swift", "tf": "hcl", "toml": "toml", "ts": "typescript",
    "tsv": "table", "tsx": "typescript", "vue": "vue", "xml": "xml", "yaml": "yaml", "yml": "yaml", "zsh": "shell",
}  # fmt: skip
"""Kinds of text, by what follows the last dot of the file's name, or by a name without one."""


def artifact_type_of(path: str) -> str:
    """What kind of text a file's name says it is; `text` where it says nothing.

    >>> artifact_type_of("web/app.ts"), artifact_type_of("Dockerfile"), artifact_type_of("NOTES")
    ('typescript', 'dockerfile', 'text')
    """
    name = path.rpartition("/")[2].lower()
    return _KINDS.get(name.rpartition(".")[2], "text")


def parse_text(path: str, text: str) -> ParsedSource:
    lines = source_lines(text)
    filled = [number for number, line in enumerate(lines, start=1) if line.strip()]
    if not filled:
        return ParsedSource(documents=())
    span = Span(start=filled[0], end=filled[-1])
    title = path.rpartition("/")[2]
    artifact_type = artifact_type_of(path)
    summary = _first_paragraph(lines, span.start)
    return ParsedSource(
        documents=(
            catalog(
                title=title,
                artifact_type=artifact_type,
                frontmatter=Frontmatter(),
                summary=summary,
                outline=(),
                title_line=None,
                line_count=len(lines),
            ),
            ParsedDocument(
                document=Document(
                    layer=Layer.D3_SECTION_INDEX,
                    title=title,
                    content=text_of(lines, span),
                    span=span,
                    metadata={"artifact_type": artifact_type},
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
