"""The whole stack: `LocalCloud` starts it in this process and stops it; `running.down` ends one in another process.

    with LocalCloud(Path(".strata"), report=print) as cloud:
        cloud.warm()
        ...

The data directory holds Postgres' files, logs, secrets and `state.json`, which tells other processes where a running
cloud is.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from strata_local.aws import LocalAws
from strata_local.errors import NotRunning
from strata_local.functions import Functions, Limits
from strata_local.gateway import Gateway, GatewayServer
from strata_local.invocations import Buffered, Failed
from strata_local.postgres import BundledPostgres, DatabaseUrls, existing_database
from strata_local.rest_events import HttpRequest, event_of, match_route
from strata_local.running import RunningCloud, only_one
from strata_local.schedules import Schedules
from strata_local.stack import Stack
from strata_local.template import load_stack, parameters_of
from strata_local.tokens import LOCAL_CLAIMS, load_secret

DEFAULT_PORT = 8000
DEFAULT_TEMPLATE = Path(__file__).resolve().parents[2] / "template.yaml"
STOP_NEWS_S = 20.0

_OWN_PARAMETERS = frozenset({"Runtime", "ModelDirectory", "IndexDatabaseUrl", "QueryDatabaseUrl"})
"""What the local cloud decides by itself."""
_DATABASE_PARAMETERS = {"IndexDatabaseUrl", "QueryDatabaseUrl"}

Report = Callable[[str], None]
T = TypeVar("T")


class LocalCloud:
    """Postgres, S3, DynamoDB, function processes and the API, as the template says.

    `environment` is added to every function's variables and wins over the template's; a `STRATA_…` variable of this
    process that is a parameter's of the template (STRATA_CHAT_MODEL: ChatModel) sets that. Without `database_url` (or
    STRATA_DATABASE_URL) the bundled Postgres runs in the data directory. A template without database parameters gets
    no Postgres.
    """

    def __init__(
        self,
        data_directory: Path,
        *,
        port: int = DEFAULT_PORT,
        environment: Mapping[str, str] | None = None,
        template: Path = DEFAULT_TEMPLATE,
        database_url: str | None = None,
        report: Report = lambda _: None,
        limits: Limits | None = None,
    ) -> None:
        self.data_directory = data_directory.resolve()
        self.logs = self.data_directory / "logs"
        self._port = port
        self._overrides = dict(environment or {})
        self._template = template
        self._database_url = database_url or os.environ.get("STRATA_DATABASE_URL") or None
        self._report = report
        self._limits = limits or Limits()
        self._running = contextlib.ExitStack()
        self._gateway: GatewayServer | None = None
        self._functions: Functions | None = None
        self._stack: Stack | None = None
        self._environment: dict[str, str] = {}

    # --- what a running one can tell ---

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self._started(self._gateway).port}"

    @property
    def environment(self) -> dict[str, str]:
        """The functions' variables that tell where the stores are, with those of AWS; the database URL is the
        indexer's."""
        self._started(self._gateway)
        return dict(self._environment)

    @property
    def functions(self) -> Functions:
        return self._started(self._functions)

    @property
    def stack(self) -> Stack:
        return self._started(self._stack)

    # --- up and down ---

    def start(self) -> None:
        """Start everything and return when it answers. Nothing is left running when that fails.

        Raises `AlreadyRunning`, `PortTaken`, `PostgresUnavailable`, `UnsupportedTemplate`.
        """
        try:
            with contextlib.ExitStack() as starting:
                self._start(starting)
                self._running = starting.pop_all()
        except BaseException:
            self._forget()
            raise

    def stop(self) -> None:
        """End everything; no process is left. Safe to repeat.

        When that takes long, what every thread waits for is written to logs/stop.log.
        """
        reporter = threading.Timer(STOP_NEWS_S, self._write_stacks)
        reporter.daemon = True
        reporter.start()
        try:
            self._running.close()
        finally:
            reporter.cancel()
            self._forget()

    def warm(self) -> None:
        """Start a process of every function, and wait for the query function's: the first question is then fast."""
        routed = {route.function for route in self.stack.routes}
        self.functions.prestart(
            [name for name, function in self.stack.functions.items() if name in routed or function.triggers]
        )
        health = match_route(self.stack.routes, "GET", "/health")
        if health is None:
            return
        route, started = health[0], time.monotonic()
        event = event_of(
            HttpRequest(
                method="GET",
                raw_path="/health",
                query_string="",
                headers=[("host", "localhost")],
                body=b"",
                source_ip="127.0.0.1",
            ),
            route,
            path_parameters={},
            claims=LOCAL_CLAIMS,
            request_id=str(uuid.uuid4()),
            stage=self.stack.stage,
        )
        for part in self.functions[route.function].invoke(json.dumps(event).encode("utf-8")):
            if isinstance(part, Failed):
                log_path = self.functions[route.function].log_path
                self._report(f"{route.function} did not start: {part.error_type}: {part.message} (log: {log_path}).")
                return
        self._report(f"{route.function} is warm ({time.monotonic() - started:.1f} s).")

    def __enter__(self) -> LocalCloud:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self, running: contextlib.ExitStack) -> None:
        self.logs.mkdir(parents=True, exist_ok=True)
        running.enter_context(only_one(self.data_directory))
        gateway = GatewayServer(
            port=self._port, log_path=self.logs / "gateway.log"
        )  # first: a taken port costs nothing
        running.callback(gateway.stop)
        parameters = self._parameters(running)
        stack = load_stack(self._template, parameters=parameters)
        functions: Functions | None = None

        def invoke(name: str, event: Mapping[str, Any]) -> None:
            if functions is not None:
                functions.invoke_asynchronously(name, event)

        def call(name: str, payload: bytes) -> Buffered | Failed:
            if functions is None:
                return Failed(error_type="Runtime.ExitError", message="The local cloud is not up yet.")
            return functions.invoke(name, payload)

        aws = LocalAws(stack, invoke=invoke, call=call, log_path=self.logs / "aws.log")
        running.callback(aws.stop)
        aws.start()
        self._report("S3 and DynamoDB are up; they start empty, Postgres keeps its rows.")
        functions = Functions(
            stack.functions,
            environment={**aws.environment, **self._overrides},
            log_folder=self.logs,
            limits=self._limits,
            routed={route.function for route in stack.routes},
        )
        running.callback(functions.stop)
        schedules = Schedules(stack.functions, invoke=functions.invoke_asynchronously)
        running.callback(schedules.stop)
        schedules.start()
        gateway.start(Gateway(stack, functions, secret=load_secret(self.data_directory)))
        self._stack, self._functions, self._gateway = stack, functions, gateway
        self._environment = self._common_environment(stack, aws.environment)
        state = self.data_directory / "state.json"
        running.callback(state.unlink, missing_ok=True)
        self._write_state(state, aws.environment["AWS_ENDPOINT_URL"])
        self._report(f"The API is up at {self.api_url}.")

    def _parameters(self, running: contextlib.ExitStack) -> dict[str, str]:
        """The values that a deployment would be given; starts the database if the template wants one."""
        declared = set(parameters_of(self._template))
        parameters = _named_in(os.environ, declared - _OWN_PARAMETERS)
        if "ModelDirectory" in declared:
            parameters["ModelDirectory"] = str(self.data_directory / "models")
        if declared >= _DATABASE_PARAMETERS:
            urls = self._database(running)
            parameters |= {"IndexDatabaseUrl": urls.index, "QueryDatabaseUrl": urls.query}
        return parameters

    def _database(self, running: contextlib.ExitStack) -> DatabaseUrls:
        from strata.storage.postgres.migrate import migrate

        passwords_file = self.data_directory / "passwords.json"
        started = time.monotonic()
        if self._database_url is not None:
            urls = existing_database(self._database_url, passwords_file)
        else:
            postgres = BundledPostgres(
                self.data_directory / "postgres",
                log_path=self.logs / "postgres.log",
                passwords_file=passwords_file,
            )
            running.callback(postgres.stop)
            urls = postgres.start()
        applied = migrate(urls.owner, passwords=urls.passwords)
        news = f", {len(applied)} migrations applied" if applied else ""
        self._report(f"Postgres is up ({time.monotonic() - started:.1f} s{news}).")
        return urls

    def _common_environment(self, stack: Stack, aws_environment: Mapping[str, str]) -> dict[str, str]:
        """What all functions have in common, with the database URL of those that may write."""
        functions = list(stack.functions.values())
        shared = {
            name: value
            for name, value in (functions[0].environment.items() if functions else ())
            if all(function.environment.get(name) == value for function in functions)
        }
        writers = [function for function in functions if function.triggers]
        url = writers[0].environment.get("STRATA_DATABASE_URL") if writers else None
        database = {"STRATA_DATABASE_URL": url} if url else {}
        return {**shared, **database, **aws_environment, **self._overrides}

    def _write_state(self, path: Path, aws_url: str) -> None:
        state = RunningCloud(pid=os.getpid(), api_url=self.api_url, aws_url=aws_url, environment=self._environment)
        fresh = path.with_suffix(".new")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(asdict(state), file, indent=2)
        fresh.replace(path)

    def _write_stacks(self) -> None:
        with (self.logs / "stop.log").open("a", encoding="utf-8") as log:
            log.write(f"{datetime.now(UTC).isoformat(timespec='seconds')} Stopping takes long.\n")
            log.flush()
            faulthandler.dump_traceback(log)

    def _forget(self) -> None:
        self._gateway, self._functions, self._stack, self._environment = None, None, None, {}

    @staticmethod
    def _started(part: T | None) -> T:
        if part is None:
            raise NotRunning("The local cloud is not running.")
        return part


def _named_in(environment: Mapping[str, str], parameters: Collection[str]) -> dict[str, str]:
    """The template's parameters that the environment sets, each as the functions' variable of the same name.

    >>> _named_in({"STRATA_CHAT_MODEL": "small", "STRATA_OTHER": "x"}, ["ChatModel", "Chat"])
    {'ChatModel': 'small'}
    """
    variables = {f"STRATA_{re.sub(r'(?<=[a-z])(?=[A-Z])', '_', name).upper()}": name for name in parameters}
    return {name: environment[variable] for variable, name in variables.items() if environment.get(variable)}
