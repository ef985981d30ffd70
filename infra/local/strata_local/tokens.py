"""Development tokens: who a request comes from, on this machine.

Deployed, an authorizer turns a token into claims; here a token signed with this data directory's own secret gives the
same claims, and a request without a token is `local`.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

import jwt

Claims = dict[str, str]
"""`requestContext.authorizer` of a REST event, flat: `groups` joined by commas, `scopes` by spaces."""

ALGORITHM = "HS256"
AUDIENCE = "strata-local"
SECRET_FILE = "dev-secret"  # noqa: S105 - the name of the file
LOCAL_CLAIMS: Claims = {"sub": "local", "tenant": "local", "groups": "", "scopes": "internal"}


class InvalidToken(Exception):
    """The token is not one of this local cloud's, or has expired."""


def dev_token(
    data_directory: Path,
    subject: str,
    *,
    tenant: str = "local",
    groups: Sequence[str] = (),
    scopes: Sequence[str] = (),
    expires_in_s: int = 30 * 24 * 3600,
) -> str:
    """A token that the local cloud in this data directory accepts; the secret is made if there is none yet."""
    claims = {
        "sub": subject,
        "tenant": tenant,
        "groups": ",".join(groups),
        "scopes": " ".join(scopes),
        "aud": AUDIENCE,
        "exp": int(time.time()) + expires_in_s,
    }
    return jwt.encode(claims, load_secret(data_directory), algorithm=ALGORITHM)


def claims_of(authorization: str | None, secret: str) -> Claims:
    """The claims of an Authorization header; without one, those of the local user. Raises `InvalidToken`."""
    if authorization is None:
        return dict(LOCAL_CLAIMS)
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer":
        raise InvalidToken("The Authorization header must read `Bearer <token>`.")
    try:
        claims = jwt.decode(
            token.strip(),
            secret,
            algorithms=[ALGORITHM],
            audience=AUDIENCE,
            options={"require": ["exp", "sub", "tenant"]},
        )
    except jwt.PyJWTError as error:
        raise InvalidToken(str(error)) from error
    return {name: str(claims.get(name, "")) for name in ("sub", "tenant", "groups", "scopes")}


def load_secret(data_directory: Path) -> str:
    """The secret that signs this data directory's tokens; made on first use, readable by its owner alone."""
    path = data_directory / SECRET_FILE
    data_directory.mkdir(parents=True, exist_ok=True)
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(48))
    except FileExistsError:
        pass
    return path.read_text(encoding="ascii")
