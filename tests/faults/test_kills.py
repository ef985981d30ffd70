"""Workers are killed at every step; afterwards the index is what the accepted jobs in their order give.

`STRATA_FAULT_RUNS` says how many seeded runs (`make faults`: 200).
"""

from __future__ import annotations

import os
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from strata import bootstrap
from strata.model.jobs import Job
from tests.support.fault_world import POINTS, World, apply, killed
from tests.support.index_statistics import assert_rows_agree

RUNS = int(os.environ.get("STRATA_FAULT_RUNS", "10"))
GROUP = 10
AT_ONCE = 4
MOST_KILLS = 4
"""A job that was begun five times without an end is given up; that is another test."""
PATHS = [*(f"docs/{name}.md" for name in "abcdef"), *(f"src/{name}.py" for name in "uvw")]


def content(rng: random.Random, path: str) -> str:
    words = [f"word{rng.randrange(50)}" for _ in range(rng.randrange(3, 30))]
    if path.endswith(".py"):
        return f"def {words[0]}():\n    return {rng.randrange(10**6)}  # {' '.join(words)}\n"
    return f"# {words[0]}\n\n{' '.join(words)}\n\n## Part\n\nNumber {rng.randrange(10**6)}.\n"


def changes_of(rng: random.Random) -> list[dict[str, Any]]:
    changes = []
    for path in rng.sample(PATHS, rng.randrange(1, 4)):
        if rng.random() < 0.3:
            changes.append({"op": "delete", "path": path})
        else:
            changes.append({"op": "upsert", "path": path, "content": content(rng, path)})
    return changes


def run(world: World, seed: int) -> int:
    """One seeded run in a session of its own; how many workers were killed."""
    rng, session, kills = random.Random(seed), f"run-{seed}", 0
    files = {path: content(rng, path) for path in rng.sample(PATHS, 4)}
    jobs: list[Job] = [world.snapshot(session, files)]
    for number in range(rng.randrange(1, 4) + 1):
        if number:
            changes = changes_of(rng)
            apply(files, changes)
            jobs.append(world.changes(session, changes))
        for _ in range(rng.choice([1, 1, 2])):  # some notifications come twice
            fault = f"{rng.choice(POINTS)}:{rng.choice([1, 1, 2])}" if kills < MOST_KILLS else ""
            kills += killed(world.deliver(rng.choice([jobs[-1], rng.choice(jobs)]), fault=fault))
    world.finish(session, jobs)
    world.check(session, jobs, files)
    return kills


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("first", range(0, RUNS, GROUP))
def test_seeded_runs_with_random_kills(small_world: World, first: int) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        kills = list(pool.map(lambda seed: run(small_world, seed), range(first, first + GROUP)))
    assert sum(kills) >= GROUP // 2, "the faults were not reached"
    assert_rows_agree(small_world.database.owner_url)


@pytest.mark.parametrize("point", POINTS)
def test_a_worker_killed_at(shared_world: World, point: str) -> None:
    session = f"at-{point}"
    files = {"docs/a.md": "# A\n\nOne.\n", "src/u.py": "def u():\n    return 1\n"}
    first = shared_world.snapshot(session, files)
    shared_world.deliver(first).join()
    changes = [{"op": "delete", "path": "src/u.py"}, {"op": "upsert", "path": "docs/b.md", "content": f"# {point}\n"}]
    apply(files, changes)
    if point in ("before_accept", "after_accept"):
        # A request accepts its own content; that of a foreign upload is accepted by the worker.
        event = shared_world.foreign(session, changes)
        assert killed(shared_world.start("changes", event, fault=point))
        shared_world.start("changes", event).join()
        second = next(job for job in bootstrap.job_store().for_session(session) if job.job_id != first.job_id)
    else:
        second = shared_world.changes(session, changes)
        assert killed(shared_world.deliver(second, fault=point))
    shared_world.finish(session, [first, second])
    shared_world.check(session, [first, second], files)
