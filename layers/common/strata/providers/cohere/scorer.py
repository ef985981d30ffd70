"""`CohereScorer`: servers that speak Cohere's `POST /v2/rerank`, and those that nearly do.

Cohere, Jina and vLLM answer with `results`, Voyage with `data`. Text Embeddings Inference takes `texts`, answers with a
list, and scores 32 passages a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from strata.errors import RerankerRejected, RerankerUnavailable
from strata.providers.http import JsonApi, checked_url
from strata.providers.scores import scores_by_index

PATH = "/v2/rerank"
TEI_PASSAGES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class CohereScorer:
    """A `PassageScorer`. Passages longer than the model's window are cut by the server."""

    model_id: str
    api: JsonApi
    path: str = PATH
    tei: bool = False

    @classmethod
    def at(cls, url: str, *, model: str, key: str, timeout_s: float, tei: bool = False) -> CohereScorer:
        """`url` is the part before `/v2/rerank` (`/rerank` for TEI), or a whole address that ends in `/rerank`."""
        address = checked_url(url, "STRATA_RERANKER_URL")
        path = "/rerank" if tei else PATH
        if address.endswith("/rerank"):
            address, path = address.removesuffix("/rerank"), "/rerank"
        api = JsonApi(
            name="The reranker",
            url=address,
            key=key,
            timeout_s=timeout_s,
            unavailable=RerankerUnavailable,
            rejected=RerankerRejected,
        )
        return cls(model_id=model, api=api, path=path, tei=tei)

    def scores(self, question: str, passages: Sequence[str]) -> list[float]:
        at_once = TEI_PASSAGES if self.tei else max(1, len(passages))
        parts = [passages[start : start + at_once] for start in range(0, len(passages), at_once)]
        return [score for part in parts for score in self._scores(question, part)]

    def _scores(self, question: str, passages: Sequence[str]) -> list[float]:
        body: dict[str, Any] = {"query": question}
        if self.tei:
            body |= {"texts": list(passages), "truncate": True}
        else:
            body |= {"documents": list(passages), "model": self.model_id}
            if self.path == PATH:  # elsewhere it has another name, and all are scored without it
                body["top_n"] = len(passages)
        return scores_by_index(_results(self.api.post(self.path, body)), len(passages))


def _results(reply: Any) -> list[tuple[Any, Any]]:
    rows = reply.get("results", reply.get("data")) if isinstance(reply, dict) else reply
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise RerankerRejected("The reranker's reply has not the shape of a list of scores.")
    return [(row.get("index"), row.get("relevance_score", row.get("score"))) for row in rows]
