"""The query function with a project in memory and a generator that sleeps between its deltas."""

from __future__ import annotations

from strata.bootstrap import questions
from tests.support.asking import Project, ScriptedGenerator
from tests.support.lambda_events import load_function
from tests.support.sleeping_query import DELTAS, PAUSE_S

_project = Project()
_answerer = _project.answerer(ScriptedGenerator([f" слово{n}" for n in range(DELTAS)], pause_s=PAUSE_S))
questions.answerer = lambda: _answerer  # type: ignore[assignment]
questions.retriever = _project.retriever  # type: ignore[assignment]

app = load_function("query").app
