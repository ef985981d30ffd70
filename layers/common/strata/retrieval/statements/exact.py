"""The list by names: the rows that hold what the question names letter for letter."""

from __future__ import annotations

import re

from psycopg import sql

from strata.model.asking import Names
from strata.retrieval.filters import like_pattern
from strata.retrieval.statements import conditions
from strata.retrieval.statements.shape import Shape

MOST_NAMED_ROWS = 1_000
"""About how many rows the rarest names of a question bring. Other names, which stand in so many rows that they tell few
of them apart, are looked for in these rows only."""
EXACT_ROWS_LOOKED_AT = 200
"""Rows with a name of the question whose texts are read to see what the name is there."""
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")

# What the question names letter for letter. The terms of the names find the rows, few as they are; the best of them are
# looked at: is it the file or the definition of that name, or does it only mention it; does the phrase stand there?
# A phrase is looked for only where all of its words are, and OFFSET 0 keeps the planner from working that out twice.
# A row's keys ascend: `width_bucket` finds one by halving.
_EXACT = sql.SQL("""
named AS MATERIALIZED (
    SELECT array_agg(key) FILTER (WHERE is_name) AS keys,
           array_agg(key) FILTER (WHERE is_name AND (rows_so_far = df OR rows_so_far <= {named_rows})) AS telling_keys
           {phrase_keys}
    FROM (
        SELECT *, sum(df) FILTER (WHERE is_name) OVER (ORDER BY df, key ROWS UNBOUNDED PRECEDING) AS rows_so_far
        FROM (
            SELECT term, key, term = ANY (%(name_terms)s::text[]) AS is_name, coalesce(asked.df, 0) AS df
            FROM (
                SELECT term, (%(index_id)s::bigint << 32) | term_id AS key
                FROM rag_terms WHERE term = ANY (%(name_terms)s::text[]{phrase_terms})
            ) AS known LEFT JOIN asked USING (key)
        ) AS counted
    ) AS words
),
looked_at AS (
    SELECT * FROM (
        SELECT chosen.chunk_id, chosen.path, chosen.prefer_bonus, chosen.test_penalty, chosen.bm25,
               chosen.names_held + ({phrases_held}) AS mentions,
               (lower(wide.path) = ANY (%(lower_names)s::text[])
                OR lower(wide.path) LIKE ANY (%(path_endings)s::text[])
                OR lower(wide.title) = ANY (%(lower_names)s::text[])
                OR lower(wide.title) LIKE ANY (%(symbol_endings)s::text[])
                OR lower(coalesce(wide.metadata ->> 'qualified_name', '')) = ANY (%(lower_names)s::text[])
               ) AS definition
        FROM (
            SELECT chunk.chunk_id, -(chunk.weights <#> (SELECT idf FROM query)) AS bm25, {preferences}, term_keys,
                   {names_held}::int AS names_held
            FROM rag_chunk_terms AS chunk
            WHERE ({found}) AND {allowed}
            ORDER BY {preferred_first} names_held DESC, bm25 DESC, chunk_id
            LIMIT {looked_at}
        ) AS chosen CROSS JOIN LATERAL (
            SELECT * FROM rag_chunks AS wide WHERE wide.chunk_id = chosen.chunk_id AND {readable} OFFSET 0
        ) AS wide
        OFFSET 0
    ) AS matching
    WHERE mentions > 0
    ORDER BY {preferred_first} definition DESC, mentions DESC, bm25 DESC, chunk_id
    LIMIT %(depth)s
),
exact AS (
    SELECT *, row_number() OVER (ORDER BY definition DESC, mentions DESC, bm25 DESC, chunk_id) AS rank FROM looked_at
)""")
_KEYS_HELD = sql.SQL("""(SELECT count(*) FROM unnest((SELECT {keys} FROM named)) AS key
                    WHERE key = {row}.term_keys[width_bucket(key, {row}.term_keys)])""")
_HOLDS_A_NAME = sql.SQL("chunk.term_keys && (SELECT telling_keys FROM named)")
# NULL, and so nothing, where a word of the phrase is in no chunk at all.
_PHRASE_KEYS = sql.SQL(""",
        CASE WHEN count(*) FILTER (WHERE term = ANY ({terms}::text[])) = cardinality({terms}::text[]) THEN
            array_agg(key) FILTER (WHERE term = ANY ({terms}::text[])) END AS {name}""")
_HOLDS_THE_WORDS = sql.SQL("chunk.term_keys @> (SELECT {name} FROM named)")
_HOLDS_THE_PHRASE = sql.SQL("""
                   ({keys_held} = cardinality({terms}::text[]) AND lower(wide.content) ~ {pattern})::int""")
_NO_EXACT = sql.SQL("""
exact AS (
    SELECT NULL::bigint AS chunk_id, NULL::text AS path, 0 AS prefer_bonus, 0 AS test_penalty, NULL::bigint AS rank
    WHERE false
)""")


def exact_list(shape: Shape) -> sql.Composable:
    """The rows of `exact`: definitions of a name first, then by how many of the names and phrases stand there."""
    if not (shape.has_names or shape.phrases):
        return _NO_EXACT
    preferences, preferred_first = conditions.preferences(shape.filter)
    phrases = [
        {
            "pattern": sql.Placeholder(f"phrase_{number}"),
            "terms": sql.Placeholder(f"phrase_terms_{number}"),
            "name": sql.Identifier(f"phrase_{number}"),
        }
        for number in range(shape.phrases)
    ]
    found: list[sql.Composable] = [_HOLDS_THE_WORDS.format(**phrase) for phrase in phrases]
    if shape.has_names:
        found.append(_HOLDS_A_NAME)
    held = [
        _HOLDS_THE_PHRASE.format(keys_held=_KEYS_HELD.format(keys=phrase["name"], row=sql.SQL("chosen")), **phrase)
        for phrase in phrases
    ]
    return _EXACT.format(
        found=sql.SQL(" OR ").join(found),
        names_held=_KEYS_HELD.format(keys=sql.Identifier("keys"), row=sql.SQL("chunk")),
        phrase_keys=sql.Composed([_PHRASE_KEYS.format(**phrase) for phrase in phrases]),
        phrase_terms=sql.Composed([sql.SQL(" || {terms}::text[]").format(**phrase) for phrase in phrases]),
        phrases_held=sql.SQL(" + ").join(held) if held else sql.SQL("0"),
        preferences=preferences,
        allowed=conditions.allowed(shape.filter),
        readable=conditions.readable("wide"),
        preferred_first=preferred_first,
        looked_at=sql.Literal(EXACT_ROWS_LOOKED_AT),
        named_rows=sql.Literal(MOST_NAMED_ROWS),
    )


def name_parameters(names: Names) -> dict[str, object]:
    lower = [name.text.lower() for name in names.names]
    parameters: dict[str, object] = {
        "name_terms": [name.term for name in names.names],
        "lower_names": lower,
        "path_endings": ["%/" + like_pattern(name)[:-1] for name in lower],
        "symbol_endings": ["%." + like_pattern(name)[:-1] for name in lower],
    }
    for number, phrase in enumerate(names.phrases):
        parameters[f"phrase_{number}"] = _pattern(phrase.text.lower())
        parameters[f"phrase_terms_{number}"] = list(phrase.terms)
    return parameters if names else {}


def _pattern(phrase: str) -> str:
    """A regular expression of Postgres for the phrase, with any white space between its words.

    >>> _pattern("a.b (c)")
    'a\\\\.b[[:space:]]+\\\\(c\\\\)'
    """
    return "[[:space:]]+".join(_PUNCTUATION.sub(r"\\\g<0>", word) for word in phrase.split(" "))
