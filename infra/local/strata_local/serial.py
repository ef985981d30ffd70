"""moto's DynamoDB, one request at a time, and at a cost that does not grow with what the tables hold.

moto checks a condition and writes in two steps, and undoes a refused transaction by putting back a copy of the whole
table: two requests at once may both pass a condition, and a refused one takes other requests' writes with it. It copies
all items for every write of a transaction, and remembers every copy for ever.
"""

from __future__ import annotations

import copy
import threading
from collections import defaultdict
from collections.abc import Sequence
from functools import cache, wraps
from typing import Any

from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import DynamoType, Item
from moto.dynamodb.models.table import Table
from moto.dynamodb.responses import DynamoHandler


@cache
def serialise_dynamodb() -> None:
    """From now on, and once for all, requests to this process' DynamoDB wait for each other."""
    one_at_a_time = threading.RLock()
    unguarded = DynamoHandler.call_action

    @wraps(unguarded)
    def call_action(handler: DynamoHandler) -> Any:
        with one_at_a_time:
            return unguarded(handler)

    DynamoHandler.call_action = call_action  # type: ignore[method-assign]
    Item.__new__ = _forgotten  # type: ignore[method-assign, assignment]
    _copy_what_transactions_name()


def _forgotten(kind: type[Item], *_: object, **__: object) -> Item:
    """An item that moto does not put on its list of all that were ever made."""
    return object.__new__(kind)


def _copy_what_transactions_name() -> None:
    """The copy of a table that moto makes to undo a transaction shares the items that the transaction does not name."""
    named: list[dict[str, Any]] = []
    transact = DynamoDBBackend.transact_write_items

    @wraps(transact)
    def transact_write_items(backend: DynamoDBBackend, transact_items: list[dict[str, Any]]) -> None:
        named[:] = [operation for item in transact_items for operation in item.values()]
        try:
            transact(backend, transact_items)
        finally:
            named.clear()

    def copied(table: Table, memo: dict[int, Any]) -> Table:
        if not named:
            return _as_it_is(table, copy.deepcopy(vars(table), memo))
        items: dict[DynamoType, Any] = defaultdict(dict)
        for hash_value, found in table.items.items():
            items[hash_value] = dict(found) if table.has_range_key else found
        for hash_value, range_value in _keys(table, named):
            if table.has_range_key and range_value in items.get(hash_value, ()):
                items[hash_value][range_value] = copy.deepcopy(items[hash_value][range_value])
            elif not table.has_range_key and hash_value in items:
                items[hash_value] = copy.deepcopy(items[hash_value])
        return _as_it_is(table, {**vars(table), "items": items})

    DynamoDBBackend.transact_write_items = transact_write_items  # type: ignore[method-assign, assignment]
    Table.__deepcopy__ = copied  # type: ignore[attr-defined]


def _as_it_is(table: Table, attributes: dict[str, Any]) -> Table:
    other = object.__new__(type(table))
    vars(other).update(attributes)
    return other


def _keys(table: Table, operations: Sequence[dict[str, Any]]) -> list[tuple[DynamoType, DynamoType | None]]:
    """The keys of the operations on this table."""
    attributes = [operation.get("Key") or operation["Item"] for operation in operations if _is_of(table, operation)]
    return [
        (
            DynamoType(found[table.hash_key_attr]),
            DynamoType(found[table.range_key_attr]) if table.range_key_attr is not None else None,
        )
        for found in attributes
    ]


def _is_of(table: Table, operation: dict[str, Any]) -> bool:
    return operation.get("TableName") == table.name
