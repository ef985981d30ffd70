"""Builds the statements that read chunks: SQL text from fixed parts, every value a parameter. Pure.

Each statement begins with the session: the row of `session` is there only for a caller who may read it, and all the
rest hangs on its `index_id`. So a statement without a row says "no such session", and one row without a chunk says
"nothing found". A statement runs in a transaction that has `strata.tenant` and `strata.principals` set (the second
wall); its own conditions on session, principals, layers and paths are the first (`conditions`).

The number of the session's index is a parameter, `index_id`, which whoever runs a statement fills in: what
`index_statement` said, now or before. As a constant it lets the planner leave out the other partitions at once and know
how many rows the index has. It is a hint and no right: when `session` does not agree, `index_moved` is true and nothing
is found.

`search` puts a search together from its lists, each with its SQL and its parameters in a module: `dense`, `lexical`,
`exact` and `structural`, which `fusion` makes one of. Ranking reads the narrow tables only; the texts are joined
for the rows that are returned. `files` holds what is read without a ranking.
"""
