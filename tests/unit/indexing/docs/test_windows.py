"""Text of any other kind: windows at line borders."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strata.indexing.docs.windows import artifact_type_of
from strata.model.corpus import Layer
from strata.providers.hashed.embedder import HashedEmbedder
from tests.support.parsing import assert_true_to_the_source, parsed, uncovered_lines

PATHS = ["a.ts", "b.go", "c.css", "d.yaml", "Dockerfile", "NOTES", "e.sql", "f.html", "g.json"]
LINES = [
    "", " ", "\t", "}", "{", "});", "/* a comment", "*/", "# shell", "func f() {", "    return 1;", "key: value", "---",
    "\ufeff", "\u2028", "\x0b", "\x0c", "\x85", "\u200b", "привет, мир", "🤣🤣 е\u0301", "x" * 3_000, "слово " * 400,
    "\x00nul", "```", "| a | b |", '"quoted \\" text"',
]  # fmt: skip


@given(
    st.sampled_from(PATHS),
    st.lists(st.sampled_from(LINES) | st.text(max_size=40), max_size=60),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.integers(32, 600),
)
def test_every_line_of_any_text_is_in_a_true_chunk_within_the_limit(
    path: str, lines: list[str], line_end: str, chunk_tokens: int
) -> None:
    content = line_end.join(lines).encode("utf-8", "replace")
    chunks = parsed(path, content, chunk_tokens=chunk_tokens).chunks
    assert_true_to_the_source(path, content, chunks)
    assert uncovered_lines(path, content, chunks) == []
    counter = HashedEmbedder()
    windows = [chunk for chunk in chunks if chunk.layer is Layer.D3_SECTION_INDEX]
    assert max(counter.count([chunk.embedded_text for chunk in windows]), default=0) <= counter.max_tokens
    assert all(chunk.metadata["artifact_type"] == artifact_type_of(path) for chunk in windows)
    again = parsed(path, content, chunk_tokens=chunk_tokens).chunks
    assert [(chunk.context, chunk.span, chunk.content) for chunk in again] == [
        (chunk.context, chunk.span, chunk.content) for chunk in chunks
    ]
