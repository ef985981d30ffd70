from __future__ import annotations

import random
import zlib
from datetime import timedelta
from typing import Any

import pytest

from strata.errors import StrataError
from strata.model.asking import Candidate, Retrieved
from strata.model.corpus import Layer, Span
from strata.storage.dynamodb.client import Table
from strata.storage.dynamodb.query_cache import DynamoQueryCache
from tests.support.asking import retrieved
from tests.support.fakes import FixedClock

FOUND = Candidate(
    chunk_id=2**40,
    path="docs/руководство.md",
    layer=Layer.D3_SECTION_INDEX,
    ordinal=3,
    title="Guide",
    content='текст 🌍\n"quoted" \u2028',
    span=Span(start=3, end=9),
    blob_sha="ab" * 32,
    metadata={"section": ["A", "B"], "staleness_score": 0.25, "owner": None},
    score=0.1 + 0.2,
    dense_rank=None,
    distance=None,
    lexical_rank=1,
    bm25=7.300000190734863,
    prefer_bonus=1,
    test_penalty=1,
    layer_rank=2,
)


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def cache(dynamodb: Any, cache_table: str, clock: FixedClock) -> DynamoQueryCache:
    return DynamoQueryCache(table=Table(client=dynamodb, name=cache_table), clock=clock)


def test_what_is_kept_comes_back_as_it_was(cache: DynamoQueryCache) -> None:
    cache.put("key", retrieved(FOUND), ttl_s=60)
    assert cache.get("key") == retrieved(FOUND)
    assert cache.get("other") is None


def test_an_expired_item_is_absent_though_dynamodb_still_has_it(cache: DynamoQueryCache, clock: FixedClock) -> None:
    cache.put("key", retrieved(FOUND), ttl_s=60)
    clock.advance(timedelta(seconds=59))
    assert cache.get("key") is not None
    clock.advance(timedelta(seconds=1))
    assert cache.get("key") is None
    (item,) = cache.table.client.scan(TableName=cache.table.name)["Items"]
    assert item["expires_at"]["N"] == str(int(clock.now().timestamp()))


def test_what_an_item_can_not_hold_is_not_kept(cache: DynamoQueryCache) -> None:
    noise = random.Random(1)
    large = Retrieved(
        candidates=tuple(
            Candidate(**{**_fields(FOUND), "chunk_id": number, "content": noise.randbytes(20_000).hex()})
            for number in range(1, 21)
        ),
        generation=1,
        embedding_model="m",
    )
    cache.put("key", large, ttl_s=60)
    assert cache.get("key") is None


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"not compressed", id="not compressed"),
        pytest.param(b"x\x9c\xabV*\xa9\xb2R2T\xd2Q", id="cut off"),
        pytest.param(zlib.compress(b"{}"), id="of another shape"),
        pytest.param(zlib.compress(b'{"candidates": [{"layer": "X9"}]}'), id="of another release"),
    ],
)
def test_an_item_that_can_not_be_read_is_absent(cache: DynamoQueryCache, body: bytes) -> None:
    cache.put("key", retrieved(FOUND), ttl_s=60)
    (item,) = cache.table.client.scan(TableName=cache.table.name)["Items"]
    cache.table.client.put_item(TableName=cache.table.name, Item={**item, "body": {"B": body}})
    assert cache.get("key") is None


def test_a_text_is_kept_beside_the_candidates_for_its_time(cache: DynamoQueryCache, clock: FixedClock) -> None:
    cache.put("key", retrieved(FOUND), ttl_s=600)
    assert cache.get_text("key") is None
    cache.put_text("key", "слова \u2028", ttl_s=60)
    cache.put_text("large", "x" * 400_000, ttl_s=60)
    assert (cache.get_text("key"), cache.get_text("large")) == ("слова \u2028", None)
    assert cache.get("key") == retrieved(FOUND)
    clock.advance(timedelta(seconds=60))
    assert cache.get_text("key") is None


def test_every_failure_is_ours(cache: DynamoQueryCache, clock: FixedClock) -> None:
    gone = DynamoQueryCache(table=Table(client=cache.table.client, name="no-such-table"), clock=clock)
    with pytest.raises(StrataError):
        gone.get("key")
    with pytest.raises(StrataError):
        gone.put("key", retrieved(FOUND), ttl_s=60)
    with pytest.raises(StrataError):
        gone.get_text("key")
    with pytest.raises(StrataError):
        gone.put_text("key", "text", ttl_s=60)


def _fields(candidate: Candidate) -> dict[str, Any]:
    return {name: getattr(candidate, name) for name in candidate.__dataclass_fields__}
