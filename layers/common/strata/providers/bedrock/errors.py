"""Bedrock's errors in our words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError

from strata.errors import ConfigurationError, StrataError, TemporaryError

_PASSING = frozenset(
    {
        "BadGatewayException",
        "ConflictException",
        "DependencyFailedException",
        "InternalServerException",
        "ModelNotReadyException",
        "ModelTimeoutException",
        "ServiceUnavailableException",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
_REFUSED = frozenset({"ModelErrorException", "ValidationException"})


@contextmanager
def bedrock_errors(name: str, *, unavailable: type[TemporaryError], rejected: type[StrataError]) -> Iterator[None]:
    """Raise `unavailable` for what passes by itself, `rejected` for a request that is refused for what it holds, and
    `ConfigurationError` for what somebody must set right. `name` is what a person calls the model.
    """
    try:
        yield
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if code in _PASSING or status == 429 or status >= 500:
            raise unavailable(f"{name} can't answer just now ({code}).") from error
        if code in _REFUSED:
            said = str(error.response.get("Error", {}).get("Message", ""))[:200]
            raise rejected(f"{name} refuses the request ({code}). It says: {said}") from error
        raise ConfigurationError(
            f"Bedrock refuses the call of {name[:1].lower()}{name[1:]} ({code}): check the model's name, that it is "
            "enabled in this region, and this role's rights."
        ) from error
    except (ConnectionError, HTTPClientError) as error:
        raise unavailable(f"{name} can't be reached just now ({type(error).__name__}).") from error
    except BotoCoreError as error:
        raise ConfigurationError(
            f"{name} can't be called ({type(error).__name__}): check region and credentials."
        ) from error
