"""The ladder's table fits a terminal, and says only what was measured."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from strata_client.cli.screen import Screen
from strata_eval.tables import ladder_table

METRICS = {"hit@10": 0.9, "ndcg@10": 0.75, "precision@5": 0.4, "precision@5_by_document": 0.2, "tokens@10": 2400.0}
CHANGE = {"mean": 0.0204, "low": -0.01, "high": 0.05}


def step(name: str, *, change: dict[str, float] | None = None, calls: int = 0) -> dict[str, Any]:
    cost = {"calls": calls, "input_tokens": 1000 * calls, "output_tokens": 0, "cost": 0.5 * calls}
    latency = {"p50": 4.25, "p95": 12.0}
    return {
        "name": name, "verdict": "keep", "metrics": METRICS, "difference": change, "latency_ms": latency, "cost": cost,
        "notes": [],
    }  # fmt: skip


def report(steps: Sequence[dict[str, Any]], **others: object) -> dict[str, Any]:
    envelope = {"better_arm": "bm25", "difference": CHANGE, "holds": True}
    return {
        "set": "small", "embedder": "hashed-256", "queries": 2, "unjudged": 0, "unanswerable": 0, "files": 3,
        "failed": {}, "chunks": 9, "arms": {"bm25": METRICS}, "envelope": envelope, "steps": steps, "skipped": [],
        "final": METRICS, **others,
    }  # fmt: skip


def test_a_column_is_a_step_and_a_row_a_figure() -> None:
    table = ladder_table(report([step("naive"), step("features", change=CHANGE)]))
    rows = {row[0]: row[1:] for row in table.rows}
    assert table.columns == ("", "bm25", "naive", "features")
    assert rows["ndcg@10"] == ("0.750", "0.750", "0.750")
    assert rows["tokens@10"] == ("2,400", "2,400", "2,400")
    assert rows["ndcg@10 gains"] == ("", "", "+0.020")
    assert rows["verdict"] == ("", "keep", "keep")
    assert rows.keys().isdisjoint({"pass@5", "symbol_hit@10", "prec@5 golden", "model tokens", "cost"})


def test_what_a_model_costs_is_shown_where_one_was_asked() -> None:
    table = ladder_table(report([step("features"), step("hyde", calls=2)]))
    rows = {row[0]: row[2:] for row in table.rows}
    assert (rows["model tokens"], rows["cost"]) == (("", "2,000"), ("", "1"))


def test_what_was_left_out_is_said_under_the_table() -> None:
    skipped = [{"name": "hyde", "reason": "no chat model is configured"}]
    of = report([], skipped=skipped, unjudged=4, unanswerable=1, failed={"a.md": "It is no text."})
    notes = ladder_table(of).notes
    assert [note.split()[0] for note in notes] == ["hyde", "4", "1", "1", "As"]


def test_a_model_that_failed_is_named_under_the_table() -> None:
    failing = step("hyde", calls=2)
    failing |= {"notes": ["The chat model failed."], "cost": {**failing["cost"], "failed_questions": 2}}
    assert "hyde: 2 of 2 questions had no help. The chat model failed." in ladder_table(report([failing])).notes


def test_the_pipeline_without_a_model_fits_eighty_columns() -> None:
    steps = [step(name, change=CHANGE) for name in ("naive", "bm25+rrf", "weighing", "names", "features", "structural")]
    table = ladder_table(report(steps))
    screen = Screen()
    screen.out = Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)
    screen.table(table.columns, table.rows, headed=True)
    lines = screen.out.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) == 1 + len(table.rows)
