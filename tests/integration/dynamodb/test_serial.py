"""moto's DynamoDB as the local cloud runs it: a refused transaction leaves all as it was, and no copies pile up."""

from __future__ import annotations

import gc
import uuid
from dataclasses import dataclass, field
from typing import Any

import pytest
from moto.dynamodb.models.dynamo_type import Item

ITEMS = 200


@dataclass
class Jobs:
    """A table of many items."""

    client: Any
    has_range: bool
    name: str = field(default_factory=lambda: f"many-{uuid.uuid4().hex}")

    def create(self) -> None:
        keys = {"pk": "HASH", "sk": "RANGE"} if self.has_range else {"pk": "HASH"}
        self.client.create_table(
            TableName=self.name,
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys.items()],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in keys],
            BillingMode="PAY_PER_REQUEST",
        )
        for number in range(ITEMS):
            self.client.put_item(TableName=self.name, Item=self.item(number, "queued"))

    def key(self, number: int) -> dict[str, Any]:
        """With a range, two items share a hash."""
        if self.has_range:
            return {"pk": {"S": f"job-{number // 2}"}, "sk": {"S": f"{number}"}}
        return {"pk": {"S": f"job-{number}"}}

    def item(self, number: int, status: str) -> dict[str, Any]:
        return {**self.key(number), "status": {"S": status}}

    def write(self, *, expected: str) -> None:
        """An item is updated, one is put anew, one is deleted, one is new, if the last one has the status."""
        table = {"TableName": self.name}
        names = {"ExpressionAttributeNames": {"#status": "status"}}
        self.client.transact_write_items(
            TransactItems=[
                {
                    "Update": {
                        **table,
                        **names,
                        "Key": self.key(0),
                        "UpdateExpression": "SET #status = :running",
                        "ExpressionAttributeValues": {":running": {"S": "running"}},
                    }
                },
                {"Put": {**table, "Item": self.item(1, "done")}},
                {"Delete": {**table, "Key": self.key(2)}},
                {"Put": {**table, "Item": self.item(ITEMS, "new")}},
                {
                    "ConditionCheck": {
                        **table,
                        **names,
                        "Key": self.key(3),
                        "ConditionExpression": "#status = :expected",
                        "ExpressionAttributeValues": {":expected": {"S": expected}},
                    }
                },
            ]
        )

    def content(self) -> list[Any]:
        pages = self.client.get_paginator("scan").paginate(TableName=self.name, ConsistentRead=True)
        return sorted((item for page in pages for item in page["Items"]), key=str)


@pytest.fixture(params=[True, False], ids=["hash and range", "hash alone"])
def jobs(request: pytest.FixtureRequest, dynamodb: Any) -> Jobs:
    made = Jobs(dynamodb, request.param)
    made.create()
    return made


def test_a_refused_transaction_changes_nothing(jobs: Jobs) -> None:
    before = jobs.content()
    for _ in range(2):
        with pytest.raises(jobs.client.exceptions.TransactionCanceledException):
            jobs.write(expected="running")
        assert jobs.content() == before
    jobs.client.put_item(TableName=jobs.name, Item=jobs.item(5, "later"))  # the table that was put back is whole
    assert len(jobs.content()) == ITEMS


def test_a_transaction_writes_all(jobs: Jobs) -> None:
    expected = {str(jobs.key(number)): jobs.item(number, "queued") for number in range(ITEMS)}
    del expected[str(jobs.key(2))]
    for number, status in ((0, "running"), (1, "done"), (ITEMS, "new")):
        expected[str(jobs.key(number))] = jobs.item(number, status)
    jobs.write(expected="queued")
    assert jobs.content() == sorted(expected.values(), key=str)


def test_a_transaction_copies_only_what_it_names(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[Item] = []
    deep_copy = Item.__deepcopy__

    def counted(item: Item, memo: dict[int, Any]) -> Item:
        copied.append(item)
        return deep_copy(item, memo)

    monkeypatch.setattr(Item, "__deepcopy__", counted)
    jobs.write(expected="queued")
    assert 0 < len(copied) < 50


def test_items_that_are_gone_are_forgotten(jobs: Jobs) -> None:
    def alive() -> int:
        gc.collect()
        return sum(type(found) is Item for found in gc.get_objects())

    before = alive()
    for _ in range(50):
        jobs.client.put_item(TableName=jobs.name, Item=jobs.item(7, "again"))
        jobs.client.get_item(TableName=jobs.name, Key=jobs.key(7))
        with pytest.raises(jobs.client.exceptions.TransactionCanceledException):
            jobs.write(expected="running")
    assert alive() < before + 20
