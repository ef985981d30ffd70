"""What the front answers by itself: unknown routes, tokens, sizes, other sites."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from strata_local.tokens import dev_token
from strata_local.up import LocalCloud

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(("method", "path"), [("GET", "/nowhere"), ("DELETE", "/echo/x"), ("GET", "/echo/x/y")])
def test_an_unknown_route_is_404_in_our_shape(http: httpx.Client, method: str, path: str) -> None:
    reply = http.request(method, path)
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "route_not_found")


def test_without_a_token_the_caller_is_local(http: httpx.Client) -> None:
    claims = http.get("/echo/x").json()["event"]["requestContext"]["authorizer"]
    assert {name: claims[name] for name in ("sub", "tenant", "groups", "scopes")} == {
        "sub": "local",
        "tenant": "local",
        "groups": "",
        "scopes": "internal",
    }


def test_a_development_token_says_who_calls(http: httpx.Client, cloud: LocalCloud) -> None:
    token = dev_token(cloud.data_directory, "anna", tenant="acme", groups=["docs", "code"], scopes=["ask", "index"])
    claims = http.get("/echo/x", headers={"authorization": f"Bearer {token}"}).json()["event"]["requestContext"][
        "authorizer"
    ]
    assert (claims["sub"], claims["tenant"], claims["groups"], claims["scopes"]) == (
        "anna",
        "acme",
        "docs,code",
        "ask index",
    )


@pytest.mark.parametrize("header", ["Bearer nonsense", "Bearer", "Basic YTpi", ""])
def test_a_bad_token_is_401(http: httpx.Client, header: str) -> None:
    reply = http.get("/echo/x", headers={"authorization": header})
    assert (reply.status_code, reply.json()["error"]["code"]) == (401, "unauthenticated")


def test_a_token_of_another_cloud_is_401(http: httpx.Client, folder: Path) -> None:
    token = dev_token(folder / "another", "anna")
    assert http.get("/echo/x", headers={"authorization": f"Bearer {token}"}).status_code == 401


def test_an_expired_token_is_401(http: httpx.Client, cloud: LocalCloud) -> None:
    token = dev_token(cloud.data_directory, "anna", expires_in_s=-10)
    assert http.get("/echo/x", headers={"authorization": f"Bearer {token}"}).status_code == 401


def test_more_than_10_megabytes_are_413(http: httpx.Client) -> None:
    assert http.post("/echo/x", content=b"x" * (10 * 1024 * 1024 + 1)).status_code == 413


@pytest.mark.parametrize("headers", [{"host": "evil.example"}, {"origin": "https://evil.example"}, {"origin": "null"}])
def test_another_sites_page_cannot_act_as_the_local_user(http: httpx.Client, headers: dict[str, str]) -> None:
    assert http.get("/echo/x", headers=headers).status_code == 403
