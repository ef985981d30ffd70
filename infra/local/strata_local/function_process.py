"""One process of a function, with the Runtime API that it asks for events."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from typing import IO

from strata_local.errors import UnsupportedTemplate
from strata_local.invocations import Failed, Invocation
from strata_local.processes import Child
from strata_local.runtime_api import RuntimeApi
from strata_local.stack import REGION, Function

STOP_PATIENCE_S = 2.0
_PASSED_ON = (
    "PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SSL_CERT_FILE",
    "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG",
)  # fmt: skip
"""What a function process sees of our own environment: nothing else, as on Lambda."""


class FunctionProcess:
    """One execution environment of a function."""

    def __init__(self, function: Function, environment: Mapping[str, str], log: IO[bytes]) -> None:
        self.served = 0
        self._api = RuntimeApi(function_arn=function.arn)
        self._lock = threading.Lock()
        self._exit: Failed | None = None
        self._killed = False
        self._child = Child(
            _command(function),
            environment=_environment(function, environment, self._api.address),
            folder=function.folder,
            output=log,
            on_exit=self._ended,
        )

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def alive(self) -> bool:
        return self._exit is None and not self._killed and self._child.alive

    def submit(self, invocation: Invocation) -> None:
        """Hand over an event; what becomes of it comes out of the invocation, also when the process has ended."""
        with self._lock:
            self._api.submit(invocation)
            if self._exit is not None:
                invocation.emit(self._exit)

    def kill(self) -> None:
        self._killed = True
        self._child.kill()

    def stop(self) -> None:
        self._killed = True
        self._child.stop(patience_s=STOP_PATIENCE_S)

    def _ended(self, status: int) -> None:
        self._api.settle()
        with self._lock:
            self._exit = self._api.init_error or Failed(error_type="Runtime.ExitError", message=_exit_message(status))
            self._api.fail(self._exit)
        self._api.close()


def _command(function: Function) -> list[str]:
    wrapper = function.wrapper
    if wrapper is None:
        return [sys.executable, "-m", "awslambdaric", function.handler]
    if not os.access(wrapper, os.X_OK):
        raise UnsupportedTemplate(f"{wrapper} must be an executable file (chmod +x): {function.name} is started by it.")
    return [str(wrapper), sys.executable, "-m", "awslambdaric", function.handler]


def _environment(function: Function, extra: Mapping[str, str], runtime_api: str) -> dict[str, str]:
    paths = [str(function.folder), *(str(layer) for layer in function.layers)]
    return {
        **{name: os.environ[name] for name in _PASSED_ON if name in os.environ},
        "AWS_LAMBDA_RUNTIME_API": runtime_api,
        "AWS_LAMBDA_FUNCTION_NAME": function.name,
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_mb),
        "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{function.name}",
        "AWS_LAMBDA_LOG_STREAM_NAME": "local",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_EXECUTION_ENV": f"AWS_Lambda_python{sys.version_info.major}.{sys.version_info.minor}",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "LAMBDA_TASK_ROOT": str(function.folder),
        "_HANDLER": function.handler,
        "TZ": ":UTC",
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONUNBUFFERED": "1",
        **function.environment,
        **extra,
    }


def _exit_message(status: int) -> str:
    if status == 0:
        return "Runtime exited without providing a reason"
    reason = f"signal: {-status}" if status < 0 else f"exit status {status}"
    return f"Runtime exited with error: {reason}"
