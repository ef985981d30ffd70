"""The API's OpenAPI document, from those of its functions: `python -m strata_local.openapi > docs/openapi.json`."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strata import __version__
from strata_local.template import load_stack, parameters_of

if TYPE_CHECKING:
    from fastapi import FastAPI

PROJECT = Path(__file__).resolve().parents[3]
TEMPLATE = PROJECT / "infra" / "template.yaml"


def document() -> dict[str, Any]:
    """Every route of the template with what it takes and answers, sorted, so that a change shows as a small diff.

    Raises `ValueError` when two functions describe one schema differently.
    """
    paths: dict[str, dict[str, Any]] = {}
    schemas: dict[str, Any] = {}
    for app in _applications():
        own = app.openapi()
        for path, operations in own["paths"].items():
            paths.setdefault(path, {}).update(operations)
        for name, schema in own.get("components", {}).get("schemas", {}).items():
            if schemas.setdefault(name, schema) != schema:
                raise ValueError(f"the schema {name} has two meanings")
    return {
        "openapi": "3.1.0",
        "info": {"title": "Strata", "version": __version__},
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _applications() -> Iterator[FastAPI]:
    """The FastAPI application of every function that has routes."""
    stack = load_stack(TEMPLATE, parameters=dict.fromkeys(parameters_of(TEMPLATE), "x"))
    folders = sorted({stack.functions[route.function].folder for route in stack.routes})
    for folder in folders:
        name = f"strata_openapi_{folder.name}"
        spec = importlib.util.spec_from_file_location(name, folder / "app.py")
        if spec is None or spec.loader is None:
            raise FileNotFoundError(folder / "app.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        yield module.app


def text() -> str:
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
