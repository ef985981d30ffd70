-- name: add_session
-- Takes the name. No row: somebody has it already (also when both asked at the same time), or a deleted session of that
-- name is still being purged. A deleted one's numbers go on.
INSERT INTO rag_sessions (session_id, tenant, project_id, repo_id, owner, readers, generation, fence, applied_seq)
SELECT %(session_id)s, %(tenant)s, %(project_id)s, %(repo_id)s, %(owner)s, %(readers)s,
       coalesce(d.generation + 1, 0), coalesce(d.fence, 0), coalesce(d.applied_seq, 0)
FROM (SELECT) AS new LEFT JOIN rag_deleted_sessions AS d ON d.session_id = %(session_id)s
WHERE d.purged IS NOT FALSE
ON CONFLICT (session_id) DO NOTHING
RETURNING session_id;

-- name: add_index
-- The empty index of a new session becomes the one that readers use.
WITH added AS (
    INSERT INTO rag_indexes (session_id, embedding_model, dimension, pipeline_version)
    VALUES (%(session_id)s, %(embedding_model)s, %(dimension)s, %(pipeline_version)s)
    RETURNING index_id, session_id
)
UPDATE rag_sessions AS s SET active_index_id = added.index_id
FROM added WHERE s.session_id = added.session_id;

-- name: session
SELECT s.session_id, s.tenant, s.project_id, s.repo_id, s.owner, s.readers, s.generation, s.applied_seq, s.fence,
       i.embedding_model, i.dimension, i.pipeline_version
FROM rag_sessions AS s JOIN rag_indexes AS i ON i.index_id = s.active_index_id
WHERE s.session_id = %(session_id)s;

-- name: readable_sessions
-- The sessions of the tenant whose owner or readers hold one of the principals.
SELECT s.session_id, s.tenant, s.project_id, s.repo_id, s.owner, s.readers, s.generation, s.applied_seq, s.fence,
       i.embedding_model, i.dimension, i.pipeline_version
FROM rag_sessions AS s JOIN rag_indexes AS i ON i.index_id = s.active_index_id
WHERE s.tenant = %(tenant)s
  AND (s.owner = ANY (%(principals)s::text[]) OR s.readers && %(principals)s::text[])
ORDER BY s.session_id;

-- name: indexed_files
SELECT m.path, m.blob_sha, m.acl, m.last_modified, m.size_bytes
FROM rag_session_chunk_map AS m JOIN rag_sessions AS s ON s.active_index_id = m.index_id
WHERE s.session_id = %(session_id)s;

-- name: indexed_files_at
-- The same for some paths: a change of one file costs the same in a small session and in a large one.
SELECT m.path, m.blob_sha, m.acl, m.last_modified, m.size_bytes
FROM rag_session_chunk_map AS m JOIN rag_sessions AS s ON s.active_index_id = m.index_id
WHERE s.session_id = %(session_id)s AND m.path = ANY (%(paths)s::text[]);

-- name: left_rights
SELECT path, acl FROM rag_left_rights WHERE session_id = %(session_id)s AND path = ANY (%(paths)s::text[]);

-- name: length_drift
-- How far the average length of a layer's chunks has moved from the one that its weights were made with, as a share
-- of that; small layers don't count.
SELECT coalesce(max(abs(present.average / l.pinned_average_length - 1)), 0)
FROM (
    SELECT m.index_id, n.layer, (sum(n.terms) / sum(n.chunks))::double precision AS average
    FROM rag_sessions AS s
    JOIN rag_indexes AS i ON i.index_id = s.active_index_id
    JOIN rag_session_chunk_map AS m ON m.index_id = i.index_id
    JOIN rag_blob_cache AS b ON b.tenant = s.tenant AND b.repo_id = m.repo_id AND b.path = m.path
        AND b.blob_sha = m.blob_sha AND b.pipeline_version = i.pipeline_version
        AND b.embedding_model = i.embedding_model
    CROSS JOIN LATERAL jsonb_to_recordset(b.layer_lengths) AS n (layer text, chunks bigint, terms bigint)
    WHERE s.session_id = %(session_id)s
    GROUP BY m.index_id, n.layer
) AS present
JOIN rag_index_layers AS l USING (index_id, layer)
WHERE l.chunk_count >= %(least_chunks)s;

-- name: claim
-- Nothing is committed under an older fence from now on. No row: there is a newer holder, or no session.
UPDATE rag_sessions SET fence = %(fence)s
WHERE session_id = %(session_id)s AND fence <= %(fence)s
RETURNING session_id;

-- name: set_readers
UPDATE rag_sessions SET readers = %(readers)s WHERE session_id = %(session_id)s;

-- name: delete_session
-- Indexes and provenance go with the row; what has no foreign key is purged later. A session with
-- this fence or a newer one is a later session of the same name.
WITH gone AS (
    DELETE FROM rag_sessions WHERE session_id = %(session_id)s AND fence < %(fence)s
    RETURNING session_id, tenant, repo_id, generation, applied_seq
)
INSERT INTO rag_deleted_sessions AS d (session_id, tenant, repo_id, index_ids, generation, fence, applied_seq)
SELECT g.session_id, g.tenant, g.repo_id, ARRAY(SELECT i.index_id FROM rag_indexes AS i WHERE i.session_id = g.session_id),
       g.generation, %(fence)s, g.applied_seq
FROM gone AS g
ON CONFLICT (session_id) DO UPDATE SET
    tenant = excluded.tenant, repo_id = excluded.repo_id, index_ids = d.index_ids || excluded.index_ids,
    generation = excluded.generation, fence = excluded.fence, applied_seq = excluded.applied_seq, purged = false,
    deleted_at = now();

-- name: raise_deleted_fence
-- A deletion asked for twice: the later fence counts.
UPDATE rag_deleted_sessions SET fence = greatest(fence, %(fence)s)
WHERE session_id = %(session_id)s AND NOT purged;

-- name: deleted_session
SELECT tenant, repo_id, index_ids FROM rag_deleted_sessions WHERE session_id = %(session_id)s AND NOT purged;

-- name: purge_terms
DELETE FROM rag_chunk_terms AS t USING (
    SELECT index_id, chunk_id FROM rag_chunk_terms WHERE index_id = ANY (%(index_ids)s::bigint[]) LIMIT %(limit)s
) AS gone
WHERE t.index_id = gone.index_id AND t.chunk_id = gone.chunk_id;

-- name: purge_vectors
DELETE FROM rag_chunk_vectors AS v USING (
    SELECT index_id, chunk_id FROM rag_chunk_vectors WHERE index_id = ANY (%(index_ids)s::bigint[]) LIMIT %(limit)s
) AS gone
WHERE v.index_id = gone.index_id AND v.chunk_id = gone.chunk_id;

-- name: purge_chunks
DELETE FROM rag_chunks AS c USING (
    SELECT index_id, chunk_id FROM rag_chunks WHERE index_id = ANY (%(index_ids)s::bigint[]) LIMIT %(limit)s
) AS gone
WHERE c.index_id = gone.index_id AND c.chunk_id = gone.chunk_id;

-- name: purge_links
DELETE FROM rag_links WHERE ctid = ANY (
    ARRAY(SELECT ctid FROM rag_links WHERE index_id = ANY (%(index_ids)s::bigint[]) LIMIT %(limit)s)
);

-- name: purge_statistics
DELETE FROM rag_index_terms WHERE ctid = ANY (
    ARRAY(SELECT ctid FROM rag_index_terms WHERE index_id = ANY (%(index_ids)s::bigint[]) LIMIT %(limit)s)
);

-- name: purge_term_blocks
DELETE FROM rag_term_blocks WHERE ctid = ANY (
    ARRAY(SELECT ctid FROM rag_term_blocks WHERE index_id = ANY (%(index_ids)s::bigint[]) LIMIT %(limit)s)
);

-- name: purge_cache
-- Prepared files of a repository that no session is left of; a row for each.
WITH gone AS (
    DELETE FROM rag_blob_cache WHERE blob_id IN (
        SELECT b.blob_id FROM rag_blob_cache AS b
        WHERE b.tenant = %(tenant)s AND b.repo_id = %(repo_id)s
          AND NOT EXISTS (SELECT FROM rag_sessions AS s WHERE s.tenant = b.tenant AND s.repo_id = b.repo_id)
        LIMIT %(limit)s
    )
    RETURNING blob_id
), chunks AS (
    DELETE FROM rag_chunk_cache AS c USING gone WHERE c.blob_id = gone.blob_id
), links AS (
    DELETE FROM rag_link_cache AS l USING gone WHERE l.blob_id = gone.blob_id
)
SELECT blob_id FROM gone;

-- name: end_purge
UPDATE rag_deleted_sessions SET purged = true, index_ids = '{}' WHERE session_id = %(session_id)s AND NOT purged;
