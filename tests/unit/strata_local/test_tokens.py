"""Development tokens."""

from __future__ import annotations

import time
from pathlib import Path

import jwt
import pytest

from strata_local.tokens import AUDIENCE, InvalidToken, claims_of, dev_token, load_secret


def test_a_token_gives_its_claims_back(tmp_path: Path) -> None:
    token = dev_token(tmp_path, "anna", tenant="acme", groups=["a", "b"], scopes=["ask"])
    claims = claims_of(f"bearer {token}", load_secret(tmp_path))
    assert claims == {"sub": "anna", "tenant": "acme", "groups": "a,b", "scopes": "ask"}


def test_the_secret_stays_and_is_its_owners_alone(tmp_path: Path) -> None:
    assert load_secret(tmp_path) == load_secret(tmp_path)
    assert (tmp_path / "dev-secret").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("claims", "algorithm"),
    [
        pytest.param({"sub": "a", "tenant": "t", "aud": AUDIENCE}, "HS256", id="without an end"),
        pytest.param({"tenant": "t", "aud": AUDIENCE, "exp": "soon"}, "HS256", id="without a subject"),
        pytest.param({"sub": "a", "aud": AUDIENCE, "exp": "soon"}, "HS256", id="without a tenant"),
        pytest.param({"sub": "a", "tenant": "t", "exp": "soon"}, "HS256", id="for anybody"),
        pytest.param({"sub": "a", "tenant": "t", "aud": "other", "exp": "soon"}, "HS256", id="for another"),
        pytest.param({"sub": "a", "tenant": "t", "aud": AUDIENCE, "exp": "soon"}, "HS512", id="another algorithm"),
        pytest.param({"sub": "a", "tenant": "t", "aud": AUDIENCE, "exp": "soon"}, "none", id="no signature"),
    ],
)
def test_any_other_token_is_refused(tmp_path: Path, claims: dict[str, object], algorithm: str) -> None:
    secret = load_secret(tmp_path)
    if claims.get("exp") == "soon":
        claims = {**claims, "exp": int(time.time()) + 60}
    token = jwt.encode(claims, "" if algorithm == "none" else secret, algorithm=algorithm)
    with pytest.raises(InvalidToken):
        claims_of(f"Bearer {token}", secret)
