"""The template as the local cloud reads it, and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from strata_local.errors import UnsupportedTemplate
from strata_local.stack import Stack
from strata_local.template import load_stack, parameters_of

ROOT = Path(__file__).parents[3]
TEMPLATE = ROOT / "infra" / "template.yaml"
PARAMETERS = {
    "IndexDatabaseUrl": "postgresql://strata_index@h/db",
    "QueryDatabaseUrl": "postgresql://strata_query@h/db",
}

FUNCTIONS = {
    "IndexSnapshotApi": ("functions/index_snapshot", "app.http"),
    "IndexSnapshotWorker": ("functions/index_snapshot", "app.on_upload"),
    "IndexChangesApi": ("functions/index_changes", "app.http"),
    "IndexChangesWorker": ("functions/index_changes", "app.on_changes"),
    "Sweep": ("functions/index_changes", "app.sweep"),
    "JobStatus": ("functions/job_status", "app.http"),
    "Query": ("functions/query", "app.app"),
    "ReindexPlan": ("functions/index_snapshot", "app.plan"),
    "ReindexPrepare": ("functions/index_snapshot", "app.prepare"),
    "ReindexFill": ("functions/index_snapshot", "app.fill"),
    "ReindexFlip": ("functions/index_snapshot", "app.flip"),
    "ReindexFail": ("functions/index_snapshot", "app.fail"),
    "ReindexRelease": ("functions/index_snapshot", "app.release"),
    "ReindexEnded": ("functions/index_snapshot", "app.on_execution_ended"),
}
ROUTES = {
    ("POST", "/api/rag/sessions"): "IndexSnapshotApi",
    ("GET", "/api/rag/sessions"): "JobStatus",
    ("GET", "/api/rag/sessions/{session_id}"): "JobStatus",
    ("PATCH", "/api/rag/sessions/{session_id}"): "IndexSnapshotApi",
    ("DELETE", "/api/rag/sessions/{session_id}"): "IndexSnapshotApi",
    ("POST", "/api/rag/sessions/{session_id}/changes"): "IndexChangesApi",
    ("POST", "/api/rag/sessions/{session_id}/rollback"): "IndexChangesApi",
    ("POST", "/internal/rag/index/snapshot"): "IndexSnapshotApi",
    ("POST", "/internal/rag/index/changes"): "IndexChangesApi",
    ("GET", "/api/rag/jobs"): "JobStatus",
    ("POST", "/api/rag/jobs/{job_id}/cancel"): "JobStatus",
    ("POST", "/api/rag/jobs/{job_id}/retry"): "JobStatus",
    ("GET", "/api/rag/sessions/{session_id}/jobs"): "JobStatus",
    ("GET", "/api/rag/sessions/{session_id}/drift"): "JobStatus",
    ("GET", "/api/rag/sessions/{session_id}/links"): "JobStatus",
    ("GET", "/api/rag/jobs/{job_id}"): "JobStatus",
    ("GET", "/api/rag/jobs/{job_id}/events"): "JobStatus",
    ("POST", "/api/rag/sessions/{session_id}/query"): "Query",
    ("OPTIONS", "/api/rag/sessions/{session_id}/query"): "Query",
    ("HEAD", "/api/rag/sessions/{session_id}/query"): "Query",
    ("GET", "/api/rag/sessions/{session_id}/files"): "Query",
    ("OPTIONS", "/api/rag/sessions/{session_id}/files"): "Query",
    ("POST", "/api/rag/sessions/{session_id}/retrieve"): "Query",
    ("OPTIONS", "/api/rag/sessions/{session_id}/retrieve"): "Query",
    ("HEAD", "/api/rag/sessions/{session_id}/retrieve"): "Query",
    ("GET", "/health"): "Query",
    ("HEAD", "/health"): "Query",
    ("OPTIONS", "/health"): "Query",
}


@pytest.fixture(scope="module")
def stack() -> Stack:
    return load_stack(TEMPLATE, parameters=PARAMETERS)


class TestOurTemplate:
    def test_its_functions_are_there(self, stack: Stack) -> None:
        found = {
            name: (str(function.folder.relative_to(ROOT)), function.handler)
            for name, function in stack.functions.items()
        }
        assert found == FUNCTIONS

    def test_its_routes_are_the_apis(self, stack: Stack) -> None:
        assert {(route.method, route.path): route.function for route in stack.routes} == ROUTES

    def test_a_route_streams_exactly_when_its_function_does(self, stack: Stack) -> None:
        for route in stack.routes:
            streams = stack.functions[route.function].wrapper is not None
            assert route.streaming == streams, f"{route.method} {route.path}"
        assert any(route.streaming for route in stack.routes)

    def test_the_streaming_functions_wrapper_is_an_executable_file(self, stack: Stack) -> None:
        wrapper = stack.functions["Query"].wrapper
        assert wrapper is not None
        assert wrapper == ROOT / "functions/query/bootstrap"
        assert os.access(wrapper, os.X_OK)

    def test_uploads_and_changes_have_their_workers(self, stack: Stack) -> None:
        triggers = {
            (trigger.prefix, trigger.events): name
            for name, function in stack.functions.items()
            for trigger in function.triggers
        }
        assert triggers == {
            ("uploads/", ("s3:ObjectCreated:*",)): "IndexSnapshotWorker",
            ("changes/", ("s3:ObjectCreated:*",)): "IndexChangesWorker",
        }
        assert {trigger.bucket for each in stack.functions.values() for trigger in each.triggers} == {
            stack.buckets[0].name
        }

    def test_only_the_query_function_reads_as_the_restricted_role(self, stack: Stack) -> None:
        urls = {name: function.environment.get("STRATA_DATABASE_URL") for name, function in stack.functions.items()}
        assert urls.pop("Sweep") is None  # it runs every minute: a paused database must stay paused
        assert urls.pop("Query") == PARAMETERS["QueryDatabaseUrl"]
        assert set(urls.values()) == {PARAMETERS["IndexDatabaseUrl"]}

    def test_every_function_knows_the_stores(self, stack: Stack) -> None:
        tables = {table.name for table in stack.tables}
        for function in stack.functions.values():
            assert function.environment["STRATA_BUCKET"] == stack.buckets[0].name
            assert {function.environment["STRATA_JOBS_TABLE"], function.environment["STRATA_CACHE_TABLE"]} == tables
            assert function.environment["STRATA_EMBEDDER"] == "onnx"

    def test_the_bucket_keeps_versions_and_the_tables_expire_items(self, stack: Stack) -> None:
        assert stack.buckets[0].versioned
        assert [table.ttl_attribute for table in stack.tables] == ["expires_at", "expires_at"]

    def test_the_jobs_table_lists_a_sessions_jobs_by_time(self, stack: Stack) -> None:
        (jobs,) = [table for table in stack.tables if "GlobalSecondaryIndexes" in table.definition]
        keys = {
            index["IndexName"]: [key["AttributeName"] for key in index["KeySchema"]]
            for index in jobs.definition["GlobalSecondaryIndexes"]
        }
        assert keys == {"by_session": ["session_id", "created_at"], "by_list": ["list_name", "list_at_ms"]}

    def test_the_sweep_comes_every_minute_and_knows_whom_to_call(self, stack: Stack) -> None:
        scheduled = {name: function.every_s for name, function in stack.functions.items() if function.every_s}
        assert scheduled == {"Sweep": (60.0,)}
        for name in ("Sweep", "JobStatus", "IndexSnapshotApi"):
            assert stack.functions[name].environment["STRATA_WORKER_FUNCTION"] == "IndexChangesWorker"

    def test_the_databases_urls_have_no_default_and_are_not_shown(self) -> None:
        assert {name for name, default in parameters_of(TEMPLATE).items() if default is None} == set(PARAMETERS)
        text = TEMPLATE.read_text(encoding="utf-8")
        for name in PARAMETERS:
            declaration = text.partition(f"  {name}:")[2].partition("Description")[0]
            assert "NoEcho: true" in declaration

    def test_what_the_gateway_answers_has_our_error_shape(self, stack: Stack) -> None:
        assert stack.gateway_replies["MISSING_AUTHENTICATION_TOKEN"].status == 404
        for reply in stack.gateway_replies.values():
            assert set(json.loads(reply.body)["error"]) == {"code", "message"}

    def test_cfn_lint_accepts_it(self) -> None:
        lint = subprocess.run(
            [str(Path(sys.executable).parent / "cfn-lint"), "--regions", "eu-central-1", "--template", str(TEMPLATE)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (lint.returncode, lint.stdout) == (0, ""), lint.stdout + lint.stderr


SMALL = """
Resources:
  Api: {Type: AWS::Serverless::Api, Properties: {StageName: v1}}
  Work:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: .
      Handler: app.handler
"""


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        pytest.param("  Queue: {Type: AWS::SNS::Topic}", "resource Queue is of type AWS::SNS::Topic", id="resource"),
        pytest.param("      VpcConfig: {}", "Work \\(AWS::Serverless::Function\\) has VpcConfig", id="property"),
        pytest.param("    Condition: IsProduction", "Work has Condition", id="attribute"),
        pytest.param("Mappings: {}", "the template has Mappings", id="section"),
        pytest.param("      Timeout: !If [A, 1, 2]", "Work.Timeout uses Fn::If", id="intrinsic function"),
        pytest.param("      Timeout: !Ref Nothing", "refers to Nothing", id="reference"),
        pytest.param(
            "      Environment: {Variables: {A: !GetAtt Api.RootResourceId}}", "RootResourceId", id="attribute value"
        ),
        pytest.param("      Events: {Tick: {Type: Schedule, Properties: {}}}", "is of type Schedule", id="event"),
        pytest.param(
            "      Events: {A: {Type: Api, Properties: {RestApiId: !Ref Api, Method: GET, Path: /a, Auth: {}}}}",
            "Work.A has Auth",
            id="event property",
        ),
        pytest.param(
            "      Events: {A: {Type: Api, Properties: {RestApiId: !Ref Api, Method: GET, Path: '/{a+}'}}}",
            "has the path",
            id="greedy path",
        ),
        pytest.param(
            "      Events:\n"
            "        A: {Type: Api, Properties: {RestApiId: !Ref Api, Method: GET, Path: /a}}\n"
            "        B: {Type: Api, Properties: {RestApiId: !Ref Api, Method: get, Path: /a}}",
            "GET /a has two functions",
            id="the same route twice",
        ),
        pytest.param("  Other: {Type: AWS::Serverless::Api, Properties: {StageName: v1}}", "2 APIs", id="two APIs"),
    ],
)
def test_what_is_not_implemented_is_refused_by_name(tmp_path: Path, change: str, fact: str) -> None:
    template = tmp_path / "template.yaml"
    template.write_text(f"{SMALL}{change}\n")
    with pytest.raises(UnsupportedTemplate, match=fact):
        load_stack(template)


def test_the_small_template_itself_is_accepted(tmp_path: Path) -> None:
    template = tmp_path / "template.yaml"
    template.write_text(SMALL)
    work = load_stack(template).functions["Work"]
    assert (work.timeout_s, work.memory_mb, work.retries, work.layers) == (3.0, 128, 2, ())


def test_parameters_must_be_known_and_complete(tmp_path: Path) -> None:
    template = tmp_path / "template.yaml"
    template.write_text("Parameters: {Name: {Type: String}}" + SMALL)
    with pytest.raises(UnsupportedTemplate, match="parameter Name has no value"):
        load_stack(template)
    with pytest.raises(UnsupportedTemplate, match="there is no parameter Nmae"):
        load_stack(template, parameters={"Name": "x", "Nmae": "y"})


def test_sub_join_and_getatt_are_resolved(tmp_path: Path) -> None:
    template = tmp_path / "template.yaml"
    template.write_text(
        SMALL
        + """      Environment:
        Variables:
          ARN: !GetAtt Jobs.Arn
          JOINED: !Join ["-", [a, !Ref Jobs]]
          LITERAL: !Sub "${!Kept} ${AWS::Region}"
          MAPPED: !Sub ["${Mine}/${Jobs.Arn}", {Mine: x}]
          LONG: {"Fn::Sub": "${AWS::Partition}"}
  Jobs: {Type: AWS::DynamoDB::Table, Properties: {}}
"""
    )
    environment = load_stack(template).functions["Work"].environment
    arn = "arn:aws:dynamodb:us-east-1:123456789012:table/strata-local-Jobs"
    assert environment == {
        "ARN": arn,
        "JOINED": "a-strata-local-Jobs",
        "LITERAL": "${Kept} us-east-1",
        "MAPPED": f"x/{arn}",
        "LONG": "aws",
    }
