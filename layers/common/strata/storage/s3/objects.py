"""`ObjectStore` in S3."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, BinaryIO, cast

from botocore.exceptions import ClientError

from strata.errors import StoreUnavailable, UploadRejected, UploadTooLarge
from strata.ports.objects import PresignedPost, StoredObject
from strata.storage.aws import aws_errors

STORE = "S3"
_READ_BYTES = 1024 * 1024
_MISSING = frozenset({"404", "NoSuchKey", "NoSuchVersion", "NotFound"})


@dataclass(frozen=True, slots=True, kw_only=True)
class S3ObjectStore:
    client: Any
    bucket: str

    def put(self, key: str, body: bytes, *, content_type: str) -> StoredObject:
        with aws_errors(STORE):
            reply = self.client.put_object(Bucket=self.bucket, Key=key, Body=body, ContentType=content_type)
        return StoredObject(key=key, size_bytes=len(body), version=reply.get("VersionId"))

    def head(self, key: str, *, version: str | None = None) -> StoredObject | None:
        reply = self._head(key, version)
        if reply is None:
            return None
        return StoredObject(key=key, size_bytes=reply["ContentLength"], version=reply.get("VersionId"))

    @contextmanager
    def download(self, key: str, *, version: str | None = None, max_bytes: int) -> Iterator[BinaryIO]:
        """Raises `StoreUnavailable` too, for an object without versions that is replaced meanwhile."""
        head = self._head(key, version)
        if head is None:
            raise UploadRejected("The upload is no longer in the bucket; send it again.")
        if head["ContentLength"] > max_bytes:
            raise UploadTooLarge(f"The upload has {head['ContentLength']:,} bytes; at most {max_bytes:,} are accepted.")
        with tempfile.TemporaryFile() as file:
            with aws_errors(STORE), closing(self._body(key, version, head["ETag"])) as body:
                for piece in body.iter_chunks(_READ_BYTES):
                    file.write(piece)
            file.seek(0)
            yield cast(BinaryIO, file)

    def presigned_post(self, key: str, *, max_bytes: int, content_type: str, expires_in_s: int) -> PresignedPost:
        with aws_errors(STORE):
            # The exact key is a condition of every presigned post.
            post = self.client.generate_presigned_post(
                self.bucket,
                key,
                Fields={"Content-Type": content_type},
                Conditions=[{"Content-Type": content_type}, ["content-length-range", 0, max_bytes]],
                ExpiresIn=expires_in_s,
            )
        return PresignedPost(url=post["url"], fields=post["fields"], expires_in_s=expires_in_s)

    def remove_all(self, prefix: str, *, before: datetime) -> None:
        with aws_errors(STORE):
            for page in self.client.get_paginator("list_object_versions").paginate(Bucket=self.bucket, Prefix=prefix):
                old = [
                    {"Key": found["Key"], "VersionId": found["VersionId"]}
                    for found in [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
                    if found["LastModified"] < before
                ]
                if old:
                    reply = self.client.delete_objects(Bucket=self.bucket, Delete={"Objects": old, "Quiet": True})
                    if errors := reply.get("Errors"):
                        raise StoreUnavailable(f"S3 did not remove {len(errors)} objects ({errors[0].get('Code')}).")

    def _head(self, key: str, version: str | None) -> dict[str, Any] | None:
        try:
            with aws_errors(STORE):
                return cast(dict[str, Any], self.client.head_object(Bucket=self.bucket, Key=key, **_of(version)))
        except ClientError as error:
            if error.response["Error"]["Code"] in _MISSING:
                return None
            raise

    def _body(self, key: str, version: str | None, etag: str) -> Any:
        try:
            # What is read is what was measured: not an object that came under the same key in between.
            return self.client.get_object(Bucket=self.bucket, Key=key, IfMatch=etag, **_of(version))["Body"]
        except ClientError as error:
            if error.response["Error"]["Code"] in _MISSING | {"PreconditionFailed", "412"}:
                raise StoreUnavailable("The upload was replaced while it was read.") from error
            raise


def _of(version: str | None) -> dict[str, str]:
    """The parameter that names a version; a bucket without versions calls the one that it has `null`."""
    return {} if version is None or version == "null" else {"VersionId": version}
