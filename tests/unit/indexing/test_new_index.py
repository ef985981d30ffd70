"""How the files of a new index are divided into batches."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.indexing import new_index
from strata.model.corpus import FileEntry

SIZES = st.lists(st.one_of(st.just(0), st.integers(1, 5_000), st.integers(50_000, 900_000)), max_size=900)


def files(sizes: list[int]) -> list[FileEntry]:
    return [
        FileEntry(path=f"{n}.py", blob_sha="0" * 64, acl=None, last_modified=None, size_bytes=size)
        for n, size in enumerate(sizes)
    ]


@pytest.mark.parametrize("workers", [1, 2, 6])
@given(sizes=SIZES)
def test_every_file_is_in_one_batch_and_no_batch_has_too_many(sizes: list[int], workers: int) -> None:
    entries = files(sizes)
    batches = new_index.batches(entries, workers)
    assert list(chain.from_iterable(batches)) == entries
    assert all(1 <= len(batch) <= new_index.FILL_FILES for batch in batches)


@pytest.mark.parametrize("workers", [2, 6])
@given(sizes=SIZES)
def test_batches_that_are_written_side_by_side_cost_about_the_same(sizes: list[int], workers: int) -> None:
    """None costs more than a fair share and the file that completes it."""
    entries = files(sizes)
    batches = new_index.batches(entries, workers)
    shares = max(min(2 * workers, len(entries) // new_index.LEAST_FILL_FILES), 1)
    share = sum(size + 1_000 for size in sizes) / shares
    for batch in batches:
        assert sum(entry.size_bytes + 1_000 for entry in batch[:-1]) <= share


def test_one_worker_counts_files_alone() -> None:
    batches = new_index.batches(files([900_000, *[1] * 449]), workers=1)
    assert list(map(len, batches)) == [200, 200, 50]
