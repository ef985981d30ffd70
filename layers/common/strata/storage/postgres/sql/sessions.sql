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
SELECT path, blob_sha, acl, last_modified, size_bytes
FROM rag_session_chunk_map WHERE session_id = %(session_id)s;
