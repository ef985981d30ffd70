"""Nothing from a file steers the terminal; interrupts and readers that leave end a command in peace."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from strata_client.cli.screen import printable
from tests.support.command_line import Run
from tests.support.fake_api import (
    FakeApi,
    error_reply,
    json_reply,
    row,
    sse,
    sse_reply,
)


def test_text_from_files_can_not_steer_the_terminal(run: Run, api: FakeApi) -> None:
    nasty = "\x1b]0;owned\x07\x1b[2J\u202ebad\r"
    retrieved = {"rows": [row("a.py", title=nasty)], "session_id": "shop", "generation": 1, "embedding_model": "m"}
    api.on("POST", "/api/rag/sessions/shop/retrieve", json_reply(retrieved))
    done = {"answer": nasty, "grounded": True, "abstained": False, "usage": {}, "timings_ms": {}}
    api.on("POST", "/api/rag/sessions/shop/query", sse_reply(sse("delta", {"text": nasty}) + sse("done", done)))
    api.on("GET", "/api/rag/sessions/shop", error_reply(404, "x", nasty))

    outcomes = [run("search", "x", "-s", "shop", "--api", api.url), run("ask", "x", "-s", "shop", "--api", api.url)]

    for outcome in outcomes:
        assert outcome.status == 0
        assert not set("\x1b\x07\r\u202e") & set(outcome.out + outcome.err)


def test_rich_markup_in_a_title_is_text(run: Run, api: FakeApi) -> None:
    retrieved = {
        "rows": [row(title="[red]list[int][/red]")],
        "session_id": "s",
        "generation": 1,
        "embedding_model": "m",
    }
    api.on("POST", "/api/rag/sessions/shop/retrieve", json_reply(retrieved))

    assert "[red]list[int][/red]" in run("search", "x", "-s", "shop", "--api", api.url).out


def test_what_an_output_can_not_show_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ascii:
        encoding = "ascii"

    monkeypatch.setattr(sys, "stdout", Ascii())

    assert printable("Привет \ud800 [1]") == "?????? ? [1]"


@pytest.mark.skipif(os.name == "nt", reason="Windows has other interrupts")
def test_ctrl_c_stops_a_command_at_once_with_130(api: FakeApi) -> None:
    pause = sse_reply(*[sse("delta", {"text": "word "})] * 100, pause_s=0.5)
    api.on("POST", "/api/rag/sessions/shop/query", pause)
    program = "from strata_client.cli.main import run; run()"
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", program, "ask", "x", "--session", "shop", "--api", api.url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(5) == b"word "
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(40) == 130
        assert time.monotonic() - started < 20  # the answer would take 50 s
        assert b"Traceback" not in process.stderr.read()


@pytest.mark.skipif(shutil.which("head") is None, reason="needs head")
def test_a_reader_that_leaves_early_gets_no_traceback(api: FakeApi) -> None:
    rows = [row(f"src/f{n}.py", title="x" * 200) for n in range(2_000)]
    retrieved = {"rows": rows, "session_id": "shop", "generation": 1, "embedding_model": "m"}
    api.on("POST", "/api/rag/sessions/shop/retrieve", json_reply(retrieved))
    program = "from strata_client.cli.main import run; run()"
    search = [sys.executable, "-c", program, "search", "x", "--session", "shop", "--api", api.url]
    with subprocess.Popen(search, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        first = subprocess.run(["head", "-n", "1"], stdin=process.stdout, capture_output=True, check=True).stdout
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert first.startswith(b"1\t")
