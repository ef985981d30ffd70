"""What a row must meet: its session, its readers, and the filter of the question; and what a preference makes of it."""

from __future__ import annotations

from typing import LiteralString

from psycopg import sql

from strata.model.access import Identity
from strata.model.asking import Filter
from strata.retrieval.filters import TEST_PATH, has_preferences, like_pattern
from strata.retrieval.statements.rows import NO_INDEX

# The request's model must be the index's: otherwise `index_id` is NULL and nothing is compared with vectors of another
# space or size.
SESSION = sql.SQL("""
session AS MATERIALIZED (
    SELECT found.*, CASE WHEN model_fits AND NOT index_moved THEN active_index_id END AS index_id
    FROM (
        SELECT s.generation, s.active_index_id, i.embedding_model, i.dimension, i.nearest_rows,
               i.nearest_rows IS NOT NULL AS has_cells, i.blocks_upto,
               %(embedding_model)s::text IS NULL
               OR (i.embedding_model = %(embedding_model)s AND i.dimension = %(dimension)s) AS model_fits,
               coalesce(s.active_index_id, 0) <> %(index_id)s::bigint AS index_moved
        FROM rag_sessions AS s LEFT JOIN rag_indexes AS i ON i.index_id = s.active_index_id
        WHERE s.session_id = %(session_id)s AND s.tenant = %(tenant)s
          AND (s.owner = ANY (%(principals)s::text[]) OR s.readers && %(principals)s::text[])
    ) AS found
)""")

IN_SESSION = sql.SQL("(SELECT index_id FROM session) IS NOT NULL")
"""The caller may read the session. Around a list's LIMIT it is looked at once and costs nothing a row."""


def in_index(row: LiteralString) -> sql.Composable:
    return sql.SQL("{row}.index_id = %(index_id)s::bigint AND {in_session}").format(
        row=sql.SQL(row), in_session=IN_SESSION
    )


def in_layers(row: LiteralString, filter: Filter) -> sql.Composable:
    if not filter.layers:
        return sql.SQL("true")
    return sql.SQL("{row}.layer = ANY (%(layers)s::text[])").format(row=sql.SQL(row))


def readable(row: LiteralString) -> sql.Composable:
    """The row is of the active index, and the caller may read it."""
    return sql.SQL("{in_index} AND {open}").format(in_index=in_index(row), open=open_to_caller(row))


def open_to_caller(row: LiteralString) -> sql.Composable:
    return sql.SQL("({row}.acl IS NULL OR {row}.acl && %(principals)s::text[])").format(row=sql.SQL(row))


def allowed(filter: Filter) -> sql.Composable:
    """What a chunk must meet to be found at all."""
    return sql.SQL("{matching} AND {in_session}").format(matching=matching(filter), in_session=IN_SESSION)


def matching(filter: Filter) -> sql.Composable:
    """The same but for `IN_SESSION`, which must then stand around the list."""
    conditions = [sql.SQL("chunk.index_id = %(index_id)s::bigint"), open_to_caller("chunk"), in_layers("chunk", filter)]
    if filter.path_prefixes:
        conditions.append(sql.SQL("chunk.path LIKE ANY (%(included)s::text[])"))
    if filter.exclude_path_prefixes or filter.exclude_like_patterns:
        conditions.append(sql.SQL("NOT chunk.path LIKE ANY (%(excluded)s::text[])"))
    return sql.SQL(" AND ").join(conditions)


def preferences(filter: Filter) -> tuple[sql.Composable, sql.Composable]:
    """The columns of a list's row that depend on its path, and what goes before the score in ORDER BY."""
    preferred = bool(filter.prefer_path_prefixes or filter.prefer_like_patterns)
    columns = sql.SQL("chunk.path, {bonus} AS prefer_bonus, {penalty} AS test_penalty").format(
        bonus=sql.SQL("(chunk.path LIKE ANY (%(preferred)s::text[]))::int") if preferred else sql.SQL("0"),
        penalty=sql.SQL("(chunk.path ~ %(test_path)s)::int") if filter.prefer_non_tests else sql.SQL("0"),
    )
    return columns, sql.SQL("prefer_bonus DESC, test_penalty," if has_preferences(filter) else "")


def all_preferred(filter: Filter) -> sql.Composable:
    """Whether all rows of a list are of the kind that comes first."""
    preferred = bool(filter.prefer_path_prefixes or filter.prefer_like_patterns)
    if not has_preferences(filter):
        return sql.SQL("true")
    return sql.SQL("min(prefer_bonus) = {best} AND max(test_penalty) = 0").format(best=sql.Literal(int(preferred)))


def session_parameters(session_id: str, identity: Identity) -> dict[str, object]:
    return {
        "session_id": session_id,
        "tenant": identity.tenant,
        "principals": list(identity.principals),
        "index_id": NO_INDEX,
        "embedding_model": None,
        "dimension": None,
    }


def filter_parameters(filter: Filter) -> dict[str, object]:
    return {
        "layers": [layer.value for layer in filter.layers],
        "included": [like_pattern(prefix) for prefix in filter.path_prefixes],
        "excluded": [*map(like_pattern, filter.exclude_path_prefixes), *filter.exclude_like_patterns],
        "preferred": [*map(like_pattern, filter.prefer_path_prefixes), *filter.prefer_like_patterns],
        "test_path": TEST_PATH,
    }
