"""An archive goes to the store by its form."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from strata_client import (
    StrataApiError,
    StrataClient,
)
from tests.support.fake_api import (
    DROP,
    FakeApi,
    Reply,
    job_view,
    json_reply,
)


def test_an_archive_goes_to_the_store_by_the_form_and_without_the_token(
    api: FakeApi, client: StrataClient, tmp_path: Path
) -> None:
    archive = tmp_path / "snapshot.tar.gz"
    content = bytes(range(256)) * 1_000
    archive.write_bytes(content)
    form = client.create_session("shop")["upload"]
    assert form is not None
    sent: list[int] = []

    client.upload(form, archive, sent.append)

    (request,) = api.asked("POST", "/store")
    parts = request.form()
    assert list(parts) == ["key", "Content-Type", "policy", "file"], "the file comes last, or S3 refuses the form"
    assert parts["file"] == content
    assert "authorization" not in request.headers
    assert request.headers["content-length"] == str(len(request.body)), "S3 takes no chunked form"
    assert sent[-1] == len(content)
    assert sent == sorted(sent)


def test_an_upload_that_was_cut_starts_again_from_the_first_byte(
    api: FakeApi, client: StrataClient, tmp_path: Path
) -> None:
    archive = tmp_path / "snapshot.tar.gz"
    archive.write_bytes(b"all of it")
    api.on("POST", "/store", DROP, Reply(status=503), Reply(status=204))
    form = client.create_session("shop")["upload"]
    assert form is not None

    client.upload(form, archive)

    assert [request.form()["file"] for request in api.asked("POST", "/store")] == [b"all of it"] * 3


def test_the_stores_refusal_is_read(api: FakeApi, client: StrataClient, tmp_path: Path) -> None:
    archive = tmp_path / "snapshot.tar.gz"
    archive.write_bytes(b"x")
    xml = b'<?xml version="1.0"?><Error><Code>EntityTooLarge</Code><Message>Too large.</Message></Error>'
    api.on("POST", "/store", Reply(status=400, chunks=[xml]))
    form = client.create_session("shop")["upload"]
    assert form is not None

    with pytest.raises(StrataApiError) as caught:
        client.upload(form, archive)

    assert (caught.value.status, caught.value.code) == (400, "EntityTooLarge")


def test_inline_files_need_no_upload(api: FakeApi, client: StrataClient) -> None:
    api.on("POST", "/api/rag/sessions", json_reply({"session": {}, "job": job_view("queued"), "upload": None}, 200))

    created = client.create_session(
        "shop", files=[{"path": "a.bin", "content_b64": base64.b64encode(b"\0").decode(), "acl": ["user:ann"]}]
    )

    assert created["upload"] is None
    assert api.requests[0].json()["files"][0]["acl"] == ["user:ann"]
