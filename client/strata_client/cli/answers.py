"""An answer on the screen, while it is written."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from strata_client.cli.screen import Screen
from strata_client.events import AnswerCollector, AskEvent, Delta, Sources
from strata_client.wire import AnswerView


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Milliseconds from the request, as this client saw them; None for what never came."""

    sources_ms: float | None
    first_delta_ms: float | None
    total_ms: float


def show_answer(screen: Screen, session_id: str, events: Iterator[AskEvent]) -> tuple[AnswerView, Timings]:
    """Write the text as it comes and the cited sources under it; with `--json` only collect."""
    started = time.perf_counter()
    collector = AnswerCollector(session_id)
    sources_ms: float | None = None
    first_delta_ms: float | None = None
    shown = ""
    try:
        for event in events:
            elapsed_ms = (time.perf_counter() - started) * 1000
            collector.add(event)
            if isinstance(event, Sources):
                sources_ms = elapsed_ms
            elif isinstance(event, Delta):
                first_delta_ms = first_delta_ms or elapsed_ms
                shown += event.text
                if not screen.as_json:
                    screen.write(event.text)
    finally:
        if first_delta_ms is not None and not screen.as_json:
            screen.write("\n")  # also after an error, so that it stands on a line of its own
    total_ms = (time.perf_counter() - started) * 1000
    answer = collector.answer()
    if not screen.as_json:
        text = answer["answer"]["text"]
        if shown and shown.strip() != text.strip():
            screen.line("The sources do not support that; it is withdrawn.", style="yellow")
        if shown.strip() != text.strip():
            screen.line(text)
        _show_sources(screen, answer)
        for note in answer["notes"]:
            screen.warn(note)
    return answer, Timings(sources_ms=sources_ms, first_delta_ms=first_delta_ms, total_ms=total_ms)


def _show_sources(screen: Screen, answer: AnswerView) -> None:
    cited = answer["answer"]["citations"]
    if not cited:
        return
    screen.line()
    screen.line("Sources", style="bold")
    shown: set[str] = set()
    for citation in sorted(cited, key=lambda each: (each["n"], each["lines"], each["supported"])):
        line = f"[{citation['n']}] {place(citation['path'], *citation['lines'])}"
        if line in shown:
            continue
        shown.add(line)
        screen.line(f"  {line}" + ("" if citation["supported"] else "  (not supported by these lines)"))
    if not answer["answer"]["grounded"]:
        screen.line("Not every claim is supported by its source; check before you rely on it.", style="yellow")


def place(path: str, first: int, last: int) -> str:
    """As an editor opens it.

    >>> place("src/retry.py", 2, 3), place("src/retry.py", 4, 4)
    ('src/retry.py:2-3', 'src/retry.py:4')
    """
    return f"{path}:{first}" if first == last else f"{path}:{first}-{last}"
