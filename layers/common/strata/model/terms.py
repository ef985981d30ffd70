"""The terms of a text with their occurrences, as arrays: many texts are counted, stored and packed at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:  # a function that accepts a job or tells its state needs no numpy, and starts without it
    import numpy as np
    from numpy.typing import NDArray

Integers: TypeAlias = "NDArray[np.int64]"


@dataclass(frozen=True, slots=True, eq=False)
class TermCounts:
    """How often each term occurs in one text.

    `numbers` are places in `words`, distinct; `counts` are as many. Texts that were counted together share `words`,
    which may hold terms that this one has not.
    """

    words: Sequence[str]
    numbers: Integers
    counts: Integers

    @classmethod
    def of(cls, counts: Mapping[str, int]) -> TermCounts:
        import numpy as np

        return cls(
            tuple(counts),
            np.arange(len(counts), dtype=np.int64),
            np.fromiter(counts.values(), dtype=np.int64, count=len(counts)),
        )

    @property
    def by_term(self) -> dict[str, int]:
        return dict(zip(map(self.words.__getitem__, self.numbers.tolist()), self.counts.tolist(), strict=True))

    @property
    def total(self) -> int:
        return int(self.counts.sum())
