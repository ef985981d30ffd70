"""With `--json` every command prints one JSON value on stdout, and nothing else there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.support.command_line import Run
from tests.support.fake_api import (
    ANSWER_TEXT,
    CITATIONS,
    FakeApi,
)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["status"], lambda value: value["status"] == "ok", id="status"),
        pytest.param(["sessions"], lambda value: [each["session_id"] for each in value] == ["shop"], id="sessions"),
        pytest.param(["jobs"], lambda value: len(value) == 1, id="jobs of all sessions"),
        pytest.param(["jobs", "-s", "shop"], lambda value: value[0]["chunks"] == 7, id="jobs of one session"),
        pytest.param(["jobs", "job-1"], lambda value: value["status"] == "done", id="one job"),
        pytest.param(["jobs", "--failed"], lambda value: value["dead_letters"][0]["id"] == "letter-1", id="failures"),
        pytest.param(["jobs", "cancel", "job-1"], lambda value: value["status"] == "cancelled", id="cancel"),
        pytest.param(["jobs", "retry", "job-1"], lambda value: value["status"] == "queued", id="retry"),
        pytest.param(["sessions", "delete", "shop", "--yes"], lambda value: value["deleted"], id="delete a session"),
        pytest.param(["drift", "-s", "shop"], lambda value: value["drift"][0]["name"] == "shop.Gone", id="drift"),
        pytest.param(["links", "place", "-s", "shop"], lambda value: value["used_by"][0]["line"] == 4, id="links"),
        pytest.param(["search", "retry", "-s", "shop"], lambda value: len(value["rows"]) == 1, id="search"),
        pytest.param(
            ["ask", "why?", "-s", "shop"],
            lambda value: value["answer"]["text"] == ANSWER_TEXT and value["answer"]["citations"] == CITATIONS,
            id="ask",
        ),
    ],
)
def test_json_is_the_only_thing_on_stdout(
    run: Run, api: FakeApi, arguments: Sequence[str], expected: Callable[[Any], bool]
) -> None:
    outcome = run(*arguments, "--json", "--api", api.url)

    assert outcome.status == 0, outcome.err
    assert expected(outcome.json)
