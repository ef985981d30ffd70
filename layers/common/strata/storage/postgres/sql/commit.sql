-- The statements of one commit, in the order in which they run; see `chunks.py`. `files` is a JSON array, one object
-- for each file to write.

-- name: lock_session
-- Commits of one session take turns here; readers don't wait, nor does a job that fills the cache (`hold_repositories`).
SELECT s.tenant, s.repo_id, s.active_index_id, s.generation, s.fence, s.applied_seq, s.applied_job_id,
       s.applied_counters, s.applied_chunks, s.previous_index_id, i.embedding_model, i.dimension, i.pipeline_version
FROM rag_sessions AS s JOIN rag_indexes AS i ON i.index_id = s.active_index_id
WHERE s.session_id = %(session_id)s
FOR NO KEY UPDATE OF s;

-- name: by_lookups
-- A small change looks its rows up one by one: the planner, which can't know how few terms a file has, would read all
-- of the index's terms, and a change of one file would cost the more the larger the session. Where it could still read
-- them all in a loop, as it does for an index that its statistics don't know yet, LATERAL and LIMIT leave it no choice.
SELECT set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true);

-- name: find_blobs
-- Where each file to write lies in the cache; a file that was not prepared has no row.
SELECT f.path, b.blob_id
FROM unnest(%(paths)s::text[], %(blob_shas)s::text[]) AS f (path, blob_sha)
CROSS JOIN LATERAL (
    SELECT blob_id FROM rag_blob_cache
    WHERE tenant = %(tenant)s AND repo_id = %(repo_id)s AND path = f.path AND blob_sha = f.blob_sha
      AND pipeline_version = %(pipeline_version)s AND embedding_model = %(embedding_model)s
    LIMIT 1
) AS b;

-- name: wrong_dimension
-- A prepared vector that does not fit the index.
SELECT b.path, vector_dims(c.embedding)
FROM rag_chunk_cache AS c JOIN rag_blob_cache AS b USING (blob_id)
WHERE c.blob_id = ANY (%(blob_ids)s::bigint[]) AND vector_dims(c.embedding) <> %(dimension)s
LIMIT 1;

-- name: remove_terms
-- Removes the postings of some files and takes them off the statistics. A term's row goes with its last chunk; a count
-- that would fall below that is a broken rule and stops the commit (the table's check). A term's row is found by its
-- key and changed by its place: nobody else changes rows of this index meanwhile.
WITH gone AS (
    DELETE FROM rag_chunk_terms WHERE index_id = %(index_id)s AND chunk_id = ANY (ARRAY(
        SELECT chunk_id FROM rag_chunks WHERE index_id = %(index_id)s AND path = ANY (%(paths)s::text[])
    ))
    RETURNING layer, term_keys
), chunks AS (
    SELECT layer, count(*) AS chunk_count FROM gone GROUP BY layer
), terms AS (
    SELECT gone.layer, (key & 4294967295)::int AS term_id, count(*)::int AS frequency
    FROM gone CROSS JOIN unnest(gone.term_keys) AS key
    GROUP BY gone.layer, key
), kept AS MATERIALIZED (
    SELECT i.place, i.document_frequency, t.frequency
    FROM terms AS t CROSS JOIN LATERAL (
        SELECT ctid AS place, document_frequency FROM rag_index_terms
        WHERE index_id = %(index_id)s AND layer = t.layer AND term_id = t.term_id
        LIMIT 1
    ) AS i
), dropped AS (
    DELETE FROM rag_index_terms AS i USING kept AS k
    WHERE i.ctid = k.place AND k.document_frequency = k.frequency
), lowered AS (
    UPDATE rag_index_terms AS i SET document_frequency = i.document_frequency - k.frequency FROM kept AS k
    WHERE i.ctid = k.place AND k.document_frequency <> k.frequency
)
UPDATE rag_index_layers AS l SET chunk_count = l.chunk_count - c.chunk_count FROM chunks AS c
WHERE l.index_id = %(index_id)s AND l.layer = c.layer;

-- name: remove_vectors
DELETE FROM rag_chunk_vectors WHERE index_id = %(index_id)s AND chunk_id = ANY (ARRAY(
    SELECT chunk_id FROM rag_chunks WHERE index_id = %(index_id)s AND path = ANY (%(paths)s::text[])
));

-- name: remove_chunks
DELETE FROM rag_chunks WHERE index_id = %(index_id)s AND path = ANY (%(paths)s::text[]);

-- name: remove_links
DELETE FROM rag_links WHERE index_id = %(index_id)s AND path = ANY (%(paths)s::text[]);

-- name: remove_files
-- A file that is written has its rights with it from now on.
WITH written AS (
    DELETE FROM rag_left_rights WHERE session_id = %(session_id)s AND path = ANY (%(written)s::text[])
)
DELETE FROM rag_session_chunk_map WHERE index_id = %(index_id)s AND path = ANY (%(paths)s::text[]);

-- name: count_layers
-- Counts the new chunks and pins the average length of a layer that had none.
INSERT INTO rag_index_layers AS l (index_id, layer, chunk_count, pinned_average_length)
SELECT %(index_id)s, n.layer, sum(n.chunks), greatest(sum(n.terms) / sum(n.chunks), 1)
FROM rag_blob_cache AS b
CROSS JOIN LATERAL jsonb_to_recordset(b.layer_lengths) AS n (layer text, chunks bigint, terms bigint)
WHERE b.blob_id = ANY (%(blob_ids)s::bigint[])
GROUP BY n.layer
ON CONFLICT (index_id, layer) DO UPDATE SET
    chunk_count = l.chunk_count + excluded.chunk_count,
    pinned_average_length =
        CASE WHEN l.chunk_count = 0 THEN excluded.pinned_average_length ELSE l.pinned_average_length END;

-- name: write_chunks
-- The cache knows a file by content alone; what belongs to this session (rights, date, repository) is added here.
INSERT INTO rag_chunks (
    index_id, blob_id, path, layer, ordinal, title, content, span_start, span_end, metadata, blob_sha, acl
)
SELECT %(index_id)s, c.blob_id, f.path, c.layer, c.ordinal, c.title, c.content, c.span_start, c.span_end,
       c.metadata || f.added_metadata, f.blob_sha, f.acl
FROM jsonb_to_recordset(%(files)s::jsonb)
         AS f (path text, blob_id bigint, blob_sha text, acl text[], added_metadata jsonb)
JOIN rag_chunk_cache AS c USING (blob_id);

-- name: write_vectors
-- The layers are named, since an older version has left vectors of other layers in the cache too.
INSERT INTO rag_chunk_vectors (index_id, chunk_id, layer, path, acl, embedding)
SELECT r.index_id, r.chunk_id, r.layer, r.path, r.acl, c.embedding
FROM rag_chunks AS r JOIN rag_chunk_cache AS c USING (blob_id, layer, ordinal)
WHERE r.index_id = %(index_id)s AND r.path = ANY (%(paths)s::text[]) AND r.layer = ANY (%(embedded_layers)s::text[])
  AND c.embedding IS NOT NULL;

-- name: chunk_terms
-- What the postings of some files are made of.
SELECT r.chunk_id, r.layer, r.path, array_send(r.acl) AS acl, c.length, l.pinned_average_length AS average_length,
       c.terms
FROM rag_chunks AS r
JOIN rag_chunk_cache AS c USING (blob_id, layer, ordinal)
JOIN rag_index_layers AS l USING (index_id, layer)
WHERE r.index_id = %(index_id)s AND r.path = ANY (%(paths)s::text[]);

-- name: copy_terms
-- Postings, see `postings.py`.
COPY rag_chunk_terms (index_id, chunk_id, layer, path, acl, term_keys, weights) FROM STDIN (FORMAT BINARY);

-- name: new_weights
-- The postings of some files, layer by layer.
SELECT layer, sparsevec_send(weights) FROM rag_chunk_terms
WHERE index_id = %(index_id)s AND chunk_id = ANY (ARRAY(
    SELECT chunk_id FROM rag_chunks WHERE index_id = %(index_id)s AND path = ANY (%(paths)s::text[])
))
ORDER BY layer;

-- name: count_terms
-- Document frequencies and the greatest weight of each term, in the order of the table's key: the rows that follow each
-- other lie in the same pages then, which saves a third of the time.
INSERT INTO rag_index_terms AS i (index_id, layer, term_id, document_frequency, greatest_weight)
SELECT %(index_id)s, t.layer, t.term_id, t.document_frequency, t.greatest_weight
FROM unnest(%(layers)b::text[], %(term_ids)b::int[], %(frequencies)b::int[], %(greatest)b::real[])
         AS t (layer, term_id, document_frequency, greatest_weight)
ORDER BY t.layer, t.term_id
ON CONFLICT (index_id, layer, term_id) DO UPDATE SET
    document_frequency = i.document_frequency + excluded.document_frequency,
    greatest_weight = greatest(i.greatest_weight, excluded.greatest_weight);

-- name: write_links
INSERT INTO rag_links (index_id, path, acl, kind, symbol, target, key, is_path, line)
SELECT %(index_id)s, f.path, f.acl, l.kind, l.symbol, l.target, l.key, l.is_path, l.line
FROM jsonb_to_recordset(%(files)s::jsonb) AS f (path text, blob_id bigint, acl text[])
JOIN rag_link_cache AS l USING (blob_id);

-- name: write_files
INSERT INTO rag_session_chunk_map (
    session_id, index_id, path, blob_sha, repo_id, acl, last_modified, size_bytes, job_id, generation
)
SELECT %(session_id)s, %(index_id)s, f.path, f.blob_sha, %(repo_id)s, f.acl, f.last_modified, f.size_bytes, %(job_id)s,
       %(generation)s
FROM jsonb_to_recordset(%(files)s::jsonb)
         AS f (path text, blob_sha text, acl text[], last_modified timestamptz, size_bytes bigint);

-- name: change_chunk_rights
-- Rights and dates alone: nothing is parsed, embedded or counted.
UPDATE rag_chunks AS c
SET acl = f.acl,
    metadata = (c.metadata - 'last_modified')
        || jsonb_strip_nulls(jsonb_build_object('last_modified', f.shown_last_modified))
FROM jsonb_to_recordset(%(files)s::jsonb) AS f (path text, acl text[], shown_last_modified text)
WHERE c.index_id = %(index_id)s AND c.path = ANY (%(paths)s::text[]) AND c.path = f.path;

-- name: change_vector_rights
UPDATE rag_chunk_vectors AS v SET acl = f.acl
FROM jsonb_to_recordset(%(files)s::jsonb) AS f (path text, acl text[])
WHERE v.index_id = %(index_id)s AND v.path = f.path AND v.acl IS DISTINCT FROM f.acl
  AND v.chunk_id = ANY (ARRAY(
      SELECT chunk_id FROM rag_chunks WHERE index_id = %(index_id)s AND path = ANY (%(paths)s::text[])
  ));

-- name: change_term_rights
UPDATE rag_chunk_terms AS t SET acl = f.acl
FROM jsonb_to_recordset(%(files)s::jsonb) AS f (path text, acl text[])
WHERE t.index_id = %(index_id)s AND t.path = f.path AND t.acl IS DISTINCT FROM f.acl
  AND t.chunk_id = ANY (ARRAY(
      SELECT chunk_id FROM rag_chunks WHERE index_id = %(index_id)s AND path = ANY (%(paths)s::text[])
  ));

-- name: change_link_rights
UPDATE rag_links AS l SET acl = f.acl
FROM jsonb_to_recordset(%(files)s::jsonb) AS f (path text, acl text[])
WHERE l.index_id = %(index_id)s AND l.path = ANY (%(paths)s::text[]) AND l.path = f.path
  AND l.acl IS DISTINCT FROM f.acl;

-- name: change_file_rights
UPDATE rag_session_chunk_map AS m
SET acl = f.acl, last_modified = f.last_modified, job_id = %(job_id)s, generation = %(generation)s
FROM jsonb_to_recordset(%(files)s::jsonb) AS f (path text, acl text[], last_modified timestamptz)
WHERE m.index_id = %(index_id)s AND m.path = ANY (%(paths)s::text[]) AND m.path = f.path;

-- name: keep_left_rights
-- `files` are some that are not in the index afterwards; one without a list has been opened.
WITH named AS MATERIALIZED (
    SELECT path, acl FROM jsonb_to_recordset(%(files)s::jsonb) AS f (path text, acl text[])
), opened AS (
    DELETE FROM rag_left_rights
    WHERE session_id = %(session_id)s AND path = ANY (ARRAY(SELECT path FROM named WHERE acl IS NULL))
)
INSERT INTO rag_left_rights AS r (session_id, path, acl)
SELECT %(session_id)s, path, acl FROM named WHERE acl IS NOT NULL
ON CONFLICT (session_id, path) DO UPDATE SET acl = excluded.acl WHERE r.acl IS DISTINCT FROM excluded.acl;

-- name: count_chunks
SELECT coalesce(sum(chunk_count), 0) FROM rag_index_layers WHERE index_id = %(index_id)s;

-- name: finish_commit
-- The session's new state. No row: the fence or the seq has moved on, which the lock above rules out.
UPDATE rag_sessions
SET generation = %(generation)s, fence = %(fence)s, applied_seq = %(seq)s, applied_job_id = %(job_id)s,
    applied_counters = %(counters)s, applied_chunks = %(chunks)s
WHERE session_id = %(session_id)s AND fence <= %(fence)s AND applied_seq < %(seq)s
RETURNING generation;

-- name: build_cells
-- The cells of an index that has become large, or twice as large; in a transaction of its own, like `tidy`. The function
-- counts the vectors, so it is asked only where the counted chunks say that there may be enough.
SELECT strata_build_nearest(i.index_id, %(least_rows)s) FROM rag_indexes AS i
WHERE i.index_id = %(index_id)s AND greatest(%(least_rows)s, 2 * coalesce(i.nearest_rows, 0)) <= (
    SELECT coalesce(sum(l.chunk_count), 0) FROM rag_index_layers AS l
    WHERE l.index_id = i.index_id AND l.layer = ANY (%(embedded_layers)s::text[])
);

-- name: tidy
-- After a large commit, in a transaction of its own: its locks would hold up other sessions.
SELECT strata_tidy(%(index_id)s);
