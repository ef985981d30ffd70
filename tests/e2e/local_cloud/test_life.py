"""One cloud a folder: how it is found, ended and killed, and what is left then."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from strata_local.errors import AlreadyRunning, LocalCloudError, PortTaken
from strata_local.running import down, running_cloud
from strata_local.up import LocalCloud
from tests.support.local_stack_template import TEMPLATE
from tests.support.waiting import eventually, process_exists

pytestmark = pytest.mark.e2e


def test_a_second_cloud_in_the_same_directory_is_told_where_the_first_one_is(cloud: LocalCloud) -> None:
    with pytest.raises(AlreadyRunning, match=cloud.api_url):
        LocalCloud(cloud.data_directory, port=0, template=TEMPLATE).start()
    assert httpx.get(f"{cloud.api_url}/health", trust_env=False).status_code == 200


def test_another_process_finds_the_running_cloud(cloud: LocalCloud) -> None:
    found = running_cloud(cloud.data_directory)
    assert found is not None
    assert (found.pid, found.api_url) == (os.getpid(), cloud.api_url)
    assert found.environment["BUCKET"] == "strata-local-bucket"
    assert (cloud.data_directory / "state.json").stat().st_mode & 0o077 == 0


def test_it_does_not_end_its_own_process(cloud: LocalCloud) -> None:
    with pytest.raises(LocalCloudError):
        down(cloud.data_directory)


PROGRAM = """
import signal
import sys
from pathlib import Path
from strata_client.cli.cloud import serve
from strata_local.up import LocalCloud

def stop(number, frame):
    raise SystemExit(0)

signal.signal(signal.SIGINT, stop)
signal.signal(signal.SIGTERM, stop)
cloud = LocalCloud(Path(sys.argv[1]), port=0, template=Path(sys.argv[2]), report=lambda line: print(line, flush=True))
with cloud:
    cloud.warm()
    print(f"pids {sum(cloud.functions.pids.values(), [])}", flush=True)
    serve()
"""


@pytest.fixture
def data() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name) / "data"


@pytest.fixture
def program(data: Path) -> Iterator[tuple[subprocess.Popen[str], list[int], list[str]]]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(data), str(TEMPLATE)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    lines: list[str] = []
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    try:
        for line in process.stdout:
            lines.append(line.strip())
            if line.startswith("pids "):
                break
        yield process, json.loads(lines[-1].removeprefix("pids ")), lines
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
        process.stdout.close()


def test_down_ends_it_and_leaves_no_process(
    data: Path, program: tuple[subprocess.Popen[str], list[int], list[str]]
) -> None:
    process, pids, lines = program
    assert len(pids) >= 4  # one of every function that can start
    assert any(line.startswith("Echo is warm") for line in lines)
    found = running_cloud(data)
    assert found is not None
    assert found.pid == process.pid
    assert httpx.get(f"{found.api_url}/health", trust_env=False).status_code == 200
    assert down(data) is True
    assert process.wait(60) == 0
    assert not any(process_exists(pid) for pid in pids)
    assert running_cloud(data) is None
    assert not (data / "state.json").exists()
    assert down(data, wipe=True) is False
    assert not data.exists()


def test_when_it_is_killed_its_children_end_too(
    data: Path, program: tuple[subprocess.Popen[str], list[int], list[str]]
) -> None:
    process, pids, _ = program
    process.kill()
    process.wait()
    eventually(lambda: not any(process_exists(pid) for pid in pids))
    assert running_cloud(data) is None
    assert down(data) is False


def test_ctrl_c_ends_it(program: tuple[subprocess.Popen[str], list[int], list[str]]) -> None:
    process, pids, _ = program
    process.send_signal(2)
    assert process.wait(60) == 0
    assert not any(process_exists(pid) for pid in pids)


def test_a_taken_port_is_named_and_nothing_stays(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=str(port)):
            LocalCloud(tmp_path / "data", port=port, template=TEMPLATE).start()
    assert running_cloud(tmp_path / "data") is None


def test_a_folder_that_is_no_data_directory_is_not_wiped(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(LocalCloudError, match="nothing was removed"):
        down(tmp_path, wipe=True)
    assert (tmp_path / "precious").exists()
