"""boto3 clients as this project uses them, and AWS' errors in our words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,
    HTTPClientError,
    IncompleteReadError,
)

from strata.errors import ConfigurationError, StoreUnavailable

_TEMPORARY = frozenset(
    {
        "InternalError",
        "InternalServerError",
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestTimeout",
        "ServiceUnavailable",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TransactionInProgressException",
    }
)
_MISCONFIGURED = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "ExpiredTokenException",
        "InvalidAccessKeyId",
        "NoSuchBucket",
        "ResourceNotFoundException",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)


def aws_client(service: str, *, connect_timeout_s: float = 3, read_timeout_s: float = 20, attempts: int = 4) -> Any:
    """A client with short time-outs and botocore's standard retries; `AWS_ENDPOINT_URL` points it elsewhere."""
    config = Config(
        connect_timeout=connect_timeout_s,
        read_timeout=read_timeout_s,
        retries={"mode": "standard", "total_max_attempts": attempts},
        tcp_keepalive=True,
    )
    if service == "s3":
        # A bucket's name is no host name on this machine; on AWS a path style URL is on its way out.
        style: Literal["path", "virtual"] = "path" if os.environ.get("AWS_ENDPOINT_URL") else "virtual"
        config = config.merge(Config(signature_version="s3v4", s3={"addressing_style": style}))
    with aws_errors(service):
        return boto3.client(service, config=config)  # type: ignore[call-overload]


@contextmanager
def aws_errors(store: str) -> Iterator[None]:
    """Raise `StoreUnavailable` for what passes by itself and `ConfigurationError` for what somebody must set right.

    `store` is the name that a person reads. Other errors are faults of ours and come through as they are.
    """
    try:
        yield
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if code in _MISCONFIGURED:
            raise ConfigurationError(
                f"{store} refuses the call ({code}): check its name and this role's rights."
            ) from error
        if code in _TEMPORARY or status in (429, 500, 502, 503, 504):
            raise StoreUnavailable(f"{store} can't answer just now ({code}).") from error
        raise
    except (ConnectionError, HTTPClientError, IncompleteReadError) as error:
        raise StoreUnavailable(f"{store} can't be reached just now ({type(error).__name__}).") from error
    except BotoCoreError as error:
        raise ConfigurationError(
            f"{store} can't be called ({type(error).__name__}): check region and credentials."
        ) from error
