from __future__ import annotations

import pytest

from strata.errors import SessionNotFound
from strata.indexing.drift import MAX_DRIFTED, DriftReporter
from strata.model.links import Drifted
from tests.support.factories import identity
from tests.support.fakes import FakeSessionStore
from tests.support.link_fakes import FakeLinkReader


def reporter(*drifted: Drifted) -> DriftReporter:
    sessions = FakeSessionStore()
    sessions.create(
        session_id="shop",
        identity=identity(),
        project_id="shop",
        embedding_model="m",
        dimension=8,
        pipeline_version="1",
    )
    return DriftReporter(links=FakeLinkReader(sessions, drifted))


def file(name: str, line: int = 1) -> Drifted:
    return Drifted(path="a.md", line=line, name=name, is_path=True, known=None)


def test_a_file_that_is_never_indexed_is_no_drift() -> None:
    report = reporter(file("package-lock.json"), file("node_modules/x/a.js"), file("src/gone.py")).report(
        "shop", identity()
    )
    assert [item.name for item in report.drifted] == ["src/gone.py"]
    assert not report.truncated


def test_a_long_report_is_cut_and_says_so() -> None:
    report = reporter(*(file("src/gone.py", line) for line in range(1, MAX_DRIFTED + 2))).report("shop", identity())
    assert (len(report.drifted), report.truncated) == (MAX_DRIFTED, True)


@pytest.mark.parametrize("session_id", ["other", "", "a b", "x\x00y"])
def test_an_unknown_session_is_not_found(session_id: str) -> None:
    with pytest.raises(SessionNotFound):
        reporter().report(session_id, identity())
