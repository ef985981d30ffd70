"""BM25 from Postgres equals the reference scorer on real text, also where a question has a thousand words."""

from __future__ import annotations

import json
import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from strata.model.asking import Names
from strata.model.corpus import Layer
from strata.retrieval.statements import lexical
from tests.support.search_rows import SearchRows, TextFile
from tests.support.term_blocks import make_small_blocks, use_blocks

PROJECT = Path(__file__).resolve().parents[3]
SETS = os.environ.get("STRATA_EVAL_DATA", "")
"""A folder of judged sets (`corpus.jsonl`, `queries.jsonl`); without one, this project's own text is enough."""
DEPTH = 50
MAX_FILES, MAX_QUESTIONS, CHUNK_LINES = 150, 12, 30


def own_text() -> tuple[dict[str, str], list[str]]:
    files = {
        path.relative_to(PROJECT).as_posix(): path.read_text(encoding="utf-8")
        for folder, pattern in (("layers/common/strata", "*.py"), ("docs", "*.md"))
        for path in sorted((PROJECT / folder).rglob(pattern))
    }
    paragraphs = [" ".join(part.split()) for text in files.values() for part in text.split("\n\n")]
    questions = [paragraph for paragraph in paragraphs if len(paragraph) > 80]
    return files, random.Random(5).sample(questions, 8)


def judged_text(folder: Path) -> tuple[dict[str, str], list[str]]:
    def read(name: str) -> list[dict[str, str]]:
        return [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]

    chance = random.Random(11)
    corpus = read("corpus.jsonl")
    files = {row["path"]: row["text"] for row in chance.sample(corpus, min(MAX_FILES, len(corpus)))}
    return files, [row["text"] for row in chance.sample(read("queries.jsonl"), MAX_QUESTIONS)]


def corpora() -> list[object]:
    found = [folder for folder in sorted(Path(SETS).iterdir()) if (folder / "corpus.jsonl").exists()] if SETS else []
    judged = [pytest.param(folder, id=folder.name) for folder in found]
    return [pytest.param(None, id="this project"), *judged]


@pytest.mark.parametrize("folder", corpora())
def test_first_rows_are_those_of_the_reference(
    rows: SearchRows, folder: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_small_blocks(monkeypatch)
    files, questions = own_text() if folder is None else judged_text(folder)
    rows.session("real")
    texts = [TextFile(path, pieces(text), layer(path)) for path, text in files.items() if text.strip()]
    rows.commit("real", texts[:-2])
    rows.commit("real", texts[-2:])
    thousand = " ".join(" ".join(questions * 8).split()[:1_000])
    for question in [*questions, "\n\n".join(questions), thousand]:
        request = rows.request("real", question, limit=DEPTH, depth=DEPTH, dense=False)
        request = replace(request, names=Names())
        expected = rows.twin.bm25(request)
        for first_draw, small_rows, most_postings, blocks in (
            (2_000, 0, 99.0, False),
            (100, 0, 99.0, False),
            (100, 0, 0.0, False),
            (100, 100_000, 99.0, False),
            (100, 0, 99.0, True),
        ):
            use_blocks(rows.database, blocks)
            monkeypatch.setattr(lexical, "FIRST_DRAW_ROWS", first_draw)
            monkeypatch.setattr(lexical, "SMALL_ROWS", small_rows)
            monkeypatch.setattr(lexical, "MOST_POSTINGS", most_postings)
            actual = [(row.chunk_id, row.bm25) for row in rows.search.search(request).candidates]
            assert [score for _, score in actual] == pytest.approx([score for _, score in expected[:DEPTH]], rel=1e-5)
            reference = dict(expected)
            assert [score for _, score in actual] == pytest.approx(
                [reference[chunk_id] for chunk_id, _ in actual], rel=1e-5
            )
            assert actual == sorted(actual, key=lambda row: (-(row[1] or 0), row[0]))


def pieces(text: str) -> list[str]:
    lines = text.splitlines()
    return [
        piece
        for start in range(0, len(lines), CHUNK_LINES)
        if (piece := "\n".join(lines[start : start + CHUNK_LINES])).strip()
    ]


def layer(path: str) -> Layer:
    return Layer.C0_SOURCE_CHUNKS if path.endswith(".py") else Layer.D3_SECTION_INDEX
