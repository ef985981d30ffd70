from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from strata.errors import ConfigurationError, StoreUnavailable, UploadRejected, UploadTooLarge
from strata.storage.s3.objects import S3ObjectStore

KEY = "uploads/docs/this im + age blah.jsonl"


@pytest.fixture
def objects(s3: Any, bucket: str) -> S3ObjectStore:
    return S3ObjectStore(client=s3, bucket=bucket)


def test_an_object_comes_back_as_it_was_put(objects: S3ObjectStore) -> None:
    stored = objects.put(KEY, b"one\ntwo\n", content_type="application/x-ndjson")
    assert stored.version
    assert objects.head(KEY) == stored
    with objects.download(KEY, max_bytes=8) as file:
        assert file.read() == b"one\ntwo\n"
        assert file.seek(4) == 4
        assert file.read() == b"two\n"


def test_an_object_that_is_not_there_has_no_head_and_is_not_downloaded(objects: S3ObjectStore) -> None:
    assert objects.head(KEY) is None
    with pytest.raises(UploadRejected), objects.download(KEY, max_bytes=8):
        pass


def test_an_object_above_the_cap_is_not_read(objects: S3ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    objects.put(KEY, b"123456789", content_type="application/x-ndjson")
    monkeypatch.setattr(objects.client, "get_object", lambda **_: pytest.fail("it was read"))
    with pytest.raises(UploadTooLarge, match="9 bytes"), objects.download(KEY, max_bytes=8):
        pass


def test_an_object_replaced_between_measuring_and_reading_is_read_another_time(
    objects: S3ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects.put(KEY, b"small", content_type="application/x-ndjson")
    measured = objects.client.head_object(Bucket=objects.bucket, Key=KEY)
    objects.put(KEY, b"large" * 100, content_type="application/x-ndjson")
    monkeypatch.setattr(objects.client, "head_object", lambda **_: measured)
    with pytest.raises(StoreUnavailable), objects.download(KEY, max_bytes=8):
        pass


def test_a_presigned_post_takes_the_file_under_the_exact_key(objects: S3ObjectStore) -> None:
    post = objects.presigned_post(KEY, max_bytes=1_000, content_type="application/gzip", expires_in_s=60)
    sent = httpx.post(post.url, data=dict(post.fields), files={"file": ("a.tar.gz", b"content")})
    assert sent.status_code in (200, 201, 204)
    with objects.download(KEY, max_bytes=1_000) as file:
        assert file.read() == b"content"


def test_a_presigned_post_limits_key_type_and_size(objects: S3ObjectStore) -> None:
    import base64
    import json

    post = objects.presigned_post(KEY, max_bytes=1_000, content_type="application/gzip", expires_in_s=60)
    conditions = json.loads(base64.b64decode(post.fields["policy"]))["conditions"]
    assert {"key": KEY} in conditions
    assert {"Content-Type": "application/gzip"} in conditions
    assert ["content-length-range", 0, 1_000] in conditions
    assert post.expires_in_s == 60
    assert post.url.startswith("http://127.0.0.1:")
    assert objects.bucket in post.url


def test_a_bucket_that_is_not_there_is_a_fault_of_the_settings(s3: Any) -> None:
    with pytest.raises(ConfigurationError, match="S3"):
        S3ObjectStore(client=s3, bucket="no-such-bucket").put(KEY, b"", content_type="text/plain")


def test_exactly_the_accepted_version_is_downloaded(objects: S3ObjectStore) -> None:
    accepted = objects.put(KEY, b"accepted", content_type="text/plain")
    objects.put(KEY, b"replaced", content_type="text/plain")
    with objects.download(KEY, version=accepted.version, max_bytes=100) as file:
        assert file.read() == b"accepted"
    with objects.download(KEY, max_bytes=100) as file:
        assert file.read() == b"replaced"
    with pytest.raises(UploadRejected), objects.download(KEY, version=str(uuid.uuid4()), max_bytes=100):
        pass


def test_every_version_under_a_prefix_is_removed_but_not_what_is_newer_than_the_purge(objects: S3ObjectStore) -> None:
    for body in (b"1", b"2"):
        objects.put(KEY, body, content_type="text/plain")
    neighbour = f"{KEY}-next/door"
    objects.put(neighbour, b"x", content_type="text/plain")
    objects.remove_all(KEY, before=datetime(2020, 1, 1, tzinfo=UTC))
    assert objects.head(KEY) is not None
    objects.remove_all(f"{KEY}-next/", before=datetime.now(UTC) + timedelta(seconds=5))
    assert (objects.head(neighbour), objects.head(KEY) is not None) == (None, True)
    objects.remove_all(KEY, before=datetime.now(UTC) + timedelta(seconds=5))
    assert "Versions" not in objects.client.list_object_versions(Bucket=objects.bucket)
