from __future__ import annotations

from strata_local import openapi
from strata_local.template import load_stack, parameters_of


def test_the_document_in_docs_is_that_of_the_functions() -> None:
    written = (openapi.PROJECT / "docs" / "openapi.json").read_text("utf-8")
    assert written == openapi.text(), "run: .venv/bin/python -m strata_local.openapi > docs/openapi.json"


def test_the_document_names_the_routes_of_the_template_and_no_other() -> None:
    """HEAD and OPTIONS also reach the functions where they are refused (405): those are not described."""
    described = {
        (method.upper(), path) for path, operations in openapi.document()["paths"].items() for method in operations
    }
    stack = load_stack(openapi.TEMPLATE, parameters=dict.fromkeys(parameters_of(openapi.TEMPLATE), "x"))
    routes = {(route.method, route.path) for route in stack.routes}
    assert described <= routes
    assert {method for method, _ in routes - described} <= {"HEAD", "OPTIONS"}
