"""How fast files become searchable rows: cold, again, one file at a time, and with more and more of them."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from strata.errors import FileUnreadable
from strata.indexing.prepare import parser_for
from strata.indexing.reading import read_text
from strata.storage.postgres.connection import connect
from strata_bench.corpus import Corpus
from strata_bench.processor import server_cpu_s
from strata_bench.workbench import Workbench
from strata_bench.worker import Work, Worker

CHANGED_FILES = 3
LAYERS = """
    SELECT c.layer, count(*), sum(octet_length(c.content)),
           sum(pg_column_size(c.*) + coalesce(pg_column_size(v.*), 0) + pg_column_size(t.*))
    FROM rag_sessions AS s JOIN rag_chunks AS c ON c.index_id = s.active_index_id
    JOIN rag_chunk_terms AS t USING (index_id, chunk_id) LEFT JOIN rag_chunk_vectors AS v USING (index_id, chunk_id)
    WHERE s.session_id = %s GROUP BY c.layer ORDER BY c.layer
"""


def run_index(bench: Workbench, corpus: Corpus) -> dict[str, Any]:
    """Index the corpus, index it again unchanged, then change three files of middling size, one at a time.

    The jobs run in a worker's process; the time is theirs, from the stored upload to the commit that makes it
    searchable. `job_s` goes on to the job's end: a first index is made faster to search when it is live.
    `repeat_ratio` is the second snapshot's time over the first one's; `one_file_change_s` the median change, its upload
    included.
    `cpu_s` is the processor time of the worker and its own workers, `postgres_cpu_s` the server's: on a busy machine
    they say more than the clock. `peak_rss_mb` is the most that one process of the worker held, `peak_memory_mb` the
    most that all of them held together: the model, the parsers, the batches.
    """
    with bench.worker() as worker:
        first, postgres_cpu_s = _snapshot(bench, worker, corpus.files.items())
        repeat, _ = _snapshot(bench, worker, corpus.files.items())
        change_s = _change_s(bench, worker, corpus.files, "")
    counters, chunks = first.report.counters, first.report.chunks
    return {
        "corpus": corpus.name,
        "files": counters.indexed_files,
        "seconds": round(first.searchable_s, 2),
        "job_s": round(first.seconds, 2),
        "cpu_s": round(first.cpu_s, 2),
        "postgres_cpu_s": round(postgres_cpu_s, 2),
        "files_per_s": round(counters.indexed_files / first.searchable_s, 2),
        "chunks": chunks,
        "chunks_per_s": round(chunks / first.searchable_s, 1),
        "failed_files": counters.failed_files,
        "skipped_files": counters.skipped_files,
        "repeat_s": round(repeat.seconds, 3),
        "repeat_ratio": round(repeat.seconds / first.searchable_s, 4),
        "repeat_cache_hit_files": repeat.report.counters.cache_hit_files,
        "one_file_change_s": round(change_s, 3),
        **_memory(first),
        "layers": _layers(bench, corpus),
    }


def run_growth(bench: Workbench, corpus: Corpus, copies: Sequence[int], say: Callable[[str], None]) -> dict[str, Any]:
    """The corpus so many times over, each copy under other paths, each size in a session and a worker of its own.

    `exponent` is the slope of time over files on logarithmic scales: 1.0 is linear. So is `job_exponent`, to the jobs'
    ends.
    """
    sizes = []
    for count in copies:
        say(f"indexing {count * len(corpus.files):,} files")
        grown = bench.in_session(f"grown-{count}")
        with bench.worker() as worker:
            work, postgres_cpu_s = _snapshot(grown, worker, _copies(corpus, count))
            change_s = _change_s(grown, worker, corpus.files, _folder(0))
        files = work.report.counters.indexed_files
        sizes.append(
            {
                "files": files,
                "chunks": work.report.chunks,
                "seconds": round(work.searchable_s, 2),
                "job_s": round(work.seconds, 2),
                "cpu_s": round(work.cpu_s, 2),
                "postgres_cpu_s": round(postgres_cpu_s, 2),
                "files_per_s": round(files / work.searchable_s, 1),
                "one_file_change_s": round(change_s, 3),
                **_memory(work),
            }
        )
        say(json.dumps(sizes[-1]))
    return {
        "sizes": sizes,
        "exponent": _slope(sizes, "seconds"),
        "job_exponent": _slope(sizes, "job_s"),
        "cpu_exponent": _slope(sizes, "cpu_s", "postgres_cpu_s"),
    }


def _copies(corpus: Corpus, count: int) -> Iterator[tuple[str, str]]:
    return ((_folder(n) + path, text) for n in range(count) for path, text in corpus.files.items())


def _folder(copy: int) -> str:
    return f"copy-{copy:03d}/"


def _snapshot(bench: Workbench, worker: Worker, files: Iterable[tuple[str, str]]) -> tuple[Work, float]:
    """What came of it, and the server's processor time."""
    before_s = server_cpu_s(bench.postgres_pid)
    work = bench.snapshot(worker, files)
    return work, server_cpu_s(bench.postgres_pid) - before_s


def _memory(work: Work) -> dict[str, float]:
    return {
        "peak_rss_mb": round(work.peak_rss_bytes / 2**20, 1),
        "peak_memory_mb": round(work.peak_memory_bytes / 2**20, 1),
    }


def _slope(sizes: Sequence[Mapping[str, float]], *of: str) -> float | None:
    if len(sizes) < 2:
        return None
    points = [(math.log(size["files"]), math.log(sum(size[name] for name in of))) for size in sizes]
    return round(statistics.linear_regression(*zip(*points, strict=True)).slope, 3)


def _change_s(bench: Workbench, worker: Worker, files: Mapping[str, str], folder: str) -> float:
    """The median of changes of a few files in the middle of all sizes."""
    by_size = sorted(files, key=lambda path: len(files[path]))
    middle = len(by_size) // 2
    seconds = []
    for path in by_size[middle : middle + CHANGED_FILES]:
        started = time.perf_counter()
        bench.change(worker, folder + path, files[path] + "\n# One line more, which nobody has seen before.\n")
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def _layers(bench: Workbench, corpus: Corpus) -> dict[str, Any]:
    """Per layer: documents, chunks, bytes of their content, and bytes stored, each also for a byte of source."""
    source_bytes = sum(len(text.encode()) for text in corpus.files.values())
    documents = Counter(layer for path, text in corpus.files.items() for layer in _documents(path, text))
    with connect(bench.index_url) as connection:
        rows = connection.execute(LAYERS, [bench.session]).fetchall()
    return {
        layer: {
            "documents": documents[layer],
            "chunks": chunks,
            "content_bytes_per_source_byte": round(float(content_bytes) / source_bytes, 3),
            "stored_bytes_per_source_byte": round(float(stored_bytes) / source_bytes, 3),
        }
        for layer, chunks, content_bytes, stored_bytes in rows
    }


def _documents(path: str, text: str) -> list[str]:
    """The layer of each document of a file."""
    try:
        parsed = parser_for(path)(path, read_text(path, text.encode()))
    except FileUnreadable:
        return []
    return [passage.document.layer.value for passage in parsed.documents]
