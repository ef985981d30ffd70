from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from strata.contracts.searching import RetrievedView
from strata.model.asking import Retrieved
from tests.support.asking import candidate

CHANGED = datetime(2025, 3, 1, 12, tzinfo=UTC)


def shown(metadata: dict[str, str], now: datetime) -> dict[str, object]:
    found = Retrieved(
        candidates=(replace(candidate(1), metadata=metadata),), generation=1, embedding_model="hashed-256"
    )
    return RetrievedView.of("demo", found, now).rows[0].metadata


def test_a_row_says_how_stale_its_file_is_on_the_day_of_the_question() -> None:
    metadata = {"section": "A", "last_modified": CHANGED.isoformat()}
    scores = [shown(metadata, CHANGED + timedelta(days=days))["staleness_score"] for days in (0, 1, 365, 3650)]
    assert scores == [0.0, 0.0019, 0.5, 0.999]
    assert metadata == {"section": "A", "last_modified": CHANGED.isoformat()}


def test_a_file_from_a_clock_that_is_ahead_is_new() -> None:
    assert shown({"last_modified": "2999-01-01T00:00:00+00:00"}, CHANGED)["staleness_score"] == 0


def test_nothing_is_said_of_a_file_whose_time_is_not_known() -> None:
    assert shown({"section": "A"}, CHANGED) == {"section": "A"}
