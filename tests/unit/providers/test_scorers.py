"""Cross-encoders over real HTTP and over botocore's stubs: a finite score a passage, in order, or an error of ours."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from strata.errors import ConfigurationError, RerankerRejected, RerankerUnavailable, StrataError
from strata.jobs.retrying import RetryPolicy
from strata.providers.bedrock.scorer import BedrockScorer
from strata.providers.cohere.scorer import TEI_PASSAGES, CohereScorer
from strata.providers.persistence import PersistentScorer
from tests.support.model_server import Reply, model_server, word_overlap

PASSAGES = ["nothing here", "the retry delay is two seconds", "a delay"]
SCORES = [0.0, 1.0, 0.5]
QUESTION = "retry delay"


def ranked(body: dict[str, Any], passages: list[str]) -> list[tuple[int, float]]:
    scores = [(index, word_overlap(body["query"], passage)) for index, passage in enumerate(passages)]
    return sorted(scores, key=lambda pair: -pair[1])


def cohere(path: str, body: dict[str, Any]) -> Reply:
    rows = [{"index": index, "relevance_score": score} for index, score in ranked(body, body["documents"])]
    return 200, {"id": "1", "results": rows[: body.get("top_n", len(rows))], "meta": {}}


def voyage(path: str, body: dict[str, Any]) -> Reply:
    rows = [{"index": index, "relevance_score": score} for index, score in ranked(body, body["documents"])]
    return (400, {"detail": "unknown field"}) if "top_n" in body else (200, {"object": "list", "data": rows})


def tei(path: str, body: dict[str, Any]) -> Reply:
    if len(body["texts"]) > TEI_PASSAGES:
        return 422, {"error": "batch size exceeded", "error_type": "Validation"}
    return 200, [{"index": index, "score": score} for index, score in ranked(body, body["texts"])]


@pytest.mark.parametrize(
    ("answer", "suffix", "path", "is_tei"),
    [
        pytest.param(cohere, "", "/v2/rerank", False, id="cohere, jina, vllm"),
        pytest.param(cohere, "/v1/rerank", "/v1/rerank", False, id="a whole address"),
        pytest.param(voyage, "/v1/rerank", "/v1/rerank", False, id="voyage"),
        pytest.param(tei, "/", "/rerank", True, id="tei"),
        pytest.param(tei, "/rerank", "/rerank", True, id="tei, a whole address"),
    ],
)
def test_each_dialect_gives_scores_in_the_order_of_the_passages(
    answer: Callable[[str, dict[str, Any]], Reply], suffix: str, path: str, is_tei: bool
) -> None:
    with model_server(answer) as server:
        scorer = CohereScorer.at(f"{server.url}{suffix}", model="rerank-1", key="k", timeout_s=5, tei=is_tei)
        assert scorer.scores(QUESTION, PASSAGES) == SCORES
        many = [f"{'delay' if number % 3 else 'retry delay'} {number}" for number in range(50)]
        assert scorer.scores(QUESTION, many) == [0.5 if number % 3 else 1.0 for number in range(50)]
        assert scorer.scores(QUESTION, []) == []
    assert {sent for sent, _, _ in server.requests} == {path}
    assert is_tei or server.bodies[0]["model"] == "rerank-1"


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        pytest.param((200, {"results": [{"index": 0, "relevance_score": 1}]}), RerankerRejected, id="too few"),
        pytest.param(
            (200, {"data": [{"index": 0, "score": 1}, {"index": 0, "score": 1}]}), RerankerRejected, id="twice"
        ),
        pytest.param((200, [{"index": 0, "score": 1}, {"index": 2, "score": 1}]), RerankerRejected, id="out of range"),
        pytest.param((200, [{"index": 0, "score": 1}, {"index": True, "score": 1}]), RerankerRejected, id="no number"),
        pytest.param((200, b'[{"index":0,"score":NaN},{"index":1,"score":1}]'), RerankerRejected, id="not finite"),
        pytest.param((200, [{"index": 0, "score": "1"}, {"index": 1, "score": 1}]), RerankerRejected, id="a text"),
        pytest.param((200, {"results": "none"}), RerankerRejected, id="no list"),
        pytest.param((200, 7), RerankerRejected, id="a number"),
        pytest.param((400, {"message": "no"}), RerankerRejected, id="refused"),
        pytest.param((429, {}), RerankerUnavailable, id="throttled"),
        pytest.param((403, {}), ConfigurationError, id="forbidden"),
    ],
)
def test_a_reply_that_is_not_one_score_a_passage_is_refused(reply: Reply, error: type[StrataError]) -> None:
    with model_server(lambda path, body: reply) as server, pytest.raises(error):
        CohereScorer.at(server.url, model="m", key="", timeout_s=5).scores("q", ["a", "b"])


def test_a_scorer_that_is_away_for_a_moment_is_asked_again() -> None:
    replies = [(502, {}), (200, {"results": [{"index": 0, "relevance_score": 0.5}]})]
    policy = RetryPolicy(attempts=2, sleep=lambda seconds: None)
    with model_server(lambda path, body: replies.pop(0)) as server:
        scorer = CohereScorer.at(server.url, model="m", key="", timeout_s=5)
        assert PersistentScorer(scorer=scorer, policy=policy).scores("q", ["a"]) == [0.5]


# --- Bedrock ---

ARN = "arn:aws:bedrock:eu-central-1::foundation-model/cohere.rerank-v3-5:0"


def bedrock(model: str = "cohere.rerank-v3-5:0") -> tuple[BedrockScorer, Stubber]:
    client = boto3.client(
        "bedrock-agent-runtime", region_name="eu-central-1", aws_access_key_id="test", aws_secret_access_key="test"
    )
    return BedrockScorer.of(client, model), Stubber(client)


def request(**more: Any) -> dict[str, Any]:
    return {
        "queries": [{"type": "TEXT", "textQuery": {"text": QUESTION}}],
        "sources": [
            {"type": "INLINE", "inlineDocumentSource": {"type": "TEXT", "textDocument": {"text": passage}}}
            for passage in PASSAGES
        ],
        "rerankingConfiguration": {
            "type": "BEDROCK_RERANKING_MODEL",
            "bedrockRerankingConfiguration": {"modelConfiguration": {"modelArn": ARN}, "numberOfResults": 3},
        },
        **more,
    }


@pytest.mark.parametrize("model", ["cohere.rerank-v3-5:0", ARN])
def test_bedrock_is_asked_by_its_rerank_api_page_by_page(model: str) -> None:
    scorer, stub = bedrock(model)
    first = [{"index": 1, "relevanceScore": 1.0}, {"index": 2, "relevanceScore": 0.5}]
    stub.add_response("rerank", {"results": first, "nextToken": "more"}, request())
    stub.add_response("rerank", {"results": [{"index": 0, "relevanceScore": 0.0}]}, request(nextToken="more"))
    with stub:
        assert scorer.scores(QUESTION, PASSAGES) == SCORES
    assert scorer.model_id == "cohere.rerank-v3-5:0"


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("ThrottlingException", 429, RerankerUnavailable),
        ("DependencyFailedException", 424, RerankerUnavailable),
        ("ValidationException", 400, RerankerRejected),
        ("AccessDeniedException", 403, ConfigurationError),
    ],
)
def test_bedrocks_errors_are_ours(code: str, status: int, error: type[StrataError]) -> None:
    scorer, stub = bedrock()
    stub.add_client_error("rerank", code, "no", http_status_code=status)
    with stub, pytest.raises(error, match=code):
        scorer.scores(QUESTION, PASSAGES)


def test_what_bedrock_leaves_out_is_a_fault_and_long_texts_are_cut() -> None:
    scorer, stub = bedrock()
    stub.add_response("rerank", {"results": [{"index": 0, "relevanceScore": math.pi}]})
    with stub, pytest.raises(RerankerRejected, match="1 of 2"):
        scorer.scores("w" * 40_000, ["x" * 40_000, "y"])  # botocore refuses more than the API takes
    with pytest.raises(RerankerRejected, match="1,001"):
        scorer.scores("q", ["x"] * 1_001)
