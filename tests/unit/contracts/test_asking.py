from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from strata.answering.events import DeltaEvent
from strata.contracts.asking import AnswerView, Ask
from strata.contracts.frames import frame, sse_frame
from strata.contracts.searching import Search
from strata.errors import InvalidPath, InvalidQuery, InvalidRequest, SessionNotFound, UnknownLayer
from strata.model.asking import MAX_QUERY_CHARACTERS, Filter, Question
from strata.model.corpus import Layer
from tests.support import factories
from tests.support.asking import Project, question


def to_question(session_id: str = "demo", **body: Any) -> Question:
    return Ask.model_validate({"question": "How long?", **body}).to_question(session_id, factories.identity())


def test_a_request_becomes_a_question() -> None:
    asked = to_question(
        question="  How long?\n",
        layers=["d3", "C0_SOURCE_CHUNKS", "D3"],
        path_prefixes=["./docs/", "docs/"],
        exclude_path_prefixes=["docs/old/"],
        exclude_like_patterns=["%.min.js", "100\\%"],
        prefer_path_prefixes=["docs/new/"],
        prefer_like_patterns=["%guide%"],
        prefer_non_tests=True,
        limit=3,
    )
    assert (asked.text, asked.session_id, asked.limit) == ("How long?", "demo", 3)
    assert asked.identity == factories.identity()
    assert asked.filter == Filter(
        layers=(Layer.D3_SECTION_INDEX, Layer.C0_SOURCE_CHUNKS),
        path_prefixes=("docs/",),
        exclude_path_prefixes=("docs/old/",),
        exclude_like_patterns=("%.min.js", "100\\%"),
        prefer_path_prefixes=("docs/new/",),
        prefer_like_patterns=("%guide%",),
        prefer_non_tests=True,
    )
    search = Search(query="How long?").to_question("demo", factories.identity())
    assert search == to_question()


@pytest.mark.parametrize("text", ["", "   ", "\n", "!!!", "🙂", "\u200b", "\x00", "—", "?" * 9_000])
def test_nothing_to_search_for_is_refused(text: str) -> None:
    with pytest.raises(InvalidQuery):
        to_question(question=text)


def test_a_question_has_a_greatest_length() -> None:
    assert to_question(question="a" * MAX_QUERY_CHARACTERS).text == "a" * MAX_QUERY_CHARACTERS
    with pytest.raises(InvalidQuery):
        to_question(question="a" * (MAX_QUERY_CHARACTERS + 1))


@pytest.mark.parametrize(
    ("body", "error"),
    [
        pytest.param({"layers": ["D9"]}, UnknownLayer, id="unknown layer"),
        *(
            pytest.param({field: [prefix]}, InvalidPath, id=f"{field}: {prefix!r}")
            for field in ("path_prefixes", "exclude_path_prefixes", "prefer_path_prefixes")
            for prefix in ("a\x00b", "/etc", "../x", "a/../b", "./")
        ),
        pytest.param({"exclude_like_patterns": ["a\\"]}, InvalidRequest, id="pattern that ends with its escape"),
        pytest.param({"prefer_like_patterns": ["a\\\\\\"]}, InvalidRequest, id="the same after an escaped one"),
        pytest.param({"limit": 0}, ValidationError, id="limit too small"),
        pytest.param({"limit": 51}, ValidationError, id="limit too large"),
        pytest.param({"limit": "many"}, ValidationError, id="limit no number"),
        pytest.param({"principals": ["user:root"]}, ValidationError, id="a field that does not exist"),
        pytest.param({"path_prefixes": ["x"] * 51}, ValidationError, id="too many paths"),
        pytest.param({"path_prefixes": [""]}, ValidationError, id="an empty path"),
        pytest.param({"path_prefixes": ["x" * 1_001]}, ValidationError, id="a path that is too long"),
        pytest.param({"question": None}, ValidationError, id="no text"),
    ],
)
def test_what_can_never_work_is_refused(body: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        to_question(**body)


@pytest.mark.parametrize("session_id", ["", "../x", "a b", "a\x00", "x" * 101, "é"])
def test_what_can_name_no_session_is_not_found(session_id: str) -> None:
    with pytest.raises(SessionNotFound):
        to_question(session_id)


@given(st.text(st.characters(exclude_categories=())))
def test_a_frame_is_one_line_of_data_that_every_reader_cuts_alike(text: str) -> None:
    sent = sse_frame(DeltaEvent(text=text))
    decoded = sent.decode()
    assert decoded.splitlines() == [*decoded.split("\n")[:2], ""]
    name, data, *rest = decoded.split("\n")
    assert (name, rest) == ("event: delta", ["", ""])
    assert json.loads(data.removeprefix("data: ")) == {"text": text}


def test_a_frame_holds_no_number_that_json_lacks() -> None:
    with pytest.raises(ValueError, match="JSON"):
        frame("x", {"value": float("nan")})


def test_one_object_says_what_the_events_say() -> None:
    events = list(Project().answerer().stream(question()))
    frames = [sse_frame(event).decode().split("\n") for event in events]
    sent = [(lines[0].removeprefix("event: "), json.loads(lines[1].removeprefix("data: "))) for lines in frames]
    whole = AnswerView.of(events).model_dump(mode="json")
    (meta,) = (data for name, data in sent if name == "meta")
    (sources,) = (data for name, data in sent if name == "sources")
    (done,) = (data for name, data in sent if name == "done")
    citations = [data for name, data in sent if name == "citation"]
    assert whole == {
        **meta,
        "answer": {
            "text": "".join(data["text"] for name, data in sent if name == "delta"),
            "citations": citations,
            "grounded": done["grounded"],
            "abstained": done["abstained"],
        },
        "sources": sources,
        "usage": done["usage"],
        "timings_ms": done["timings_ms"],
    }
    assert done["answer"] == whole["answer"]["text"]
    assert citations
    assert set(meta) == {"query_id", "session_id", "generation", "model", "cache", "notes"}
    assert set(sources[0]) == {"n", "path", "layer", "title", "lines", "blob_sha", "score"}
    assert set(citations[0]) == {"n", "path", "lines", "quote", "supported"}
    assert set(done["timings_ms"]) == {"sources", "first_delta", "total"}


def test_half_of_an_answer_is_no_answer() -> None:
    events = list(Project().answerer().stream(question()))
    with pytest.raises(ValueError, match="not all"):
        AnswerView.of(events[:-1])
