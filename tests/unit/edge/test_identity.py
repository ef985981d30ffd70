from __future__ import annotations

from typing import Any

import pytest

from strata.edge.identity import identity_of
from strata.errors import Unauthenticated
from strata.model.access import Identity


def event(claims: object) -> dict[str, Any]:
    return {"requestContext": {"authorizer": claims}}


def test_claims_become_an_identity() -> None:
    claims = {"sub": "ann", "tenant": "acme", "groups": "readers, admins,,", "scopes": "read  write", "extra": "x"}
    assert identity_of(event(claims)) == Identity(
        subject="ann", tenant="acme", groups=("readers", "admins"), scopes=("read", "write")
    )


def test_groups_and_scopes_may_be_missing() -> None:
    assert identity_of(event({"sub": "ann", "tenant": "acme"})) == Identity(subject="ann", tenant="acme")


@pytest.mark.parametrize(
    "incoming",
    [
        pytest.param({}, id="no context"),
        pytest.param({"requestContext": None}, id="null context"),
        pytest.param({"requestContext": {}}, id="no authorizer"),
        pytest.param(event(None), id="null authorizer"),
        pytest.param(event("ann"), id="no map"),
        pytest.param(event({"sub": "ann"}), id="no tenant"),
        pytest.param(event({"tenant": "acme"}), id="no subject"),
        pytest.param(event({"sub": " ", "tenant": "acme"}), id="blank subject"),
        pytest.param(event({"sub": ["ann"], "tenant": "acme"}), id="no text"),
        pytest.param({"sub": "ann", "tenant": "acme", "headers": {"sub": "ann", "tenant": "acme"}}, id="elsewhere"),
    ],
)
def test_without_subject_and_tenant_nobody_is_signed_in(incoming: dict[str, Any]) -> None:
    with pytest.raises(Unauthenticated):
        identity_of(incoming)
