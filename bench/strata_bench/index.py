"""How fast files become searchable rows, first and again."""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from strata.model.jobs import JobReport
from strata_bench.corpus import Corpus
from strata_bench.workbench import Workbench

CHANGED_FILES = 3


def run_index(bench: Workbench, corpus: Corpus) -> dict[str, Any]:
    """Index the corpus, index it again unchanged, then change three files of middling size, one at a time.

    `cpu_s` is this process' time on the processor for the first snapshot: it does not depend on what else runs.
    `repeat_ratio` is the second snapshot's time over the first one's; `one_file_change_s` the median change.
    `peak_rss_mb` is this process: the model, the parsers and the batches, not Postgres.
    """
    used = time.process_time()
    first_s, first = _timed(lambda: bench.snapshot(corpus.files))
    cpu_s = time.process_time() - used
    repeat_s, repeat = _timed(lambda: bench.snapshot(corpus.files))
    counters = first.counters
    done = counters.indexed_files
    by_size = sorted(corpus.files, key=lambda path: len(corpus.files[path]))
    middle = len(by_size) // 2
    changes = []
    for path in by_size[middle : middle + CHANGED_FILES]:
        text = corpus.files[path] + "\n# One line more, which nobody has seen before.\n"
        changes.append(_timed(lambda path=path, text=text: bench.change(path, text))[0])  # type: ignore[misc]
    return {
        "corpus": corpus.name,
        "files": done,
        "seconds": round(first_s, 2),
        "cpu_s": round(cpu_s, 2),
        "files_per_s": round(done / first_s, 2),
        "chunks": first.chunks,
        "chunks_per_s": round(first.chunks / first_s, 1),
        "failed_files": counters.failed_files,
        "skipped_files": counters.skipped_files,
        "repeat_s": round(repeat_s, 3),
        "repeat_ratio": round(repeat_s / first_s, 4),
        "repeat_cache_hit_files": repeat.counters.cache_hit_files,
        "one_file_change_s": round(statistics.median(changes), 3),
        "peak_rss_mb": round(_peak_rss_bytes() / 2**20, 1),
    }


def _timed(work: Callable[[], JobReport]) -> tuple[float, JobReport]:
    start = time.perf_counter()
    report = work()
    return time.perf_counter() - start, report


def _peak_rss_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
