"""Which optional models the settings name, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata import choosing
from strata.bootstrap import environment, models, questions
from strata.errors import ConfigurationError
from strata.indexing import PIPELINE_VERSION
from strata.model.corpus import Layer
from strata.providers.bedrock.chat import BedrockChat
from strata.providers.bedrock.scorer import BedrockScorer
from strata.providers.cohere.scorer import CohereScorer
from strata.providers.hashed.embedder import HashedEmbedder
from strata.providers.onnx.description import DESCRIPTION_FILE, MODEL_FILE, TOKENIZER_FILE
from strata.providers.openai.chat import OpenAiChat
from strata.providers.persistence import PersistentScorer
from strata.providers.static.embedder import TABLE_FILE
from strata.retrieval.cross_encoder import CrossEncoderReranker
from strata.retrieval.expanding import ChatExpander
from strata.retrieval.features import FeatureReranker
from strata.settings.load import load_model_settings
from tests.support.built import forget_what_was_built
from tests.support.models import FakeChat, FakeTextCache

CHAT = {"STRATA_CHAT": "openai", "STRATA_CHAT_MODEL": "small", "STRATA_CHAT_URL": "http://127.0.0.1:9/v1"}
STORES = {"STRATA_BUCKET": "b", "STRATA_JOBS_TABLE": "j", "STRATA_CACHE_TABLE": "c", "STRATA_EMBEDDER": "hashed"}


@pytest.fixture(autouse=True)
def region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")


def features() -> FeatureReranker:
    return FeatureReranker(languages=frozenset())


def test_nothing_is_on_by_default() -> None:
    settings = load_model_settings({})
    assert choosing.version_of_preambles(settings) == ""
    assert choosing.expander(FakeChat(), settings.rewrite, FakeTextCache()) is None
    assert isinstance(choosing.reranker(settings.reranker, features), FeatureReranker)
    with pytest.raises(ConfigurationError, match="STRATA_CHAT must"):
        choosing.chat_model(settings.chat)


def test_each_name_is_its_adapter() -> None:
    chat = choosing.chat_model(load_model_settings(CHAT | {"STRATA_CHAT_TIMEOUT_S": "7"}).chat)
    assert isinstance(chat, OpenAiChat)
    assert (chat.model_id, chat.api.timeout_s) == ("small", 7.0)
    bedrock = choosing.chat_model(load_model_settings({"STRATA_CHAT": "bedrock", "STRATA_CHAT_MODEL": "m"}).chat)
    assert isinstance(bedrock, BedrockChat)
    for name, kind in (("bedrock", BedrockScorer), ("cohere", CohereScorer), ("tei", CohereScorer)):
        settings = load_model_settings(
            {"STRATA_RERANKER": name, "STRATA_RERANKER_MODEL": "m", "STRATA_RERANKER_URL": "http://127.0.0.1:9"}
        )
        chosen = choosing.reranker(settings.reranker, features)
        assert isinstance(chosen, CrossEncoderReranker)
        assert isinstance(chosen.before, FeatureReranker)
        assert isinstance(chosen.scorer, PersistentScorer)
        assert isinstance(chosen.scorer.scorer, kind)
    assert choosing.reranker(load_model_settings({"STRATA_RERANKER": "none"}).reranker, features) is None


@pytest.mark.parametrize(("name", "rewrite", "hyde"), [("rewrite", 1, 0), ("hyde", 0, 1), ("both", 1, 1)])
def test_rewriting_and_hyde_are_chosen_by_name(name: str, rewrite: int, hyde: int) -> None:
    settings = load_model_settings({"STRATA_REWRITE": name, "STRATA_REWRITE_TIMEOUT_S": "1.5"}).rewrite
    found = choosing.expander(FakeChat(), settings, FakeTextCache())
    assert isinstance(found, ChatExpander)
    assert (found.rewrite, found.hyde, found.timeout_s) == (bool(rewrite), bool(hyde), 1.5)


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ({"STRATA_CHAT": "gpt"}, "STRATA_CHAT must be one of: bedrock, extractive, openai"),
        ({"STRATA_CHAT": "openai"}, "STRATA_CHAT_MODEL"),
        ({"STRATA_CHAT": "openai", "STRATA_CHAT_MODEL": "m"}, "STRATA_CHAT_URL"),
        ({"STRATA_RERANKER": "best"}, "STRATA_RERANKER must be one of"),
        ({"STRATA_RERANKER": "cohere"}, "STRATA_RERANKER_MODEL"),
        ({"STRATA_RERANKER": "tei", "STRATA_RERANKER_ROWS": "0"}, "STRATA_RERANKER_ROWS"),
        ({"STRATA_RERANKER": "cohere", "STRATA_RERANKER_MODEL": "m"}, "STRATA_RERANKER_URL"),
        ({"STRATA_RERANKER": "onnx"}, "STRATA_MODEL_DIRECTORY"),
        ({"STRATA_RERANKER": "onnx", "STRATA_MODEL_DIRECTORY": "/nowhere"}, "nowhere/reranker holds no reranker"),
        ({"STRATA_PREAMBLE": "yes"}, "STRATA_PREAMBLE must be one of: chat, none"),
        ({"STRATA_PREAMBLE": "chat", "STRATA_PREAMBLE_LAYERS": "D3,X9"}, "STRATA_PREAMBLE_LAYERS.*X9"),
        ({"STRATA_PREAMBLE_TOKENS": "5"}, "STRATA_PREAMBLE_TOKENS must be 10 to"),
        ({"STRATA_PREAMBLE_TOKENS": "5000"}, "STRATA_PREAMBLE_TOKENS must be 10 to"),
        ({"STRATA_REWRITE": "maybe"}, "STRATA_REWRITE must be one of"),
        ({"STRATA_REWRITE_TIMEOUT_S": "soon"}, "STRATA_REWRITE_TIMEOUT_S is not a number"),
        ({"STRATA_REWRITE_TIMEOUT_S": "nan"}, "STRATA_REWRITE_TIMEOUT_S is below 0"),
        ({"STRATA_RERANKER_TIMEOUT_S": "-1"}, "STRATA_RERANKER_TIMEOUT_S is below 0"),
    ],
)
def test_what_is_wrong_is_named(environment: dict[str, str], names: str) -> None:
    def choose_all() -> None:
        settings = load_model_settings(environment)
        choosing.version_of_preambles(settings)
        choosing.preambler(FakeChat(), settings.preamble, HashedEmbedder(), chunk_tokens=500)
        choosing.expander(FakeChat(), settings.rewrite, FakeTextCache())
        choosing.reranker(settings.reranker, features)
        choosing.chat_model(settings.chat)

    with pytest.raises(ConfigurationError, match=names):
        choose_all()


@pytest.mark.parametrize(
    "chat", [CHAT, {"STRATA_CHAT": "extractive"}, {"STRATA_CHAT": "bedrock", "STRATA_CHAT_MODEL": "m"}]
)
def test_the_preambles_version_is_the_preamblers(chat: dict[str, str]) -> None:
    settings = load_model_settings(chat | {"STRATA_PREAMBLE": "chat", "STRATA_PREAMBLE_LAYERS": "c0, d3,C0"})
    written = choosing.preambler(
        choosing.chat_model(settings.chat), settings.preamble, HashedEmbedder(), chunk_tokens=500
    )
    assert written.version == choosing.version_of_preambles(settings)
    assert written.layers == (Layer.C0_SOURCE_CHUNKS, Layer.D3_SECTION_INDEX)


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A process with stores' names; its factories forget what they have built."""
    for name, value in STORES.items():
        monkeypatch.setenv(name, value)
    forget_what_was_built()
    yield monkeypatch
    forget_what_was_built()


def test_without_settings_the_pipeline_is_the_plain_one(process: pytest.MonkeyPatch) -> None:
    assert models.pipeline_version() == PIPELINE_VERSION
    assert models.preambler() is None
    assert models.expander() is None


def test_the_weight_of_neighbours_is_part_of_what_the_cache_depends_on(process: pytest.MonkeyPatch) -> None:
    plain = questions._retrieval_version()
    environment.settings.cache_clear()
    process.setenv("STRATA_STRUCTURAL_WEIGHT", "0.5")
    assert environment.settings().answering.structural_weight == 0.5
    assert questions._retrieval_version() != plain


def test_the_models_of_a_process_are_those_of_its_environment(process: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in (CHAT | {"STRATA_PREAMBLE": "chat", "STRATA_REWRITE": "both"}).items():
        process.setenv(name, value)
    written, expander = models.preambler(), models.expander()
    assert written is not None
    assert expander is not None
    assert models.pipeline_version() == f"{PIPELINE_VERSION}+{written.version}"
    assert expander.version in questions._retrieval_version()
    assert written.version in questions._retrieval_version()


@pytest.mark.parametrize(
    ("name", "folder", "weights"),
    [("onnx", "minilm", MODEL_FILE), ("e5", "e5", MODEL_FILE), ("static", "wordllama", TABLE_FILE)],
)
def test_each_embedder_has_a_model_of_its_own(
    process: pytest.MonkeyPatch, tmp_path: Path, name: str, folder: str, weights: str
) -> None:
    process.setenv("STRATA_EMBEDDER", name)
    process.setenv("STRATA_MODEL_DIRECTORY", str(tmp_path))
    with pytest.raises(ConfigurationError, match=f"strata model pull {folder}"):
        models.embedding_model()
    (tmp_path / folder).mkdir()
    for file in (weights, TOKENIZER_FILE):
        (tmp_path / folder / file).write_bytes(b"")
    described = {"model_id": "its own", "dimension": 7, "max_tokens": 9, "quantisation": "int8", "weights_sha256": ""}
    (tmp_path / folder / DESCRIPTION_FILE).write_text(json.dumps(described))
    assert models.embedding_model() == models.EmbeddingModel(model_id="its own", dimension=7)


def test_an_embedder_that_does_not_exist_is_refused_with_those_that_do(process: pytest.MonkeyPatch) -> None:
    process.setenv("STRATA_EMBEDDER", "bert")
    with pytest.raises(ConfigurationError, match="`onnx`, `e5`, `static` or `hashed`"):
        models.embedding_model()
