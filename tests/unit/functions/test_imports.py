"""What a cold start imports: a function loads only what every one of its requests needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[3]
LAYER = PROJECT / "layers" / "common"
MODELS = {"onnxruntime", "tokenizers", "safetensors", "wordllama"}
CLOUD = {"boto3", "botocore.client"}
WEB = {"fastapi", "pydantic", "mangum", "aws_lambda_powertools"}


def loaded(code: str, names: set[str], *folders: Path) -> list[str]:
    """Which of the modules are there after `code` has run in a process of its own."""
    run = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sorted({names!r} & set(sys.modules)))"],
        env={"PYTHONPATH": ":".join(map(str, (LAYER, *folders))), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.split()


@pytest.mark.parametrize("function", ["query", "job_status", "index_snapshot", "index_changes"])
def test_a_function_starts_without_cloud_clients_models_database_and_numpy(function: str) -> None:
    names = MODELS | CLOUD | {"numpy", "psycopg"}
    assert loaded("import app", names, PROJECT / "functions" / function) == []


def test_searching_imports_no_model_no_cloud_client_and_no_web_framework() -> None:
    code = "import strata.retrieval.retrieve, strata.retrieval.features, strata.storage.postgres.search"
    names = MODELS | CLOUD | WEB | {"psycopg"}
    assert loaded(code, names) == ["psycopg"]


def test_indexing_imports_no_model_no_cloud_client_and_no_web_framework() -> None:
    code = "import strata.indexing.pipeline, strata.storage.postgres.sessions, strata.storage.postgres.cache"
    names = MODELS | CLOUD | WEB | {"psycopg"}
    assert loaded(code, names) == ["psycopg"]
