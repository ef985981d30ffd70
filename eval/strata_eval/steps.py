"""The steps of the ladder: what each of them asks of an indexed set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from strata.model.asking import Filter, Question
from strata.model.corpus import Layer
from strata.ports.reranking import Reranker
from strata.ports.search import ChunkSearch, SearchRequest
from strata.retrieval.analyser import leading_terms, query_terms
from strata.retrieval.cross_encoder import CrossEncoderReranker
from strata.retrieval.expanding import ChatExpander
from strata.retrieval.features import FeatureReranker
from strata.retrieval.filters import DEFAULT_LAYERS
from strata.retrieval.retrieve import RERANKED_ROWS, Retriever, checked_text
from strata.retrieval.weighing import FusionWeights, fusion_weights, shape_of
from strata.settings.model import AnsweringSettings, IndexingSettings
from strata_eval.indexed_sets import IDENTITY, session_of
from strata_eval.optional_models import OptionalModels
from strata_eval.scoring import Rows
from strata_eval.vector_cache import CachedEmbedder

ROWS = 50
"""Rows that a step may return: enough for ten files."""
PIPELINE_ROWS = RERANKED_ROWS // 2
"""Rows of the pipeline as it ships: of so many the first ten are the ten that somebody gets who asks for ten, and they
are of ten files or nearly."""
DEPTH = AnsweringSettings().retrieval_depth
ROW_TOKENS = IndexingSettings().chunk_tokens
STRUCTURAL_WEIGHT = 0.5
PATIENCE_S = 120.0
"""A measurement waits for a model: what a time limit cuts off is not its quality."""


class ForgetfulCache:
    """A `TextCache` that keeps nothing: replies are kept between runs already."""

    def get_text(self, key: str) -> str | None:  # noqa: ARG002 - the port names it
        return None

    def put_text(self, key: str, text: str, *, ttl_s: int) -> None:
        """Nothing is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Which optional parts a search has on top of the pipeline as it ships."""

    structural: bool = False
    cross_encoder: bool = False
    rewrite: bool = False
    hyde: bool = False
    preamble: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """An indexed set, and how to ask it. `notes` gathers what did not go as it should."""

    search: ChunkSearch
    embedder: CachedEmbedder
    name: str
    layers: tuple[Layer, ...] = ()
    models: OptionalModels = field(default_factory=OptionalModels)
    notes: list[str] = field(default_factory=list)

    def question(self, text: str, *, rows: int = ROWS) -> Question:
        return Question(
            text=checked_text(text[:8_000]),
            session_id=session_of(self.name),
            identity=IDENTITY,
            filter=Filter(layers=self.layers or DEFAULT_LAYERS),
            limit=rows,
        )

    def rows(self, text: str, *, dense: bool, lexical: bool, weighed: bool = False) -> Rows:
        """The plain search: two lists fused, with equal weights unless `weighed`."""
        question = self.question(text)
        weights = FusionWeights(dense=1.0, lexical=1.0)
        if weighed:
            weights = fusion_weights(shape_of(question.text, self.embedder.languages))
        return self.search.search(
            SearchRequest(
                question=question,
                embedding=self.embedder.embed_query(question.text) if dense else None,
                embedding_model=self.embedder.model_id if dense else None,
                terms=query_terms(question.text) if lexical else (),
                leading_terms=leading_terms(question.text),
                depth=DEPTH,
                dense_weight=weights.dense,
                lexical_weight=weights.lexical,
            )
        ).candidates

    def retrieved(self, text: str, *, features: bool, options: Options | None = None) -> Rows:
        """The product's retriever."""
        options = options or Options()
        reranker: Reranker | None = FeatureReranker(languages=self.embedder.languages) if features else None
        scorer, chat = self.models.scorer, self.models.chat
        if options.cross_encoder and scorer is not None:
            reranker = CrossEncoderReranker(
                scorer=scorer, timeout_s=PATIENCE_S, before=reranker, rows=self.models.reranker.rows
            )
        expander = None
        if chat is not None and (options.rewrite or options.hyde):
            expander = ChatExpander(
                chat=chat,
                cache=ForgetfulCache(),
                rewrite=options.rewrite,
                hyde=options.hyde,
                timeout_s=PATIENCE_S,
                ttl_s=0,
            )
        retriever = Retriever(
            search=self.search,
            embedder=self.embedder,
            depth=DEPTH,
            reranker=reranker,
            expander=expander,
            structural_weight=STRUCTURAL_WEIGHT if options.structural else 0.0,
            row_tokens=ROW_TOKENS,
        )
        asked = self.question(text, rows=PIPELINE_ROWS if features else ROWS)
        if options.preamble:
            asked = replace(asked, session_id=session_of(self.name, preambled=True))
        found = retriever.retrieve(asked)
        self.notes.extend(found.notes)
        return found.candidates


Ask = Callable[[Bench, str], Rows]
STEPS: Mapping[str, Ask] = {
    "naive": lambda bench, text: bench.rows(text, dense=True, lexical=False),
    "bm25+rrf": lambda bench, text: bench.rows(text, dense=True, lexical=True),
    "weighing": lambda bench, text: bench.rows(text, dense=True, lexical=True, weighed=True),
    "names": lambda bench, text: bench.retrieved(text, features=False),
    "features": lambda bench, text: bench.retrieved(text, features=True),
}
"""What each step asks, in the order of the ladder; `names` is the list of what the question names letter for letter,
and the rules that neighbouring rows become one and that twins and one file's many rows don't fill the page."""
OPTIONAL = ("structural", "cross-encoder", "rewrite", "hyde", "preamble")
"""Steps beyond the pipeline as it ships; each stands on `features` and on those before it that were kept. `structural`
adds the neighbours over links, the others need a model of their own."""
FINAL = "features"
"""The pipeline as it ships."""


def with_step(options: Options, step: str) -> Options:
    return replace(options, **{step.replace("-", "_"): True})
