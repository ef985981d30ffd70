"""The caller, as the authorizer's claims name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import Request

from strata.errors import Forbidden, Unauthenticated
from strata.model.access import INTERNAL_SCOPE, Identity


def identity_of(event: Mapping[str, Any]) -> Identity:
    """The caller of a REST API event: `requestContext.authorizer` holds `sub`, `tenant`, `groups` (between commas)
    and `scopes` (between blanks), all text. Raises `Unauthenticated` without subject or tenant.

    Nothing but the authorizer writes there: a header or a body can't.
    """
    context = event.get("requestContext")
    claims = context.get("authorizer") if isinstance(context, Mapping) else None
    if not isinstance(claims, Mapping):
        raise Unauthenticated
    subject, tenant = _text(claims, "sub"), _text(claims, "tenant")
    if not subject or not tenant:
        raise Unauthenticated
    groups = (group.strip() for group in _text(claims, "groups").split(","))
    return Identity(
        subject=subject,
        tenant=tenant,
        groups=tuple(group for group in groups if group),
        scopes=tuple(_text(claims, "scopes").split()),
    )


def caller(request: Request) -> Identity:
    """`identity_of` the request's event, as a dependency of a route."""
    event = request.scope.get("aws.event")
    if not isinstance(event, Mapping):
        raise Unauthenticated
    return identity_of(event)


def internal_caller(request: Request) -> Identity:
    """A caller whose claims have the scope `internal`: another service. Raises `Forbidden` for others."""
    identity = caller(request)
    if INTERNAL_SCOPE not in identity.scopes:
        raise Forbidden
    return identity


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    return value.strip() if isinstance(value, str) else ""
