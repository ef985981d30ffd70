-- A new index beside the live one: begun, filled in batches, then live in one small transaction; see `new_index.py`.

-- name: begun_index
-- What this job has begun before, with the same model.
UPDATE rag_indexes SET fence = %(fence)s
WHERE session_id = %(session_id)s AND filled_by = %(job_id)s AND fence <= %(fence)s
  AND embedding_model = %(embedding_model)s AND dimension = %(dimension)s AND pipeline_version = %(pipeline_version)s
RETURNING index_id;

-- name: begin_index
INSERT INTO rag_indexes (session_id, embedding_model, dimension, pipeline_version, filled_by, fence)
VALUES (%(session_id)s, %(embedding_model)s, %(dimension)s, %(pipeline_version)s, %(job_id)s, %(fence)s)
RETURNING index_id;

-- name: pin_lengths
-- The average lengths of all that is going to be in the index, before its first row: every weight is made with them.
INSERT INTO rag_index_layers (index_id, layer, chunk_count, pinned_average_length)
SELECT %(index_id)s, l.layer, 0, greatest(sum(l.terms) / sum(l.chunks), 1)
FROM unnest(%(paths)s::text[], %(blob_shas)s::text[]) AS f (path, blob_sha)
JOIN rag_blob_cache AS b ON b.tenant = %(tenant)s AND b.repo_id = %(repo_id)s AND b.path = f.path
    AND b.blob_sha = f.blob_sha AND b.pipeline_version = %(pipeline_version)s
    AND b.embedding_model = %(embedding_model)s
CROSS JOIN LATERAL jsonb_to_recordset(b.layer_lengths) AS l (layer text, chunks bigint, terms bigint)
GROUP BY l.layer;

-- name: take_over_index
-- The next holder of the lock goes on with the index of the one before.
UPDATE rag_indexes SET fence = %(fence)s
WHERE index_id = %(index_id)s AND filled_by = %(job_id)s AND fence < %(fence)s;

-- name: share_index
-- The index for one batch; other batches of this holder are written at the same time, but nobody takes it over or flips
-- it before this transaction's end. No row: the job is over, or a newer holder of the lock fills it.
SELECT i.session_id, s.tenant, s.repo_id, s.generation, i.embedding_model, i.dimension, i.pipeline_version
FROM rag_indexes AS i JOIN rag_sessions AS s USING (session_id)
WHERE i.index_id = %(index_id)s AND i.filled_by = %(job_id)s AND i.fence = %(fence)s AND s.fence <= %(fence)s
FOR SHARE OF i;

-- name: hold_index
-- The index for its holder alone. No row: the job is over, or a newer holder of the lock fills it.
UPDATE rag_indexes AS i SET fence = %(fence)s
FROM rag_sessions AS s
WHERE i.index_id = %(index_id)s AND i.filled_by = %(job_id)s AND i.fence <= %(fence)s
  AND s.session_id = i.session_id AND s.fence <= %(fence)s
RETURNING i.session_id;

-- name: filled_paths
SELECT path FROM rag_session_chunk_map WHERE index_id = %(index_id)s AND path = ANY (%(paths)s::text[]);

-- name: gather_postings
-- For this transaction: postings of a batch wait in a list that is merged into the GIN index all at once, when the list
-- is longer than this, or by `tidy`. Eight merges of 4 MB each touch most words' lists.
SELECT set_config('gin_pending_list_limit', '32MB', true);

-- name: pin_new_layers
-- For a layer that nothing had when the index was begun. Always in the same order, so that two batches wait for each
-- other and never in a circle.
INSERT INTO rag_index_layers (index_id, layer, chunk_count, pinned_average_length)
SELECT %(index_id)s, l.layer, 0, greatest(sum(l.terms) / sum(l.chunks), 1)
FROM rag_blob_cache AS b
CROSS JOIN LATERAL jsonb_to_recordset(b.layer_lengths) AS l (layer text, chunks bigint, terms bigint)
WHERE b.blob_id = ANY (%(blob_ids)s::bigint[])
  AND l.layer <> ALL (ARRAY(SELECT layer FROM rag_index_layers WHERE index_id = %(index_id)s))
GROUP BY l.layer
ORDER BY l.layer
ON CONFLICT (index_id, layer) DO NOTHING;

-- name: forget_counts
-- What was counted before this batch says nothing any more: `flip` refuses an index with a layer that is not counted.
UPDATE rag_index_layers SET chunk_count = 0 WHERE index_id = %(index_id)s AND chunk_count <> 0;

-- name: count_layer
-- No row: the index has no chunk of this layer.
UPDATE rag_index_layers AS l SET chunk_count = counted.chunk_count
FROM (SELECT count(*) AS chunk_count FROM rag_chunks WHERE index_id = %(index_id)s AND layer = %(layer)s) AS counted
WHERE l.index_id = %(index_id)s AND l.layer = %(layer)s;

-- name: forget_layer_terms
DELETE FROM rag_index_terms WHERE index_id = %(index_id)s AND layer = %(layer)s;

-- name: layer_weights
SELECT sparsevec_send(weights) FROM rag_chunk_terms WHERE index_id = %(index_id)s AND layer = %(layer)s;

-- name: copy_layer_terms
-- All at once, in the order of the table's key: half the work of adding each batch to what is there.
COPY rag_index_terms (index_id, layer, term_id, document_frequency, greatest_weight) FROM STDIN (FORMAT BINARY);

-- name: uncounted_layer
SELECT l.layer FROM rag_index_layers AS l
WHERE l.index_id = %(index_id)s AND l.chunk_count = 0
  AND EXISTS (SELECT FROM rag_chunks AS r WHERE r.index_id = l.index_id AND r.layer = l.layer)
LIMIT 1;

-- name: filled_files
SELECT count(*) FROM rag_session_chunk_map WHERE index_id = %(index_id)s;

-- name: flip
-- An index without a file, such as a new session's first one, is none to go back to.
UPDATE rag_sessions AS s
SET previous_index_id = CASE
        WHEN EXISTS (SELECT FROM rag_session_chunk_map AS m WHERE m.index_id = s.active_index_id) THEN s.active_index_id
    END,
    active_index_id = %(index_id)s
WHERE s.session_id = %(session_id)s;

-- name: forget_returned
-- Files of the index that has just gone live have their rights with them.
DELETE FROM rag_left_rights AS r
WHERE r.session_id = %(session_id)s
  AND EXISTS (SELECT FROM rag_session_chunk_map AS m WHERE m.index_id = %(index_id)s AND m.path = r.path);

-- name: close_index
UPDATE rag_indexes SET filled_by = NULL WHERE index_id = %(index_id)s;

-- name: swap_indexes
-- Back to the index before, and so the other way round. No row: there is none.
UPDATE rag_sessions SET previous_index_id = active_index_id, active_index_id = previous_index_id
WHERE session_id = %(session_id)s AND previous_index_id IS NOT NULL
RETURNING active_index_id;

-- name: narrowed_files
-- Files of the index that is gone back to, with a list that they have got since then: going back opens nothing.
SELECT m.path, m.blob_sha, coalesce(live.acl, l.acl), m.last_modified, m.size_bytes
FROM rag_session_chunk_map AS m
LEFT JOIN rag_session_chunk_map AS live ON live.index_id = %(left_index_id)s AND live.path = m.path
LEFT JOIN rag_left_rights AS l ON l.session_id = %(session_id)s AND l.path = m.path
WHERE m.index_id = %(index_id)s AND coalesce(live.acl, l.acl) IS DISTINCT FROM m.acl
  AND coalesce(live.acl, l.acl) IS NOT NULL;

-- name: keep_rights_of_left_index
INSERT INTO rag_left_rights AS r (session_id, path, acl)
SELECT %(session_id)s, m.path, m.acl FROM rag_session_chunk_map AS m
WHERE m.index_id = %(left_index_id)s AND m.acl IS NOT NULL
  AND NOT EXISTS (SELECT FROM rag_session_chunk_map AS n WHERE n.index_id = %(index_id)s AND n.path = m.path)
ON CONFLICT (session_id, path) DO UPDATE SET acl = excluded.acl;

-- name: useless_indexes
-- Indexes that nobody reads and nobody may go back to; one that this job fills is not among them. They are closed, so
-- that a worker who was thought dead can't write into them any more.
UPDATE rag_indexes AS i SET filled_by = NULL
FROM rag_sessions AS s
WHERE i.session_id = %(session_id)s AND s.session_id = i.session_id
  AND i.index_id <> s.active_index_id AND i.index_id IS DISTINCT FROM s.previous_index_id
  AND (i.filled_by IS NULL OR i.filled_by IS DISTINCT FROM %(job_id)s::text)
RETURNING i.index_id;

-- name: collect_terms
DELETE FROM rag_chunk_terms WHERE index_id = %(index_id)s AND chunk_id IN (
    SELECT chunk_id FROM rag_chunk_terms WHERE index_id = %(index_id)s LIMIT %(rows)s
);

-- name: collect_vectors
DELETE FROM rag_chunk_vectors WHERE index_id = %(index_id)s AND chunk_id IN (
    SELECT chunk_id FROM rag_chunk_vectors WHERE index_id = %(index_id)s LIMIT %(rows)s
);

-- name: collect_chunks
DELETE FROM rag_chunks WHERE index_id = %(index_id)s AND chunk_id IN (
    SELECT chunk_id FROM rag_chunks WHERE index_id = %(index_id)s LIMIT %(rows)s
);

-- name: collect_links
DELETE FROM rag_links WHERE ctid = ANY (
    ARRAY(SELECT ctid FROM rag_links WHERE index_id = %(index_id)s LIMIT %(rows)s)
);

-- name: collect_statistics
DELETE FROM rag_index_terms WHERE ctid = ANY (
    ARRAY(SELECT ctid FROM rag_index_terms WHERE index_id = %(index_id)s LIMIT %(rows)s)
);

-- name: collect_term_blocks
DELETE FROM rag_term_blocks WHERE ctid = ANY (
    ARRAY(SELECT ctid FROM rag_term_blocks WHERE index_id = %(index_id)s LIMIT %(rows)s)
);

-- name: collect_files
DELETE FROM rag_session_chunk_map WHERE index_id = %(index_id)s;

-- name: collect_index
DELETE FROM rag_indexes WHERE index_id = %(index_id)s;
