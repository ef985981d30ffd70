"""A DynamoDB table as plain Python values, with conditional writes that say what refused them."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from boto3.dynamodb.types import Binary, TypeDeserializer, TypeSerializer
from botocore.exceptions import ClientError

from strata.errors import StoreUnavailable
from strata.storage.aws import aws_errors

STORE = "DynamoDB"
Item = dict[str, Any]
"""Attributes as str, int, bool, None, bytes, list and dict; no floats (DynamoDB has decimals only)."""

_CONTENTION_ATTEMPTS = 80
_BATCH = 25  # the most that one call takes
_serialize = TypeSerializer().serialize
_deserialize = TypeDeserializer().deserialize


class Refused(Exception):
    """A condition of a write did not hold; nothing was written."""


def contention_pauses(attempts: int = _CONTENTION_ATTEMPTS) -> Iterator[None]:
    """Yields once for each attempt at an optimistic write, with a short random pause between two.

    Raises `StoreUnavailable` after the last: so many writers at one item pass by.
    """
    for attempt in range(attempts):
        if attempt:
            time.sleep(random.uniform(0, min(0.25, 0.005 * 2 ** min(attempt, 10))))  # noqa: S311 - not a secret
        yield
    raise StoreUnavailable("Too many writers at the same item; try again.")


def to_attributes(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _serialize(value) for name, value in item.items()}


def from_attributes(attributes: Mapping[str, Any]) -> Item:
    return {name: _plain(_deserialize(value)) for name, value in attributes.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value)
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    return bytes(value.value) if isinstance(value, Binary) else value  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One conditional write on one item: `Put` (`item`), `Update` (`expression`), `Delete` or `ConditionCheck`.

    Names start with `#`, values with `:`; `names` are only needed for DynamoDB's reserved words.
    """

    key: Mapping[str, str]
    condition: str
    item: Mapping[str, Any] | None = None
    expression: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    delete: bool = False

    def request(self, table: str) -> tuple[str, dict[str, Any]]:
        """The operation's name and its parameters, the same alone and in a transaction."""
        parameters: dict[str, Any] = {"TableName": table, "ConditionExpression": self.condition}
        if self.values:
            parameters["ExpressionAttributeValues"] = to_attributes(self.values)
        if self.names:
            parameters["ExpressionAttributeNames"] = dict(self.names)
        if self.item is not None:
            return "Put", parameters | {"Item": to_attributes({**self.key, **self.item})}
        parameters["Key"] = to_attributes(self.key)
        if self.expression is not None:
            return "Update", parameters | {"UpdateExpression": self.expression}
        return "Delete" if self.delete else "ConditionCheck", parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table with the keys `pk` and `sk`; every read is strongly consistent but those of an index."""

    client: Any
    name: str

    def get(self, key: Mapping[str, str]) -> Item | None:
        with aws_errors(STORE):
            reply = self.client.get_item(TableName=self.name, Key=to_attributes(key), ConsistentRead=True)
        return from_attributes(reply["Item"]) if "Item" in reply else None

    def query(
        self,
        condition: str,
        values: Mapping[str, Any],
        *,
        limit: int | None = None,
        newest_first: bool = False,
        index: str | None = None,
    ) -> list[Item]:
        """All items of the condition (or the first `limit`), over as many pages as it takes."""
        parameters: dict[str, Any] = {
            "TableName": self.name,
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": to_attributes(values),
            "ScanIndexForward": not newest_first,
            "ConsistentRead": index is None,
        }
        if index is not None:
            parameters["IndexName"] = index
        items: list[Item] = []
        while True:
            if limit is not None:
                parameters["Limit"] = limit - len(items)
            with aws_errors(STORE):
                reply = self.client.query(**parameters)
            items += [from_attributes(attributes) for attributes in reply["Items"]]
            following = reply.get("LastEvaluatedKey")
            if not following or (limit is not None and len(items) >= limit):
                return items
            parameters["ExclusiveStartKey"] = following

    def put(self, item: Mapping[str, Any]) -> None:
        with aws_errors(STORE):
            self.client.put_item(TableName=self.name, Item=to_attributes(item))

    def remove(self, keys: Sequence[Mapping[str, str]]) -> None:
        """Remove the items, those that are there, in batches; not all or none."""
        for start in range(0, len(keys), _BATCH):
            batch = [{"DeleteRequest": {"Key": to_attributes(key)}} for key in keys[start : start + _BATCH]]
            for _ in contention_pauses(12):
                with aws_errors(STORE):
                    reply = self.client.batch_write_item(RequestItems={self.name: batch})
                batch = reply.get("UnprocessedItems", {}).get(self.name, [])
                if not batch:
                    break

    def write(self, *writes: Write) -> None:
        """All of them or none; raises `Refused` when a condition does not hold.

        Waits out other writers' transactions on the same items.
        """
        requests = [write.request(self.name) for write in writes]
        for _ in contention_pauses(12):
            try:
                with aws_errors(STORE):
                    self._send(requests)
                return
            except ClientError as error:
                if not _is_conflict(error):
                    raise

    def _send(self, requests: Sequence[tuple[str, dict[str, Any]]]) -> None:
        try:
            if len(requests) == 1 and requests[0][0] == "Put":
                self.client.put_item(**requests[0][1])
            elif len(requests) == 1 and requests[0][0] == "Update":
                self.client.update_item(**requests[0][1])
            elif len(requests) == 1 and requests[0][0] == "Delete":
                self.client.delete_item(**requests[0][1])
            else:
                self.client.transact_write_items(TransactItems=[{kind: request} for kind, request in requests])
        except ClientError as error:
            if "ConditionalCheckFailed" in _reasons(error):
                raise Refused from error
            raise


def _reasons(error: ClientError) -> set[str]:
    """Why a write failed: one reason, or one for each part of a transaction."""
    code = str(error.response.get("Error", {}).get("Code", ""))
    if code == "TransactionCanceledException":
        reasons: list[dict[str, Any]] = error.response.get("CancellationReasons", [])  # type: ignore[assignment]
        return {str(reason.get("Code", "None")) for reason in reasons}
    return {code.removesuffix("Exception")}


def _is_conflict(error: ClientError) -> bool:
    """Whether another transaction, or a throttle inside ours, stood in the way: the same write may pass in a moment."""
    passing = {"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"}
    return not _reasons(error).isdisjoint(passing)
