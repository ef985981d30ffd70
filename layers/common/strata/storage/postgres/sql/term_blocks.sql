-- The blocks of an index's frequent words; see `term_blocks.py`.

-- name: hold
-- The index for this transaction alone: no commit and no filler of it is under way, so every row with a lesser number
-- than another that is seen is seen too.
SELECT i.blocks_upto,
       (SELECT coalesce(sum(l.chunk_count), 0)::bigint FROM rag_index_layers AS l WHERE l.index_id = i.index_id) AS chunks
FROM rag_sessions AS s JOIN rag_indexes AS i USING (session_id)
WHERE i.index_id = %(index_id)s
FOR NO KEY UPDATE OF s, i;

-- name: outside
-- How many rows have no place, as far as it matters.
SELECT count(*) FROM (
    SELECT FROM rag_chunk_terms WHERE index_id = %(index_id)s AND chunk_id > %(upto)s ORDER BY chunk_id LIMIT %(most)s
) AS rows;

-- name: frequent_terms
-- With their idf in a search of these layers.
SELECT term_id, ln(1 + (chunks - df + 0.5) / (df + 0.5)) AS idf
FROM (
    SELECT term_id, sum(document_frequency)::float8 AS all_df,
           coalesce(sum(document_frequency) FILTER (WHERE layer = ANY (%(layers)s::text[])), 0)::float8 AS df
    FROM rag_index_terms WHERE index_id = %(index_id)s
    GROUP BY term_id
) AS counted CROSS JOIN (
    SELECT coalesce(sum(chunk_count), 0)::float8 AS chunks FROM rag_index_layers
    WHERE index_id = %(index_id)s AND layer = ANY (%(layers)s::text[])
) AS layers
WHERE all_df > %(frequent)s
ORDER BY term_id;

-- name: forget_terms
DELETE FROM rag_term_blocks WHERE index_id = %(index_id)s;

-- name: forget_rows
DELETE FROM rag_block_rows WHERE index_id = %(index_id)s;

-- name: rows
SELECT chunk_id, layer, sparsevec_send(weights) AS weights FROM rag_chunk_terms
WHERE index_id = %(index_id)s AND chunk_id > %(after)s
ORDER BY chunk_id
LIMIT %(rows)s;

-- name: copy_terms
COPY rag_term_blocks (index_id, term_id, layer, block, scores, idf) FROM STDIN (FORMAT BINARY);

-- name: copy_rows
COPY rag_block_rows (index_id, block, chunk_ids) FROM STDIN (FORMAT BINARY);

-- name: finish
UPDATE rag_indexes SET blocks_upto = %(upto)s WHERE index_id = %(index_id)s;
