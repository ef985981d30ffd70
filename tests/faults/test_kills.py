"""Workers are killed at every step; afterwards the index is what the accepted jobs in their order give.

`STRATA_FAULT_RUNS` says how many seeded runs (`make faults`: 200).
"""

from __future__ import annotations

import os
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from strata.bootstrap import stores
from strata.model.jobs import Job
from tests.support.fault_model import NEW_INDEX_POINTS, POINTS, ROLL_BACK_POINTS, Files, Model, apply, lines_of
from tests.support.fault_worker import FILL_FILES
from tests.support.fault_world import World, killed
from tests.support.index_statistics import assert_rows_agree

RUNS = int(os.environ.get("STRATA_FAULT_RUNS", "10"))
GROUP = 10
AT_ONCE = 4
MOST_KILLS = 4
"""A job that was begun five times without an end is given up; that is another test."""
TWO_BATCHES = {FILL_FILES: "3", "STRATA_PREPARE_WORKERS": "1"}
"""Of the five files that a new index is filled with, in one process."""
PATHS = [*(f"docs/{name}.md" for name in "abcdef"), *(f"src/{name}.py" for name in "uvw")]


def content(rng: random.Random, path: str) -> str:
    words = [f"word{rng.randrange(50)}" for _ in range(rng.randrange(3, 30))]
    if path.endswith(".py"):
        return f"def {words[0]}():\n    return {rng.randrange(10**6)}  # {' '.join(words)}\n"
    return f"# {words[0]}\n\n{' '.join(words)}\n\n## Part\n\nNumber {rng.randrange(10**6)}.\n"


def readers(rng: random.Random) -> dict[str, Any]:
    """What a line says about a file's readers; mostly nothing."""
    lists: list[list[str] | None] = [[], ["user:ann"], ["user:bob", "user:ann"], ["group:crew"], None]
    return {"acl": rng.choice(lists)} if rng.random() < 0.4 else {}


def changes_of(rng: random.Random, files: Files | None = None) -> list[dict[str, Any]]:
    """Of `files`, those that are there, some only get other readers."""
    files, changes = files or {}, []
    for path in rng.sample(PATHS, rng.randrange(1, 4)):
        chance = rng.random()
        if chance < 0.25:
            changes.append({"op": "delete", "path": path})
        elif chance < 0.35:
            changes.append({"op": "upsert", "path": path, "content": "", **readers(rng)})
        elif chance < 0.55 and path in files:
            changes.append({"op": "upsert", "path": path, "content": files[path], **readers(rng)})
        else:
            changes.append({"op": "upsert", "path": path, "content": content(rng, path), **readers(rng)})
    return changes


def snapshot_of(rng: random.Random, files: Files | None = None) -> list[dict[str, Any]]:
    """Four files; one that is among `files` may come unchanged."""
    files = files or {}
    return [
        {
            "path": path,
            "content": files[path] if path in files and rng.random() < 0.3 else content(rng, path),
            **readers(rng),
        }
        for path in rng.sample(PATHS, 4)
    ]


def run(world: World, seed: int) -> int:
    """One seeded run in a session of its own; how many workers were killed."""
    rng, session, kills, model = random.Random(seed), f"run-{seed}", 0, Model()
    states = [model.copy()]
    jobs: list[Job] = []
    for number in range(rng.randrange(2, 5)):
        job, points = request(rng, world, session, model, first=not number)
        jobs.append(job)
        states.append(model.copy())
        for _ in range(rng.choice([1, 1, 2])):  # some notifications come twice
            fault = f"{rng.choice(points)}:{rng.choice([1, 1, 2])}" if kills < MOST_KILLS else ""
            kills += killed(world.deliver(rng.choice([jobs[-1], rng.choice(jobs)]), fault=fault))
            world.check_readers(session, states.__getitem__)
    world.finish(session, jobs)
    world.check(session, jobs, model)
    return kills


def request(
    rng: random.Random, world: World, session: str, model: Model, *, first: bool
) -> tuple[Job, tuple[str, ...]]:
    """A job of any kind, done in the model, and where its worker may die."""
    kind = "snapshot" if first else rng.choice(["changes", "changes", "reindex", "roll_back"])
    if kind == "snapshot" or (kind == "reindex" and model.files):
        lines = snapshot_of(rng, model.files)
        model.snapshot(lines, reindex=not first)
        return world.snapshot_of(session, lines, reindex=not first), POINTS if first else NEW_INDEX_POINTS
    if kind == "roll_back" and model.before:
        model.roll_back()
        return world.roll_back(session), ROLL_BACK_POINTS
    changes = changes_of(rng, model.files)
    model.changes(changes)
    return world.changes(session, changes), POINTS


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
        second = next(job for job in stores.job_store().for_session(session) if job.job_id != first.job_id)
    else:
        second = shared_world.changes(session, changes)
        assert killed(shared_world.deliver(second, fault=point))
    shared_world.finish(session, [first, second])
    shared_world.check(session, [first, second], files)


@pytest.mark.parametrize("point", NEW_INDEX_POINTS)
def test_a_worker_killed_while_it_builds_a_new_index_at(shared_world: World, point: str) -> None:
    """There are two batches of files, and an index that nobody needs any more; where work is repeated, two die."""
    session, model = f"anew-{point}", Model()
    jobs = []
    for number in range(3):
        many = {f"docs/{each}.md": f"# {number} {each}\n" for each in range(5)}
        model.snapshot(lines_of(many), reindex=number > 0)
        jobs.append(shared_world.snapshot(session, model.files, reindex=number > 0))
        if number < 2:
            shared_world.deliver(jobs[-1]).join()
    for times in (1, 2) if point in ("before_fill", "in_fill_before_its_end", "after_fill", "in_collect") else (1,):
        assert killed(shared_world.deliver(jobs[-1], fault=f"{point}:{times}", **TWO_BATCHES))
        shared_world.let_the_lease_end(session)
    shared_world.finish(session, jobs)
    shared_world.check(session, jobs, model)
    model.roll_back()
    jobs.append(shared_world.roll_back(session))
    shared_world.finish(session, jobs)
    shared_world.check(session, jobs, model)


@pytest.mark.parametrize("point", ROLL_BACK_POINTS)
def test_a_worker_killed_while_it_rolls_back_at(shared_world: World, point: str) -> None:
    session, model = f"back-{point}", Model()
    jobs = []
    for number in range(2):
        model.snapshot(lines_of({"docs/a.md": f"# {number}\n"}), reindex=number > 0)
        jobs.append(shared_world.snapshot(session, model.files, reindex=number > 0))
        shared_world.deliver(jobs[-1]).join()
    model.roll_back()
    jobs.append(shared_world.roll_back(session))
    assert killed(shared_world.deliver(jobs[-1], fault=point))
    shared_world.finish(session, jobs)
    shared_world.check(session, jobs, model)
    assert_rows_agree(shared_world.database.owner_url)
