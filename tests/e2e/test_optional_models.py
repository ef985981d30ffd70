"""Preambles, rewriting and a cross-encoder through the whole local cloud, by models that speak real HTTP."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strata_client.client import StrataClient
from strata_local.up import LocalCloud
from tests.e2e.test_reindex import reindex
from tests.support.courier import FILES, snapshot, tar_gz
from tests.support.model_server import ModelServer, asked, completion, model_server, word_overlap

pytestmark = pytest.mark.e2e


class Provider:
    """Chat and reranking; `away` makes it answer 503 to everything."""

    away = False

    def __call__(self, path: str, body: dict[str, Any]) -> Any:
        if self.away:
            return 503, {}
        if path.endswith("/chat/completions"):
            is_passage = "<passage>" in asked(body)
            return completion("Of the zebrafish chapter." if is_passage else "zebrafish", prompt_tokens=100)
        scores = [word_overlap(body["query"], passage) for passage in body["documents"]]
        return 200, {"results": [{"index": n, "relevance_score": score} for n, score in enumerate(scores)]}


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with model_server(Provider()) as started:
        yield started


@pytest.fixture(scope="module")
def client(server: ModelServer) -> Iterator[StrataClient]:
    environment = {
        "STRATA_EMBEDDER": "hashed", "STRATA_PREAMBLE": "chat", "STRATA_PREAMBLE_TOKENS": "20",
        "STRATA_REWRITE": "both", "STRATA_CHAT": "openai", "STRATA_CHAT_MODEL": "small",
        "STRATA_CHAT_URL": f"{server.url}/v1", "STRATA_CHAT_KEY": "k", "STRATA_CHAT_INPUT_PRICE": "10",
        "STRATA_RERANKER": "cohere", "STRATA_RERANKER_MODEL": "pairs", "STRATA_RERANKER_URL": server.url,
    }  # fmt: skip
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCloud(Path(folder), port=0, environment=environment) as cloud,
        StrataClient(cloud.api_url) as made,
    ):
        yield made


def test_a_snapshot_pays_once_and_a_reindex_of_it_nothing(client: StrataClient, server: ModelServer) -> None:
    job = snapshot(client, "paid", tar_gz(FILES))
    assert job["status"] == "done", job
    used = job["preambles"]
    assert used is not None
    assert used["calls"] == len(server.requests) > 0
    assert used["cost"] == pytest.approx(used["calls"] * 100 * 10 / 1_000_000)
    before = len(server.requests)
    again = reindex(client, "paid", tar_gz(FILES))  # by the state machine, in processes of its own
    assert (again["status"], again["counters"]["cache_miss_files"]) == ("done", 0)
    assert again["preambles"] == {"calls": 0, "input_tokens": 0, "output_tokens": 0, "cost": 0.0}
    more = reindex(client, "paid", tar_gz({**FILES, "docs/new.md": "# Parcels\n\nA parcel is weighed.\n"}))
    assert more["preambles"] is not None
    assert more["preambles"]["calls"] == len(server.requests) - before == 1


def test_a_search_uses_every_model_and_says_when_one_is_away(client: StrataClient, server: ModelServer) -> None:
    snapshot(client, "asked", tar_gz(FILES))
    found = client.retrieve("asked", "how is a webhook signed", explain=True)
    assert found["notes"] == []
    assert any("zebrafish" in str(row["metadata"].get("preamble")) for row in found["rows"])
    for row in found["rows"]:
        assert row["explain"] is not None
        assert [part["name"] for part in row["explain"]["parts"]] == ["cross_encoder"]
        assert row["explain"]["parts"][0]["part"] == pytest.approx(row["score"])
    provider = server.answer
    assert isinstance(provider, Provider)
    provider.away = True
    try:
        degraded = client.retrieve("asked", "where is the secret of a webhook kept", explain=True)
        answer = client.answer("asked", "Where is the secret of a webhook kept?")
    finally:
        provider.away = False
    assert degraded["rows"]
    assert [note.split(":")[0] for note in degraded["notes"]] == [
        "The chat model that puts questions in other words failed (generator_unavailable)",
        "The reranker failed (reranker_unavailable)",
    ]
    assert len(answer["notes"]) == 2
    assert client.retrieve("asked", "where is the secret of a webhook kept")["notes"] == []
