"""`strata ask`, `strata search` and `strata drift`: what is asked for and how it is shown."""

from __future__ import annotations

import pytest

from tests.support.command_line import Run
from tests.support.fake_api import (
    ANSWER_TEXT,
    CITATIONS,
    FakeApi,
    json_reply,
    row,
    sse,
    sse_reply,
)


def test_ask_shows_the_answer_and_its_sources_under_it(run: Run, api: FakeApi) -> None:
    outcome = run("ask", "why?", "--session", "shop", "--path", "src/", "--layers", "C0, C1", "--api", api.url)

    assert outcome.out == f"{ANSWER_TEXT}\n\nSources\n  [1] src/retry.py:4\n  [2] docs/retry.md:2-3\n"
    assert api.requests[0].json() == {"question": "why?", "layers": ["C0", "C1"], "path_prefixes": ["src/"]}


def test_sources_stand_in_the_order_of_their_lines_and_one_that_fails_a_claim_says_so(run: Run, api: FakeApi) -> None:
    late, early = {**CITATIONS[0], "lines": [9, 9]}, CITATIONS[0]
    done = {"answer": "It does [1].", "grounded": False, "abstained": False, "usage": {}, "timings_ms": {}}
    cited = b"".join(sse("citation", each) for each in (late, early, {**late, "supported": False}))
    api.on("POST", "/api/rag/sessions/shop/query", sse_reply(cited + sse("done", done)))

    outcome = run("ask", "why?", "--session", "shop", "--api", api.url)

    assert "  [1] src/retry.py:4\n  [1] src/retry.py:9  (not supported by these lines)\n" in outcome.out


def test_an_answer_that_is_not_supported_says_so(run: Run, api: FakeApi) -> None:
    done = {"answer": "It does [1].", "grounded": False, "abstained": False, "usage": {}, "timings_ms": {}}
    citation = {**CITATIONS[0], "supported": False}
    events = sse("delta", {"text": "It does [1]."}) + sse("citation", citation) + sse("done", done)
    api.on("POST", "/api/rag/sessions/shop/query", sse_reply(events))

    outcome = run("ask", "why?", "--session", "shop", "--api", api.url)

    assert "[1] src/retry.py:4  (not supported by these lines)" in outcome.out
    assert "Not every claim is supported" in outcome.out


def test_an_answer_without_deltas_is_still_shown(run: Run, api: FakeApi) -> None:
    done = {"answer": "Not found.", "grounded": False, "abstained": True, "usage": {}, "timings_ms": {}}
    api.on("POST", "/api/rag/sessions/shop/query", sse_reply(sse("sources", []) + sse("done", done)))

    assert run("ask", "why?", "--session", "shop", "--api", api.url).out == "Not found.\n"


def test_an_answer_that_turns_out_to_have_no_support_is_withdrawn(run: Run, api: FakeApi) -> None:
    done = {"answer": "Not found.", "grounded": False, "abstained": True, "usage": {}, "timings_ms": {}}
    streamed = sse("delta", {"text": "It flies."}) + sse("citation", {**CITATIONS[0], "supported": False})
    api.on("POST", "/api/rag/sessions/shop/query", sse_reply(streamed + sse("done", done)))

    outcome = run("ask", "why?", "--session", "shop", "--api", api.url)

    assert run("ask", "why?", "--session", "shop", "--api", api.url, "--json").json["answer"]["citations"] == []
    assert outcome.out == "It flies.\nThe sources do not support that; it is withdrawn.\nNot found.\n"


def test_search_gives_one_line_a_row_where_no_terminal_is(run: Run, api: FakeApi) -> None:
    outcome = run("search", "retry", "--session", "shop", "--limit", "5", "--api", api.url)

    assert outcome.out == "1\t0.0325\tsrc/retry.py:1-9\tC0\tretry\n"
    assert api.requests[0].json() == {"query": "retry", "limit": 5}


def test_drift_is_a_table_and_none_is_said(run: Run, api: FakeApi) -> None:
    outcome = run("drift", "-s", "shop", "--api", api.url)
    assert outcome.status == 0
    assert all(text in outcome.out for text in ("docs/a.md:3", "symbol", "shop.Gone"))
    nothing = {"session_id": "shop", "drift": [], "truncated": False}
    api.on("GET", "/api/rag/sessions/shop/drift", json_reply(nothing))
    assert (
        "No document names something of this project that is not there."
        in run("drift", "-s", "shop", "--api", api.url).err
    )


def test_links_are_a_table_of_both_ways_and_none_is_said(run: Run, api: FakeApi) -> None:
    outcome = run("links", "place", "-s", "shop", "--api", api.url)
    assert outcome.status == 0
    assert all(text in outcome.out for text in ("used by", "shop/web.py:4", "calls", "shop/orders.py:7"))
    assert "There is more" in outcome.err
    api.on(
        "GET",
        "/api/rag/sessions/shop/links",
        json_reply({"session_id": "shop", "uses": [], "used_by": [], "truncated": False}),
    )
    assert "Nothing is known to use or to be used by 'x'." in run("links", "x", "-s", "shop", "--api", api.url).err


def test_search_explains_every_row_of_the_result(run: Run, api: FakeApi) -> None:
    explain = {
        "parts": [
            {"name": "dense", "sentence": "Near.", "rank": 1, "value": 0.4, "weight": 1.0, "part": 0.01639},
            {"name": "lexical", "rank": 2, "value": 3.5, "weight": 1.0, "part": 0.01613},
        ],
        "terms": [{"term": "retry", "part": 2.0}, {"term": "delay", "part": 1.5}],
        "allowed_by": "user:ann reads the session; the file has no list of its own",
    }
    also = [{"layer": "C1_SYMBOL_CATALOG", "path": "src/retry.py", "lines": [1, 9]}]
    hidden = {**explain, "terms": None}
    fields = [
        {"name": "bm25", "sentence": "Words.", "rank": None, "value": 1.0, "weight": -0.5, "part": -0.5},
        {"name": "cosine", "sentence": "Near.", "rank": None, "value": 0.6, "weight": 2.0, "part": 1.2},
    ]
    reranked = {**explain, "parts": fields}
    unranked = {"dense_rank": None, "distance": None, "lexical_rank": None, "bm25": 0.0}
    rows = [
        row(explain=explain, also=also),
        row("b.md", explain=hidden, prefer_bonus=1, test_penalty=1),
        row(explain=reranked, exact_rank=4),
        row(explain={**explain, "parts": [], "terms": []}, score=0.0, **unranked),
    ]
    found = {"session_id": "shop", "generation": 3, "embedding_model": "minilm", "rows": rows}
    api.on("POST", "/api/rag/sessions/shop/retrieve", json_reply(found))
    shown = run("search", "retry delay", "--session", "shop", "--explain", "--api", api.url)
    assert shown.status == 0
    assert api.requests[-1].json()["explain"] is True
    for line in (
        "1\tdense\t0.01639\tNear. (rank 1, weight 1, distance 0.4000)",
        "1\tlexical\t0.01613\t(rank 2, weight 1, bm25 3.5000)",
        "1\tscore\t0.03250\tsrc/retry.py:1-9",
        "1\tword\t2.0000\tof BM25: retry",
        "1\talso\t\tstands for src/retry.py:1-9 (C1)",
        "1\tallowed\t\tuser:ann reads the session; the file has no list of its own",
        "2\twords\t3.5000\tof BM25; words are not told apart: the session has restricted files",
        "2\tbonus\t1\tits path is preferred; this comes before the score",
        "3\tcosine\t1.20000\tNear. (0.6000 × 2)",
        "3\tbm25\t-0.50000\tWords. (1.0000 × -0.5)",
        "3\tfound by\t\tmeaning, rank 1 (distance 0.4000), words, rank 2 (bm25 3.5000), names, rank 4",
        "4\tfound by\t\tno list: it holds no word and has no vector",
    ):
        assert line in shown.out.splitlines()
    assert shown.out.index("3\tcosine") < shown.out.index("3\tbm25\t-")


@pytest.mark.parametrize("command", ["ask", "search"])
def test_every_filter_and_preference_can_be_asked_for(run: Run, api: FakeApi, command: str) -> None:
    api.on("POST", "/api/rag/sessions/shop/retrieve", json_reply({"rows": []}))
    api.on("POST", "/api/rag/sessions/shop/query", json_reply({}))
    options = [
        *(
            "--layers",
            "C0,D3",
            "--path",
            "src/",
            "--path",
            "docs/",
            "--exclude",
            "src/old",
            "--exclude-like",
            "%.min.js",
        ),
        *("--prefer", "docs/", "--prefer-like", "%/api/%", "--prefer-non-tests"),
    ]
    run(command, "retry delay", "--session", "shop", *options, "--api", api.url)
    asked = api.requests[-1].json()
    assert {name: asked[name] for name in asked if name not in {"query", "question", "limit"}} == {
        "layers": ["C0", "D3"],
        "path_prefixes": ["src/", "docs/"],
        "exclude_path_prefixes": ["src/old"],
        "exclude_like_patterns": ["%.min.js"],
        "prefer_path_prefixes": ["docs/"],
        "prefer_like_patterns": ["%/api/%"],
        "prefer_non_tests": True,
    }


@pytest.mark.parametrize("command", ["search", "ask"])
def test_what_was_typed_arrives_also_where_python_takes_the_terminal_for_ascii(
    run: Run, api: FakeApi, command: str
) -> None:
    typed = "где логин?".encode().decode("ascii", "surrogateescape")
    filters = ["--path", "папка/".encode().decode("ascii", "surrogateescape"), "--exclude-like", "a\udcff%"]
    run(command, typed, "--session", "shop", *filters, "--api", api.url)
    body = api.requests[0].json()
    assert body["query" if command == "search" else "question"] == "где логин?"
    assert (body["path_prefixes"], body["exclude_like_patterns"]) == (["папка/"], ["a\ufffd%"])
