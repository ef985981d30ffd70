from __future__ import annotations

from dataclasses import replace

import pytest

from strata.errors import SessionNotFound
from strata.indexing.linked import MAX_LINKS, LinkFinder
from strata.model.access import Identity
from strata.model.links import Drifted, FoundLink, Links
from tests.support.factories import identity
from tests.support.link_fakes import PAGE


class ManyLinks:
    """A symbol that is used in so many lines; no file of that name."""

    def __init__(self, count: int) -> None:
        self.found: tuple[FoundLink, ...] = tuple(replace(PAGE, line=line + 1) for line in range(count))

    def links(
        self, session_id: str, identity: Identity, *, path: str | None = None, symbol: str | None = None, limit: int
    ) -> Links:
        return Links(outgoing=(), incoming=self.found[:limit] if symbol == "shop.й" else ())

    def drift(self, session_id: str, identity: Identity, *, limit: int) -> list[Drifted]:
        return []


@pytest.mark.parametrize(("count", "truncated"), [(0, False), (MAX_LINKS, False), (MAX_LINKS + 1, True)])
def test_more_links_than_are_shown_are_told_of(count: int, truncated: bool) -> None:
    report = LinkFinder(links=ManyLinks(count)).of("shop", identity(), "shop.и\u0306")  # in the other Unicode form
    assert (len(report.links.incoming), report.truncated) == (min(count, MAX_LINKS), truncated)


def test_what_can_name_no_session_is_not_looked_for() -> None:
    with pytest.raises(SessionNotFound):
        LinkFinder(links=ManyLinks(1)).of("../x", identity(), "shop")
