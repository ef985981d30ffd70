"""The server that the tests start for themselves."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

ROOT = Path(__file__).parents[3]
STARTS_ONE = """
import time
from tests.support.postgres import postgres_server
with postgres_server() as server:
    print(server.url, flush=True)
    time.sleep(600)
"""


def test_it_ends_with_the_tests_even_when_these_are_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STRATA_TEST_DATABASE_URL", raising=False)
    process = subprocess.Popen([sys.executable, "-c", STARTS_ONE], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    with psycopg.connect(url, connect_timeout=5) as connection:
        row = connection.execute("SHOW data_directory").fetchone()
    assert row is not None
    folder = Path(row[0]).parent
    assert folder.exists()
    process.kill()
    process.communicate(timeout=10)
    end = time.monotonic() + 60
    while folder.exists() and time.monotonic() < end:
        time.sleep(0.1)
    assert not folder.exists()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url, connect_timeout=5)
