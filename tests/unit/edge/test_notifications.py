from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.edge.notifications import invocation_of, uploads_in
from strata.jobs.naming import UploadedObject
from tests.support.lambda_events import LambdaContext, s3_event


def test_a_created_object_is_an_upload_under_its_true_name() -> None:
    event = s3_event("uploads/docs/x.zip")
    event["Records"][0]["s3"]["object"]["key"] = "uploads/docs/this+im+%2B+age+blah.zip"
    assert uploads_in(event) == [
        UploadedObject(
            key="uploads/docs/this im + age blah.zip",
            size_bytes=3,
            version="v1",
            sequencer="0055AED6DCD90281E5",
            etag="d41d8cd98f00b204e9800998ecf8427e",
        )
    ]


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_every_key_comes_back_as_it_was(key: str) -> None:
    assert [upload.key for upload in uploads_in(s3_event(key))] == [key]


def test_an_unversioned_bucket_says_no_version() -> None:
    assert uploads_in(s3_event("k", version=None))[0].version is None


@pytest.mark.parametrize(
    "name", ["ObjectCreated:CompleteMultipartUpload", "s3:ObjectCreated:Put", "ObjectCreated:Copy"]
)
def test_every_way_of_creating_counts(name: str) -> None:
    assert len(uploads_in(s3_event("k", name=name))) == 1


@pytest.mark.parametrize(
    "event",
    [
        pytest.param({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "b"}, id="test event"),
        pytest.param({"Records": []}, id="no records"),
        pytest.param(s3_event("k", name="ObjectRemoved:Delete"), id="removed"),
        pytest.param(s3_event("k", name="LifecycleExpiration:Delete"), id="expired"),
    ],
)
def test_anything_else_is_no_upload(event: dict[str, object]) -> None:
    assert uploads_in(event) == []


def test_every_invocation_has_an_owner_of_its_own() -> None:
    first, redelivered = invocation_of(LambdaContext()), invocation_of(LambdaContext())
    assert first.owner != redelivered.owner
    assert first.remaining_s() == 900.0
