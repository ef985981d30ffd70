-- name: add_session
-- Takes the name. No row: somebody has it already (also when both asked at the same time).
INSERT INTO rag_sessions (session_id, tenant, project_id, repo_id, owner, readers)
VALUES (%(session_id)s, %(tenant)s, %(project_id)s, %(repo_id)s, %(owner)s, %(readers)s)
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

-- name: length_drift
-- How far the average length of a layer's chunks has moved from the one that its weights were made with, as a share
-- of that; small layers don't count.
SELECT coalesce(max(abs(present.average / l.pinned_average_length - 1)), 0)
FROM rag_sessions AS s
JOIN rag_index_layers AS l ON l.index_id = s.active_index_id AND l.chunk_count >= %(least_chunks)s
CROSS JOIN LATERAL (
    SELECT avg(c.length)::double precision AS average
    FROM rag_chunks AS r JOIN rag_chunk_cache AS c USING (blob_id, layer, ordinal)
    WHERE r.index_id = l.index_id AND r.layer = l.layer
) AS present
WHERE s.session_id = %(session_id)s;
