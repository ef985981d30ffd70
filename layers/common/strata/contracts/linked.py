"""The links of a file or a symbol on the wire."""

from __future__ import annotations

from dataclasses import asdict

from strata.contracts.jobs import View
from strata.indexing.linked import LinkReport
from strata.model.corpus import LinkKind
from strata.model.links import FoundLink


class PlaceView(View):
    """A definition: a file's path, or a symbol's qualified name."""

    path: str
    name: str
    line: int


class LinkView(View):
    """`path` and `line` are where `symbol`, or the file as a whole where it is empty, names `target`.

    `leads_to` is null for a name that nothing in the session defines: another package's, say.
    """

    kind: LinkKind
    path: str
    line: int
    symbol: str
    target: str
    leads_to: PlaceView | None

    @classmethod
    def of(cls, link: FoundLink) -> LinkView:
        return cls(**asdict(link))


class LinksView(View):
    """`uses` is what it names, `used_by` what names it; each by path and line, up to 200 of each."""

    session_id: str
    uses: list[LinkView]
    used_by: list[LinkView]
    truncated: bool

    @classmethod
    def of(cls, session_id: str, report: LinkReport) -> LinksView:
        return cls(
            session_id=session_id,
            uses=[LinkView.of(link) for link in report.links.outgoing],
            used_by=[LinkView.of(link) for link in report.links.incoming],
            truncated=report.truncated,
        )
