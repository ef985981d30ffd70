"""How much the fusion trusts meaning and words, from what the question and the embedder are.

An embedder places text of a language that it does not know by its letters, and its list is then close to random: with
equal weights it takes as many of the first places as the good list (measured: nDCG@10 0.95 → 0.67 on Russian questions
with an English model). So the dense list counts by the share of the question that the embedder understands. Nothing
here knows what the corpus is; what scores say is left to the reranker, which sees them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from strata.retrieval.languages import identifiers, known_share, language_shares

LEAST_DENSE_WEIGHT = 0.1
"""Of a language that is not understood: names, numbers and borrowed words still put some rows right."""
LONG_QUESTION_WORDS = 60
LEXICAL_WEIGHT_OF_A_LONG_QUESTION = 0.8
"""A report of a thousand words shares words with everything."""


NAMING_QUESTION_WORDS = 10
"""A question of so few words that names something is about it; a report names whatever it met on its way. Measured on
eight sets, nDCG@10 of the fusion: without the list of names 0.755, with weight 1 0.754, falling with the length 0.760
(whole tickets 0.737, 0.708 and 0.751). In a long question names are not looked for: ranked anew, whole tickets
come to 0.797 with them and to 0.796 without, hit@5 0.894 and 0.903; and it took 1.9 ms of 7 (7,173 rows), up to 10."""


@dataclass(frozen=True, slots=True)
class FusionWeights:
    dense: float
    lexical: float
    exact: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionShape:
    """What a question is like. `understood` is the share of it, 0 to 1, whose language the embedder declares."""

    understood: float
    identifiers: tuple[str, ...]
    words: int


@lru_cache(maxsize=64)  # the fusion and the reranker ask for the same one
def shape_of(text: str, languages: frozenset[str]) -> QuestionShape:
    """The shape of a question for an embedder of these languages (none: an embedder that declares nothing).

    >>> shape_of("Как работает SessionLock?", frozenset({"en"}))
    QuestionShape(understood=0.0, identifiers=('SessionLock',), words=3)
    """
    return QuestionShape(
        understood=known_share(language_shares(text), languages), identifiers=identifiers(text), words=len(text.split())
    )


def fusion_weights(shape: QuestionShape) -> FusionWeights:
    """The weights of the lists in reciprocal rank fusion.

    >>> fusion_weights(shape_of("Где хранится ключ?", frozenset({"en"})))
    FusionWeights(dense=0.1, lexical=1.0, exact=1.0)
    """
    is_long = shape.words > LONG_QUESTION_WORDS
    return FusionWeights(
        dense=LEAST_DENSE_WEIGHT + (1.0 - LEAST_DENSE_WEIGHT) * shape.understood**2,
        lexical=LEXICAL_WEIGHT_OF_A_LONG_QUESTION if is_long else 1.0,
        exact=0.0 if is_long else min(1.0, NAMING_QUESTION_WORDS / max(1, shape.words)),
    )
