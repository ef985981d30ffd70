"""A statement with its parameters, and the columns of the rows that it brings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import LiteralString

from psycopg import sql

from strata.retrieval.prepared import PreparedText

NO_INDEX = 0
"""A number that no index has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """`prepared` is the same text for a server to prepare, where that pays."""

    text: sql.Composed
    parameters: Mapping[str, object]
    prepared: PreparedText | None = None

    def on(self, index_id: int) -> Mapping[str, object]:
        """The parameters for this index."""
        return {**self.parameters, "index_id": index_id}


SESSION_TYPES: Mapping[LiteralString, LiteralString] = {
    "generation": "bigint", "embedding_model": "text", "dimension": "int", "model_fits": "bool", "index_moved": "bool",
    "has_cells": "bool",
}  # fmt: skip

CANDIDATE_TYPES: Mapping[LiteralString, LiteralString] = {
    "chunk_id": "bigint", "path": "text", "layer": "text", "ordinal": "int", "title": "text", "content": "text",
    "span_start": "int", "span_end": "int", "blob_sha": "text", "metadata": "jsonb",
    "score": "float8", "dense_rank": "bigint", "distance": "float8", "lexical_rank": "bigint", "bm25": "float8",
    "exact_rank": "bigint", "structural_rank": "bigint", "prefer_bonus": "int", "test_penalty": "int",
    "terms": "jsonb", "session_principals": "text[]", "file_principals": "text[]",
    "best_distance": "float8", "greatest_bm25": "float8",
}  # fmt: skip
CANDIDATE_COLUMNS = tuple(CANDIDATE_TYPES)
"""Columns of a found chunk; the last two are the best scores of the lists, the same in every row."""
SESSION_COLUMNS = tuple(SESSION_TYPES)
"""Columns of the session, before those of a chunk; the model and its dimension are NULL before the first index."""


def columns() -> sql.Composable:
    """Those of `session` and `found`, as they are named there."""
    names = [*(("session", name) for name in SESSION_COLUMNS), *(("found", name) for name in CANDIDATE_COLUMNS)]
    return sql.SQL(", ").join(sql.Identifier(*name) for name in names)
