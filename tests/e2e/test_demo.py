"""The command line against the real local cloud: this repository, from its folder to a checked answer, twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from strata_client.cli.questions import DEFAULT_QUESTION
from strata_client.packing import FoundFile, walk

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = [sys.executable, "-c", "from strata_client.cli.main import run; run()"]
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("STRATA_API")}

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.name == "nt", reason="the local cloud needs POSIX"),
]


@dataclass(frozen=True, kw_only=True)
class Demo:
    """One run of `strata demo --json`."""

    result: Any
    err: str
    seconds: float


def strata(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments], cwd=REPOSITORY, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )


def demo(data: Path, project: Path) -> Demo:
    started = time.monotonic()
    done = strata(
        "demo", str(project), "--session", "demo", "--question", DEFAULT_QUESTION,
        "--json", "--data", str(data), "--port", "0",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return Demo(result=json.loads(done.stdout), err=done.stderr, seconds=time.monotonic() - started)


def processes_that_know(data: Path) -> list[str]:
    """Command lines of this machine's processes that name the folder, or work in it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            folder = os.readlink(process / "cwd")
        except OSError:
            continue  # it has ended in the meantime, or is not ours to see
        if str(data) in command or folder.startswith(str(data)):
            found.append(command)
    return found


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data directory with the model in it, so that only the first set-up of a machine fetches it."""
    folder = tmp_path_factory.mktemp("cloud") / "data"
    model = REPOSITORY / ".strata" / "models" / "minilm"
    if model.is_dir():
        shutil.copytree(model, folder / "models" / "minilm")
    yield folder
    strata("down", "--wipe", "--data", str(folder))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This repository as it is now: somebody may go on working in it while the tests run."""
    root = tmp_path_factory.mktemp("project") / "strata"
    for found in walk(REPOSITORY, max_file_bytes=2**21):
        if isinstance(found, FoundFile):
            target = root / found.path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(found.content)
    return root


@pytest.fixture(scope="module")
def first(data: Path, project: Path) -> Demo:
    return demo(data, project)


@pytest.fixture(scope="module")
def second(data: Path, project: Path, first: Demo) -> Demo:
    """After the first one, which is why it asks for that."""
    return demo(data, project)


def test_the_job_is_done_and_no_file_failed(first: Demo) -> None:
    counters = first.result["job"]["counters"]

    assert first.result["job"]["status"] == "done"
    assert counters["failed_files"] == 0, first.err
    assert counters["indexed_files"] == counters["cache_miss_files"] > 100
    assert first.result["chunks"] > counters["indexed_files"]


def test_every_quote_stands_in_the_lines_that_it_names(project: Path, first: Demo) -> None:
    answer = first.result["answer"]

    assert len(answer["citations"]) >= 2
    assert answer["grounded"]
    for citation in answer["citations"]:
        first_line, last_line = citation["lines"]
        lines = (project / citation["path"]).read_text("utf-8").splitlines()[first_line - 1 : last_line]
        assert citation["quote"].strip(), "an empty quote proves nothing"
        assert citation["quote"] in "\n".join(lines)
        assert f"[{citation['n']}]" in answer["text"]


def test_the_answer_is_about_the_question(first: Demo) -> None:
    text = first.result["answer"]["text"].lower()

    assert "half-written" in text or "transaction" in text or "generation" in text


def test_a_second_run_embeds_nothing_and_takes_a_fraction(first: Demo, second: Demo) -> None:
    assert second.result["job"]["counters"]["cache_miss_files"] == 0
    assert second.result["job"]["counters"]["failed_files"] == 0
    assert second.result["job"]["seconds"] < max(0.3 * first.result["job"]["seconds"], 3.0)
    assert second.result["answer"]["text"] == first.result["answer"]["text"]


def test_sources_come_quickly_on_a_warm_function(first: Demo, second: Demo) -> None:
    # Other tests share the machine; `strata bench` measures what a quiet one does.
    timings = [run.result["timings"] for run in (first, second)]

    assert min(each["sources_ms"] for each in timings) < 500
    assert all(each["sources_ms"] <= each["first_delta_ms"] <= each["total_ms"] for each in timings)


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks at /proc")
def test_nothing_is_left_running(data: Path, second: Demo) -> None:
    assert processes_that_know(data) == []
    assert not (data / "state.json").exists()


@pytest.mark.parametrize(
    ("stop", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)], ids=["Ctrl-C", "asked to terminate"]
)
def test_up_serves_until_it_is_stopped_and_leaves_nothing(
    data: Path,
    second: Demo,
    stop: signal.Signals,
    status: int,
) -> None:
    up = subprocess.Popen(
        [*PROGRAM, "up", "--json", "--port", "0", "--data", str(data)],
        cwd=REPOSITORY,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert up.stdout is not None
        assert up.stderr is not None
        said = up.stdout.readline()
        assert said, up.stderr.read()
        url = json.loads(said)["api_url"]
        sessions = strata("sessions", "--json", "--api", url)
        assert [each["session_id"] for each in json.loads(sessions.stdout)] == ["demo"], "rows outlive a restart"
        found = strata("search", "content-addressed cache", "--session", "demo", "--json", "--api", url)
        assert json.loads(found.stdout)["rows"]
        again = strata("up", "--port", "0", "--data", str(data))
        assert again.returncode == 1
        assert again.stderr.splitlines()[-1].endswith("`strata down` ends it.")

        up.send_signal(stop)
        assert up.wait(60) == status
        said_words = {line.split()[0] for line in up.stderr.read().splitlines()}
        assert said_words <= {"Starting", "Postgres", "S3", "The", "Query"}, "a library talks to the user"
    finally:
        if up.poll() is None:
            up.kill()
            up.wait()
    assert not (data / "state.json").exists()
    if Path("/proc/self/cmdline").exists():
        assert processes_that_know(data) == []
