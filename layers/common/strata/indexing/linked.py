"""What a file or a symbol uses, and what uses it."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from strata.errors import SessionNotFound
from strata.jobs.naming import is_session_id
from strata.model.access import Identity
from strata.model.links import Links
from strata.ports.search import LinkReader

MAX_LINKS = 200
"""Each way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkReport:
    """By path and line; `truncated`: there are more, one way or both."""

    links: Links
    truncated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFinder:
    """Joins what files name with what the session defines, as far as the caller may know either."""

    links: LinkReader

    def of(self, session_id: str, identity: Identity, name: str) -> LinkReport:
        """Those of the file of this path, else of symbols whose qualified name is this or ends with it.

        Raises `SessionNotFound`.
        """
        if not is_session_id(session_id):
            raise SessionNotFound
        name = unicodedata.normalize("NFC", name)
        found = self.links.links(session_id, identity, path=name, limit=MAX_LINKS + 1)
        if not (found.outgoing or found.incoming):
            found = self.links.links(session_id, identity, symbol=name, limit=MAX_LINKS + 1)
        return LinkReport(
            links=Links(outgoing=found.outgoing[:MAX_LINKS], incoming=found.incoming[:MAX_LINKS]),
            truncated=max(len(found.outgoing), len(found.incoming)) > MAX_LINKS,
        )
