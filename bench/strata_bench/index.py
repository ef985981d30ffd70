"""How fast files become searchable rows: cold, again, one file at a time, and with more and more of them."""

from __future__ import annotations

import math
import resource
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from strata.errors import FileUnreadable
from strata.indexing.prepare import parser_for
from strata.indexing.reading import read_text
from strata.model.jobs import JobReport
from strata.storage.postgres.connection import connect
from strata_bench.corpus import Corpus
from strata_bench.processor import own_cpu_s, server_cpu_s
from strata_bench.workbench import Workbench

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

    `repeat_ratio` is the second snapshot's time over the first one's; `one_file_change_s` the median change.
    `cpu_s` is the processor time of this process and its workers, `postgres_cpu_s` the server's: on a busy machine they
    say more than the clock. `peak_rss_mb` is that of the greatest process of ours: the model, the parsers, the batches.
    """
    before_s, postgres_before_s = own_cpu_s(), server_cpu_s(bench.postgres_pid)
    first_s, first = _timed(lambda: bench.snapshot(corpus.files))
    cpu_s, postgres_cpu_s = own_cpu_s() - before_s, server_cpu_s(bench.postgres_pid) - postgres_before_s
    repeat_s, repeat = _timed(lambda: bench.snapshot(corpus.files))
    counters = first.counters
    done = counters.indexed_files
    return {
        "corpus": corpus.name,
        "files": done,
        "seconds": round(first_s, 2),
        "cpu_s": round(cpu_s, 2),
        "postgres_cpu_s": round(postgres_cpu_s, 2),
        "files_per_s": round(done / first_s, 2),
        "chunks": first.chunks,
        "chunks_per_s": round(first.chunks / first_s, 1),
        "failed_files": counters.failed_files,
        "skipped_files": counters.skipped_files,
        "repeat_s": round(repeat_s, 3),
        "repeat_ratio": round(repeat_s / first_s, 4),
        "repeat_cache_hit_files": repeat.counters.cache_hit_files,
        "one_file_change_s": round(statistics.median(_changes(bench, corpus.files)), 3),
        "peak_rss_mb": round(_peak_rss_bytes() / 2**20, 1),
        "layers": _layers(bench, corpus),
    }


def run_growth(bench: Workbench, corpus: Corpus, copies: Sequence[int], say: Callable[[str], None]) -> dict[str, Any]:
    """The corpus so many times over, each copy under other paths, each size in a session of its own and cold.

    `exponent` is the slope of time over files on logarithmic scales: 1.0 is linear.
    """
    sizes = []
    for count in copies:
        files = {f"copy-{n:03d}/{path}": text for n in range(count) for path, text in corpus.files.items()}
        say(f"indexing {len(files):,} files")
        grown = bench.in_session(f"grown-{count}")
        before_s, postgres_before_s = own_cpu_s(), server_cpu_s(bench.postgres_pid)
        seconds, report = _timed(lambda grown=grown, files=files: grown.snapshot(files))  # type: ignore[misc]
        sizes.append(
            {
                "files": report.counters.indexed_files,
                "chunks": report.chunks,
                "seconds": round(seconds, 2),
                "cpu_s": round(own_cpu_s() - before_s, 2),
                "postgres_cpu_s": round(server_cpu_s(bench.postgres_pid) - postgres_before_s, 2),
                "files_per_s": round(report.counters.indexed_files / seconds, 1),
                "one_file_change_s": round(statistics.median(_changes(grown, files)), 3),
                "peak_rss_mb": round(_peak_rss_bytes() / 2**20, 1),
            }
        )
    return {
        "sizes": sizes,
        "exponent": _slope(sizes, "seconds"),
        "cpu_exponent": _slope(sizes, "cpu_s", "postgres_cpu_s"),
    }


def _slope(sizes: Sequence[Mapping[str, float]], *of: str) -> float | None:
    if len(sizes) < 2:
        return None
    points = [(math.log(size["files"]), math.log(sum(size[name] for name in of))) for size in sizes]
    return round(statistics.linear_regression(*zip(*points, strict=True)).slope, 3)


def _changes(bench: Workbench, files: Mapping[str, str]) -> list[float]:
    by_size = sorted(files, key=lambda path: len(files[path]))
    middle = len(by_size) // 2
    seconds = []
    for path in by_size[middle : middle + CHANGED_FILES]:
        text = files[path] + "\n# One line more, which nobody has seen before.\n"
        seconds.append(_timed(lambda path=path, text=text: bench.change(path, text))[0])  # type: ignore[misc]
    return seconds


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
    return [passage.document.layer.value for passage in parsed.passages]


def _timed(work: Callable[[], JobReport]) -> tuple[float, JobReport]:
    start = time.perf_counter()
    report = work()
    return time.perf_counter() - start, report


def _peak_rss_bytes() -> int:
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return peak if sys.platform == "darwin" else peak * 1024
