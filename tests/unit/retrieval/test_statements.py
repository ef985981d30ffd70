"""Statements are built from fixed parts: nothing of a request ever becomes SQL text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from strata.model.asking import Filter, Question
from strata.model.corpus import Layer
from strata.ports.search import SearchRequest
from strata.retrieval.statements.dense import vector_literal
from strata.retrieval.statements.files import files_statement, session_statement, sources_statement
from strata.retrieval.statements.search import search_statement
from tests.support.factories import identity, unit_vector

HOSTILE = "x'); DROP TABLE rag_chunks; -- %(limit)s {allowed} %s"


@pytest.fixture
def request_() -> SearchRequest:
    return SearchRequest(
        question=Question(
            text=HOSTILE, session_id=HOSTILE, identity=identity(HOSTILE, tenant=HOSTILE, groups=[HOSTILE])
        ),
        embedding=unit_vector("x"),
        embedding_model=HOSTILE,
        terms=(HOSTILE,),
        depth=50,
    )


def test_values_are_parameters_and_every_parameter_is_known(request_: SearchRequest) -> None:
    everything = Filter(
        layers=(Layer.C0_SOURCE_CHUNKS,), path_prefixes=(HOSTILE,), exclude_path_prefixes=(HOSTILE,),
        exclude_like_patterns=(HOSTILE,), prefer_path_prefixes=(HOSTILE,), prefer_like_patterns=(HOSTILE,),
        prefer_non_tests=True,
    )  # fmt: skip
    who = request_.question.identity
    for statement in (
        search_statement(request_),
        search_statement(replace(request_, question=replace(request_.question, filter=everything))),
        search_statement(replace(request_, embedding=None, embedding_model=None, terms=())),
        files_statement(HOSTILE, who, [HOSTILE], layers=[], limit=5),
        session_statement(HOSTILE, who),
        sources_statement(HOSTILE, who, [1]),
    ):
        text = statement.text.as_string()
        assert "DROP" not in text
        assert text % dict.fromkeys(statement.parameters, "")


def test_lists_that_have_nothing_to_search_with_are_not_built(request_: SearchRequest) -> None:
    code = replace(request_.question, filter=Filter(layers=(Layer.C0_SOURCE_CHUNKS,)))
    assert "rag_chunk_terms" not in search_statement(replace(request_, terms=(), question=code)).text.as_string()
    assert "rag_chunk_vectors" not in search_statement(replace(request_, embedding=None)).text.as_string()


@pytest.mark.parametrize(
    ("layers", "embedded", "built"),
    [
        pytest.param((Layer.C0_SOURCE_CHUNKS, Layer.D3_SECTION_INDEX), True, False, id="every layer has vectors"),
        pytest.param((Layer.C0_SOURCE_CHUNKS, Layer.D2_FACT_INDEX), True, True, id="one has none"),
        pytest.param((), True, True, id="any layer"),
        pytest.param((Layer.D2_FACT_INDEX,), False, False, id="a search by words alone"),
    ],
)
def test_rows_that_no_list_can_hold_are_looked_for_where_there_may_be_some(
    request_: SearchRequest, layers: tuple[Layer, ...], embedded: bool, built: bool
) -> None:
    asked = replace(request_, question=replace(request_.question, filter=Filter(layers=layers)))
    if not embedded:
        asked = replace(asked, embedding=None, embedding_model=None)
    assert ("unranked AS" in search_statement(asked).text.as_string()) is built


def test_lists_are_at_least_as_deep_as_the_result(request_: SearchRequest) -> None:
    deep = replace(request_, depth=5, question=replace(request_.question, limit=20))
    assert search_statement(deep).parameters["depth"] == 20


def test_vector_literal_gives_float32_back() -> None:
    vector = np.random.default_rng(1).standard_normal(64).astype(np.float32)
    assert np.array_equal(np.array(vector_literal(vector)[1:-1].split(","), dtype=np.float32), vector)
