"""The postings of chunks: keys for the GIN index, saturated weights for the inner product.

Postgres can make a sparsevec from its text only, which takes it three times what numpy takes to pack one for COPY.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Any

import numpy as np

from strata.retrieval.bm25 import K1, B
from strata.retrieval.statements.lexical import TERM_SPACE
from strata.storage.postgres import copying

_ROWS_AT_ONCE = 500


def rows(index_id: int, chunks: Sequence[Any]) -> Iterator[bytes]:
    """The rows of `rag_chunk_terms` for COPY. `chunks` are rows of the statement `chunk_terms`.

    A weight is what `strata_weight` says, to the bit.
    """
    terms, counts, lengths = copying.pairs([chunk.terms for chunk in chunks])
    relative = np.array([B * chunk.length for chunk in chunks]) / np.array([chunk.average_length for chunk in chunks])
    weights = (counts * (K1 + 1) / (counts + np.repeat(K1 * (1 - B + relative), lengths))).astype(np.float32)
    sizes = lengths.tolist()
    packed = zip(
        chunks,
        copying.int8_arrays((index_id << 32) | terms, sizes),
        copying.sparsevecs(terms, weights, TERM_SPACE, sizes),
        strict=True,
    )
    index, text = copying.int8(index_id), cache(copying.text)
    packed_rows = (
        copying.row(
            (
                index,
                copying.int8(chunk.chunk_id),
                text(chunk.layer),
                text(chunk.path),
                copying.NULL if chunk.acl is None else copying.bytea(chunk.acl),
                keys,
                sparse,
            )
        )
        for chunk, keys, sparse in packed
    )
    yield copying.HEADER
    while part := b"".join(islice(packed_rows, _ROWS_AT_ONCE)):
        yield part
    yield copying.TRAILER
