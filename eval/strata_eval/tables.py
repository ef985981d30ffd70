"""The ladder as tables for a reader: one a set, a column a step, a row a figure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

SHOWN = {
    "hit@1": "hit@1", "hit@5": "hit@5", "hit@10": "hit@10", "mrr@10": "mrr@10", "ndcg@10": "ndcg@10",
    "precision@5": "prec@5 rows", "precision@5_by_chunk": "prec@5 golden",
    "precision@5_by_document": "prec@5 files",
    "pass@5": "pass@5", "pass@10": "pass@10", "pass@20": "pass@20",
    "symbol_hit@10": "symbol_hit@10", "symbol_ndcg@10": "symbol_ndcg@10", "tokens@10": "tokens@10",
}  # fmt: skip
"""Metrics, and what stands before their rows."""

Report = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderTable:
    """`notes` are sentences that belong under the table."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]


def ladder_table(report: Report) -> LadderTable:
    """A set's ladder: BM25 alone, then each step; only figures that some step has."""
    title = (
        f"{report['set']}: {report['queries']:,} questions, {report['files']:,} files, {report['chunks']:,} chunks, "
        f"{report['embedder']}"
    )
    return LadderTable(
        title=title,
        columns=("", "bm25", *(step["name"] for step in report["steps"])),
        rows=tuple(_rows(report)),
        notes=tuple(_notes(report)),
    )


def _rows(report: Report) -> Iterator[tuple[str, ...]]:
    steps = report["steps"]
    measured = [report["arms"]["bm25"], *(step["metrics"] for step in steps)]
    for name, label in SHOWN.items():
        shown = ",.0f" if name == "tokens@10" else ".3f"
        if any(name in metrics for metrics in measured):
            yield (label, *(format(metrics[name], shown) if name in metrics else "" for metrics in measured))

    def by_step(label: str, figure: Callable[[Report], str]) -> Iterator[tuple[str, ...]]:
        figures = [figure(step) for step in steps]
        if any(figures):
            yield (label, "", *figures)

    for name in ("p50", "p95"):
        yield from by_step(f"{name} ms", lambda step, name=name: f"{step['latency_ms'][name]:.1f}")  # type: ignore[misc]
    yield from by_step("model tokens", _tokens)
    yield from by_step("cost", lambda step: f"{step['cost']['cost']:g}" if step["cost"]["cost"] else "")
    for name, label in (("mean", "ndcg@10 gains"), ("low", "at least (95 %)"), ("high", "at most (95 %)")):
        yield from by_step(
            label,
            lambda step, name=name: f"{step['difference'][name]:+.3f}" if step["difference"] else "",  # type: ignore[misc]
        )
    yield from by_step("verdict", lambda step: str(step["verdict"]))


def _tokens(step: Report) -> str:
    cost = step["cost"]
    return f"{cost['input_tokens'] + cost['output_tokens']:,}" if cost["calls"] else ""


def _notes(report: Report) -> Iterator[str]:
    for skipped in report["skipped"]:
        yield f"{skipped['name']} was skipped: {skipped['reason']}."
    for step in report["steps"]:
        if step["notes"]:
            failed, why = step["cost"]["failed_questions"], " ".join(step["notes"])
            yield f"{step['name']}: {failed:,} of {report['queries']:,} questions had no help. {why}"
    for count, what in (
        (report["unjudged"], "questions were left out: nothing is relevant to them"),
        (report["unanswerable"], "questions count as missed: what answers them is not in the corpus"),
        (len(report["failed"]), "files could not be indexed (--json names them)"),
    ):
        if count:
            yield f"{count:,} {what}."
    envelope = report["envelope"]
    change, arm = envelope["difference"], envelope["better_arm"]
    yield (
        f"As it ships: ndcg@10 {report['final']['ndcg@10']:.3f}, {change['mean']:+.3f} ({change['low']:+.3f} to "
        f"{change['high']:+.3f}) against the better arm, {arm} with {report['arms'][arm]['ndcg@10']:.3f}."
    )
