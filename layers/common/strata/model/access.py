"""Who asks, and what that lets them read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

INTERNAL_SCOPE = "internal"
"""The scope of other services' tokens."""

Principal = str
"""`user:<subject>` or `group:<name>`."""
PRINCIPAL = r"^(user|group):[^\s,\x00-\x1f]{1,200}$"
"""No blank and no comma: claims carry several principals in one text."""
MAX_PRINCIPALS = 200
"""In one list: it stands beside every chunk of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The caller, as the authorizer's claims name them; never taken from a request's body."""

    subject: str
    tenant: str
    groups: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()

    @property
    def user(self) -> Principal:
        return f"user:{self.subject}"

    @property
    def principals(self) -> tuple[Principal, ...]:
        """Everything the caller may act as, sorted: the same caller gives the same cache key."""
        return tuple(sorted({self.user, *(f"group:{group}" for group in self.groups)}))

    def is_named_in(self, acl: Sequence[Principal] | None) -> bool:
        """Whether a file's own list lets the caller read it; a file without one is read by who reads the session."""
        return acl is None or not set(acl).isdisjoint(self.principals)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A named index of one project's files."""

    session_id: str
    tenant: str
    project_id: str
    repo_id: str
    owner: Principal
    readers: tuple[Principal, ...]
    generation: int
    applied_seq: int
    fence: int
    embedding_model: str
    dimension: int
    pipeline_version: str

    def readable_by(self, identity: Identity) -> bool:
        """The owner and the readers, inside their tenant."""
        return identity.tenant == self.tenant and self._allows((self.owner, *self.readers), identity.principals)

    def writable_by(self, identity: Identity) -> bool:
        return identity.tenant == self.tenant and self._allows((self.owner,), identity.principals)

    @staticmethod
    def _allows(allowed: Sequence[Principal], principals: Sequence[Principal]) -> bool:
        return not set(allowed).isdisjoint(principals)
