"""Documents that name what no longer exists."""

from __future__ import annotations

from dataclasses import dataclass

from strata.errors import SessionNotFound
from strata.indexing.plan import denied
from strata.jobs.naming import is_session_id
from strata.model.access import Identity
from strata.model.links import Drifted
from strata.ports.search import LinkReader

MAX_DRIFTED = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftReport:
    """By path and line; `truncated`: there is more."""

    drifted: tuple[Drifted, ...]
    truncated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftReporter:
    """Compares what documents name with what the session holds, as far as the caller may know either.

    A file that is never indexed (a lock file, say) is no drift: nobody knows whether it exists.
    """

    links: LinkReader

    def report(self, session_id: str, identity: Identity) -> DriftReport:
        """Raises `SessionNotFound`."""
        if not is_session_id(session_id):
            raise SessionNotFound
        found = self.links.drift(session_id, identity, limit=MAX_DRIFTED + 1)
        kept = tuple(item for item in found[:MAX_DRIFTED] if not (item.is_path and denied(item.name)))
        return DriftReport(drifted=kept, truncated=len(found) > MAX_DRIFTED)
