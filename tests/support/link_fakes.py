"""A `LinkReader` that knows the readers of a session, a link, and two names that lead nowhere."""

from __future__ import annotations

from strata.errors import SessionNotFound
from strata.model.access import Identity
from strata.model.corpus import LinkKind
from strata.model.links import Drifted, FoundLink, Links, Place
from strata.ports.sessions import SessionStore

DRIFTED = (
    Drifted(path="docs/a.md", line=3, name="shop.Gone", is_path=False, known="shop"),
    Drifted(path="docs/a.md", line=9, name="src/gone.py", is_path=True, known=None),
)
PAGE = FoundLink(
    kind=LinkKind.MENTIONS,
    path="docs/a.md",
    symbol="",
    line=3,
    target="shop.Order",
    leads_to=Place(path="shop/orders.py", name="shop.orders.Order", line=7),
)


class FakeLinkReader:
    def __init__(self, sessions: SessionStore, drifted: tuple[Drifted, ...] = DRIFTED) -> None:
        self._sessions = sessions
        self._drifted = drifted

    def links(
        self, session_id: str, identity: Identity, *, path: str | None = None, symbol: str | None = None, limit: int
    ) -> Links:
        self._check(session_id, identity)
        known = path == PAGE.path or symbol == PAGE.target
        return Links(outgoing=(PAGE,) if known else (), incoming=())

    def drift(self, session_id: str, identity: Identity, *, limit: int) -> list[Drifted]:
        self._check(session_id, identity)
        return list(self._drifted[:limit])

    def _check(self, session_id: str, identity: Identity) -> None:
        session = self._sessions.get(session_id)
        if session is None or not session.readable_by(identity):
            raise SessionNotFound
