"""`BedrockScorer`: Bedrock's Rerank API (amazon.rerank-v1:0, cohere.rerank-v3-5:0)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from strata.errors import RerankerRejected, RerankerUnavailable
from strata.providers.bedrock.errors import bedrock_errors
from strata.providers.scores import scores_by_index

MAX_CHARACTERS = 32_000
"""Of the question, and of each passage: what the API takes."""
MAX_PASSAGES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BedrockScorer:
    """A `PassageScorer`. `client` is boto3's of `bedrock-agent-runtime`, with its time limits."""

    model_id: str
    model_arn: str
    client: Any = field(repr=False)

    @classmethod
    def of(cls, client: Any, model: str) -> BedrockScorer:
        """`model` is a model's id or its ARN; an id is one of the client's region."""
        region = client.meta.region_name
        arn = (
            model
            if model.startswith("arn:")
            else f"arn:{client.meta.partition}:bedrock:{region}::foundation-model/{model}"
        )
        return cls(model_id=model.rpartition("/")[2], model_arn=arn, client=client)

    def scores(self, question: str, passages: Sequence[str]) -> list[float]:
        if len(passages) > MAX_PASSAGES:
            raise RerankerRejected(f"Bedrock scores {MAX_PASSAGES:,} passages at once, not {len(passages):,}.")
        request: dict[str, Any] = {
            "queries": [{"type": "TEXT", "textQuery": {"text": question[:MAX_CHARACTERS]}}],
            "sources": [
                {
                    "type": "INLINE",
                    "inlineDocumentSource": {"type": "TEXT", "textDocument": {"text": passage[:MAX_CHARACTERS]}},
                }
                for passage in passages
            ],
            "rerankingConfiguration": {
                "type": "BEDROCK_RERANKING_MODEL",
                "bedrockRerankingConfiguration": {
                    "modelConfiguration": {"modelArn": self.model_arn},
                    "numberOfResults": len(passages),
                },
            },
        }
        results: list[tuple[Any, Any]] = []
        with bedrock_errors("The reranker", unavailable=RerankerUnavailable, rejected=RerankerRejected):
            while True:
                reply = self.client.rerank(**request)
                results += [(result.get("index"), result.get("relevanceScore")) for result in reply.get("results", [])]
                if not (token := reply.get("nextToken")) or len(results) >= len(passages):
                    break
                request["nextToken"] = token
        return scores_by_index(results, len(passages))
