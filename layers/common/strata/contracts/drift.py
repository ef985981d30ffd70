"""The drift report on the wire."""

from __future__ import annotations

from typing import Literal

from strata.contracts.jobs import View
from strata.indexing.drift import DriftReport


class DriftedView(View):
    """A document and the name in it that leads nowhere; `known` is the longest part that exists."""

    path: str
    line: int
    kind: Literal["file", "symbol"]
    name: str
    known: str | None


class DriftView(View):
    session_id: str
    drift: list[DriftedView]
    truncated: bool

    @classmethod
    def of(cls, session_id: str, report: DriftReport) -> DriftView:
        return cls(
            session_id=session_id,
            drift=[
                DriftedView(
                    path=item.path,
                    line=item.line,
                    kind="file" if item.is_path else "symbol",
                    name=item.name,
                    known=item.known,
                )
                for item in report.drifted
            ],
            truncated=report.truncated,
        )
