"""One changed file through the whole local cloud: HTTP, S3, the worker, and a question that finds the new text."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from strata_bench.corpus import Corpus
from strata_bench.processor import server_cpu_s, tree_cpu_s
from strata_client import StrataClient
from strata_local.up import LocalCloud

SESSION = "bench"
CHANGES = 8
PATIENCE_S = 60.0
EMBEDDER = {"STRATA_EMBEDDER": "hashed", "STRATA_RERANKER": "none"}
"""The embedder's own work is measured elsewhere, and its model need not be there."""


def run_cloud(corpus: Corpus, copies: Sequence[int], say: Callable[[str], None]) -> dict[str, Any]:
    """The corpus so many times over in one session, then changes of files of middling size, one after the other.

    Seconds from the request, as medians: `accepted_s` until its reply, `one_file_change_s` until a question finds the
    new text (the same question is asked again and again), of which the last question took `question_s`. `cpu_s` and
    `postgres_cpu_s` are the processor's time of a whole change, all of its questions included, in the cloud and in the
    database: on a busy machine they say more than the clock. The first change, for which processes start, does not
    count. The cloud starts empty in a folder of its own and is gone afterwards.
    """
    sizes = []
    with tempfile.TemporaryDirectory(prefix="strata-bench-") as name:
        folder = Path(name)
        with LocalCloud(folder / "cloud", port=0, environment=EMBEDDER) as cloud, StrataClient(cloud.api_url) as client:
            cloud.warm()
            for count in copies:
                files = {f"copy-{n:03d}/{path}": text for n in range(count) for path, text in corpus.files.items()}
                say(f"indexing {len(files):,} files through the local cloud")
                session = f"{SESSION}-{count}"
                chunks = _snapshot(client, session, files, folder / "upload.jsonl")
                paths = sorted(corpus.files, key=lambda path: len(corpus.files[path]))[len(corpus.files) // 2 :]
                postgres = int(next(folder.rglob("postmaster.pid")).read_text().split()[0])
                changes = [
                    _change(client, session, path := f"copy-000/{paths[n % len(paths)]}", files[path], postgres)
                    for n in range(CHANGES + 1)
                ][1:]
                medians = {name: round(statistics.median(change[name] for change in changes), 3) for name in changes[0]}
                sizes.append({"files": len(files), "chunks": chunks, **medians})
                say(json.dumps(sizes[-1]))
    return {"corpus": corpus.name, "sizes": sizes}


def _snapshot(client: StrataClient, session: str, files: dict[str, str], upload: Path) -> int:
    """The number of the session's chunks."""
    with upload.open("w", encoding="utf-8") as lines:
        for path, text in files.items():
            lines.write(json.dumps({"path": path, "content": text}) + "\n")
    created = client.create_session(session, format="jsonl")
    if created["upload"] is not None:
        client.upload(created["upload"], upload)
    job = client.wait_for(created["job"]["job_id"])
    if job["status"] != "done":
        raise RuntimeError(f"the snapshot ended as {job['status']}: {job['error']}")
    return int(job["chunks"])


def _change(client: StrataClient, session: str, path: str, text: str, postgres: int) -> dict[str, float]:
    word = f"w{uuid.uuid4().hex}"
    cpu_s, postgres_cpu_s = tree_cpu_s(os.getpid(), but=postgres), server_cpu_s(postgres)
    started = time.perf_counter()
    job = client.changes(session, [{"op": "upsert", "path": path, "content": f"{text}\n# {word}\n"}])
    accepted_s = time.perf_counter() - started
    while time.perf_counter() - started < PATIENCE_S:
        asked = time.perf_counter()
        found = client.retrieve(session, word, limit=3)
        found_s = time.perf_counter() - started
        if any(word in row["content"] for row in found["rows"]):
            question_s = time.perf_counter() - asked
            client.wait_for(job["job_id"])
            return {
                "accepted_s": accepted_s,
                "one_file_change_s": found_s,
                "question_s": question_s,
                "cpu_s": tree_cpu_s(os.getpid(), but=postgres) - cpu_s,
                "postgres_cpu_s": server_cpu_s(postgres) - postgres_cpu_s,
            }
    raise RuntimeError(f"the new text of {path} was not found")
