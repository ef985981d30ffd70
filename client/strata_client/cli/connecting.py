"""Which API a command talks to, and where the project and its data are."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from strata_client.client import StrataClient
from strata_client.retrying import RetryPolicy

DEFAULT_PORT = 8000
DEFAULT_API_URL = f"http://127.0.0.1:{DEFAULT_PORT}"

PATIENCE = RetryPolicy(attempts=3, first_delay_s=0.1)
"""A person waits: less than half a second until "nothing answers"."""


def project_root() -> Path:
    """The folder of this project: the one that the package was installed from, else the present one."""
    here = Path(__file__).resolve().parents[3]
    return here if (here / "infra" / "template.yaml").is_file() else Path.cwd()


def data_directory(given: Path | None) -> Path:
    """Where the local cloud keeps its data."""
    return (given or project_root() / ".strata").resolve()


def local_api_url(data: Path) -> str | None:
    """The address of the local cloud that runs on this data, by the note that it keeps there while it does."""
    try:
        state = json.loads((data / "state.json").read_text("utf-8"))
        url, pid = str(state["api_url"]), int(state["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return url if _lives(pid) else None


def _lives(pid: int) -> bool:
    """Whether the process is there; a cloud that was killed leaves its note behind."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def connect(api: str | None, token: str | None) -> StrataClient:
    """The client for `--api`, else for the local cloud that runs on the project's data, else for its usual port."""
    return StrataClient(api or local_api_url(data_directory(None)) or DEFAULT_API_URL, token, retry=PATIENCE)


def hint(command: str, api: str | None) -> str:
    """How to call another command from here: `.venv/bin/strata ask --api …`; without what a call finds by itself."""
    program = Path(sys.argv[0])
    shown = "strata"
    if program.stem == "strata" and shutil.which("strata") != str(program):
        here = Path.cwd()
        shown = str(program.relative_to(here)) if program.is_relative_to(here) else str(program)
    is_found = api in (None, DEFAULT_API_URL, os.environ.get("STRATA_API_URL"))
    return f"{shown} {command}" + ("" if is_found else f" --api {api}")
