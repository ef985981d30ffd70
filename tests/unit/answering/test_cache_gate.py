from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from strata.answering.cache_gate import CacheGate, cache_key
from strata.errors import SessionNotFound
from strata.model.asking import Filter, Question
from strata.model.corpus import Layer
from tests.support import factories
from tests.support.asking import BrokenQueryCache, FakeQueryCache, Project, question, retrieved

ASKED = question("How long does a lease last?")


def key(of: Question, *, generation: int = 1, model: str = "m", version: str = "1") -> str:
    return cache_key(of, generation, model, version)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replace(ASKED, text="How long did a lease last?"), id="other words"),
        pytest.param(replace(ASKED, text="How long does a Lease last?"), id="other case, which divides identifiers"),
        pytest.param(replace(ASKED, identity=factories.identity("bob")), id="another user"),
        pytest.param(replace(ASKED, identity=factories.identity(groups=["ops"])), id="another group"),
        pytest.param(replace(ASKED, identity=factories.identity(tenant="other")), id="another tenant"),
        pytest.param(replace(ASKED, session_id="other"), id="another session"),
        pytest.param(replace(ASKED, limit=11), id="another limit"),
        pytest.param(replace(ASKED, filter=Filter(layers=(Layer.D3_SECTION_INDEX,))), id="another filter"),
        pytest.param(replace(ASKED, filter=Filter(prefer_non_tests=True)), id="another preference"),
    ],
)
def test_every_part_of_a_question_is_in_the_key(other: Question) -> None:
    assert key(other) != key(ASKED)


def test_the_state_that_answers_is_in_the_key() -> None:
    keys = {key(ASKED), key(ASKED, generation=2), key(ASKED, model="n"), key(ASKED, version="2")}
    assert len(keys) == 4


def test_blanks_and_the_order_of_groups_are_not_in_the_key() -> None:
    one = replace(ASKED, text=" How  long\ndoes a lease last? ", identity=factories.identity(groups=["a", "b"]))
    two = replace(ASKED, identity=factories.identity(groups=["b", "a", "b"]))
    assert key(one) == key(two)


def gate_of(project: Project, cache: FakeQueryCache | BrokenQueryCache) -> CacheGate:
    return CacheGate(cache=cache, search=project.search, retrieval_version="1", ttl_s=60)


def test_what_is_kept_is_found_again_until_the_session_changes() -> None:
    project = Project()
    gate = gate_of(project, FakeQueryCache())
    assert gate.lookup(ASKED) is None
    found = project.retriever().retrieve(ASKED)
    gate.keep(ASKED, found)
    assert gate.lookup(ASKED) == found
    project.index({"new.md": "All is new."})
    assert gate.lookup(ASKED) is None


def test_candidates_are_kept_under_the_state_that_they_were_found_in() -> None:
    project = Project()
    gate = gate_of(project, FakeQueryCache())
    found = project.retriever().retrieve(ASKED)
    project.index({"new.md": "All is new."})  # a commit between the search and the keeping
    gate.keep(ASKED, found)
    assert gate.lookup(ASKED) is None


def test_an_item_of_another_state_is_a_miss() -> None:
    project, cache = Project(), FakeQueryCache()
    gate = gate_of(project, cache)
    gate.keep(ASKED, project.retriever().retrieve(ASKED))
    (only,) = cache.kept
    cache.kept[only] = replace(cache.kept[only], generation=7)
    assert gate.lookup(ASKED) is None


def test_nothing_found_is_not_kept() -> None:
    cache = FakeQueryCache()
    gate_of(Project(), cache).keep(ASKED, retrieved())
    assert cache.kept == {}


def test_what_a_failed_model_has_left_is_not_kept() -> None:
    project, cache = Project(), FakeQueryCache()
    found = replace(project.retriever().retrieve(ASKED), notes=("The reranker failed.",))
    gate_of(project, cache).keep(ASKED, found)
    assert cache.kept == {}


def test_a_reader_who_may_no_longer_read_is_refused_at_the_gate() -> None:
    project = Project(readers=["user:bob"])
    asked = question(identity=factories.identity("bob"))
    gate = gate_of(project, FakeQueryCache())
    gate.keep(asked, project.retriever().retrieve(asked))
    assert gate.lookup(asked) is not None
    project.let_read()
    with pytest.raises(SessionNotFound):
        gate.lookup(asked)


def test_a_broken_cache_is_a_miss_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    project = Project()
    gate = gate_of(project, BrokenQueryCache())
    with caplog.at_level(logging.WARNING):
        assert gate.lookup(ASKED) is None
        gate.keep(ASKED, project.retriever().retrieve(ASKED))
    assert len(caplog.records) == 2
