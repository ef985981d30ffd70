-- name: present
-- Which of the keys are prepared, by their place in the arrays.
SELECT k.place
FROM unnest(
    %(tenants)s::text[], %(repo_ids)s::text[], %(paths)s::text[], %(blob_shas)s::text[], %(pipeline_versions)s::text[],
    %(embedding_models)s::text[]
) WITH ORDINALITY AS k (tenant, repo_id, path, blob_sha, pipeline_version, embedding_model, place)
JOIN rag_blob_cache USING (tenant, repo_id, path, blob_sha, pipeline_version, embedding_model);

-- name: contents
-- The bytes of each key that is on record, by its place in the arrays, whatever prepared them.
SELECT DISTINCT ON (k.place) k.place, b.source
FROM unnest(%(tenants)s::text[], %(repo_ids)s::text[], %(paths)s::text[], %(blob_shas)s::text[])
    WITH ORDINALITY AS k (tenant, repo_id, path, blob_sha, place)
JOIN rag_blob_cache AS b USING (tenant, repo_id, path, blob_sha);

-- name: usage
-- What chat models used for those of the keys that were kept since then.
SELECT coalesce(sum(b.model_calls), 0)::bigint, coalesce(sum(b.model_input_tokens), 0)::bigint,
       coalesce(sum(b.model_output_tokens), 0)::bigint
FROM unnest(
    %(tenants)s::text[], %(repo_ids)s::text[], %(paths)s::text[], %(blob_shas)s::text[], %(pipeline_versions)s::text[],
    %(embedding_models)s::text[]
) AS k (tenant, repo_id, path, blob_sha, pipeline_version, embedding_model)
JOIN rag_blob_cache AS b USING (tenant, repo_id, path, blob_sha, pipeline_version, embedding_model)
WHERE b.created_at >= %(since)s;

-- name: notes
-- What was said about those of the keys that something was said about.
SELECT b.path, b.notes
FROM unnest(
    %(tenants)s::text[], %(repo_ids)s::text[], %(paths)s::text[], %(blob_shas)s::text[], %(pipeline_versions)s::text[],
    %(embedding_models)s::text[]
) AS k (tenant, repo_id, path, blob_sha, pipeline_version, embedding_model)
JOIN rag_blob_cache AS b USING (tenant, repo_id, path, blob_sha, pipeline_version, embedding_model)
WHERE b.notes <> '{}';

-- name: earlier_vectors
-- What the version of each file that was prepared last holds, by the hash of what was embedded; vectors as pgvector
-- sends them.
SELECT DISTINCT c.text_key, halfvec_send(c.embedding)
FROM unnest(
    %(tenants)s::text[], %(repo_ids)s::text[], %(paths)s::text[], %(pipeline_versions)s::text[],
    %(embedding_models)s::text[]
) AS k (tenant, repo_id, path, pipeline_version, embedding_model)
CROSS JOIN LATERAL (
    SELECT b.blob_id FROM rag_blob_cache AS b
    WHERE b.tenant = k.tenant AND b.repo_id = k.repo_id AND b.path = k.path
      AND b.pipeline_version = k.pipeline_version AND b.embedding_model = k.embedding_model
    ORDER BY b.blob_id DESC LIMIT 1
) AS last
JOIN rag_chunk_cache AS c USING (blob_id)
WHERE c.text_key <> '' AND c.embedding IS NOT NULL;

-- name: hold_repositories
-- A session of the repository can't be deleted until this transaction has ended: what is kept now is seen by the purge.
SELECT FROM rag_sessions WHERE (tenant, repo_id) IN (SELECT * FROM unnest(%(tenants)s::text[], %(repo_ids)s::text[]))
ORDER BY session_id FOR KEY SHARE;

-- name: deleted_repository
-- One whose last session was deleted: nothing is kept for it any more.
SELECT d.repo_id FROM rag_deleted_sessions AS d
WHERE (d.tenant, d.repo_id) IN (SELECT * FROM unnest(%(tenants)s::text[], %(repo_ids)s::text[]))
  AND NOT EXISTS (SELECT FROM rag_sessions AS s WHERE s.tenant = d.tenant AND s.repo_id = d.repo_id)
LIMIT 1;

-- name: known_terms
-- Texts by tens of thousands go in binary: quoting them would take the worker four times as long.
SELECT term, term_id FROM rag_terms WHERE term = ANY (%(terms)b::text[]);

-- name: add_terms
-- Always in the same order, so that two that add the same words wait for each other and never in a circle. Returns what
-- was not there.
INSERT INTO rag_terms (term)
SELECT term FROM unnest(%(terms)b::text[]) AS t (term) ORDER BY term COLLATE "C"
ON CONFLICT (term) DO NOTHING
RETURNING term, term_id;

-- name: add_blobs
-- The files that were not there; in order, for the same reason as above. `notes` are JSON arrays of texts.
INSERT INTO rag_blob_cache (
    tenant, repo_id, path, blob_sha, pipeline_version, embedding_model, source, notes, layer_lengths, model_calls,
    model_input_tokens, model_output_tokens
)
SELECT k.tenant, k.repo_id, k.path, k.blob_sha, k.pipeline_version, k.embedding_model, k.source,
       ARRAY(SELECT jsonb_array_elements_text(k.notes::jsonb)), k.layer_lengths::jsonb, k.calls, k.input_tokens,
       k.output_tokens
FROM unnest(
    %(tenants)s::text[], %(repo_ids)s::text[], %(paths)s::text[], %(blob_shas)s::text[], %(pipeline_versions)s::text[],
    %(embedding_models)s::text[], %(sources)b::bytea[], %(notes)s::text[], %(layer_lengths)s::text[],
    %(calls)s::int[], %(input_tokens)s::bigint[], %(output_tokens)s::bigint[]
) AS k (
    tenant, repo_id, path, blob_sha, pipeline_version, embedding_model, source, notes, layer_lengths, calls,
    input_tokens, output_tokens
)
ORDER BY k.tenant, k.repo_id, k.path, k.blob_sha, k.pipeline_version, k.embedding_model
ON CONFLICT (tenant, repo_id, path, blob_sha, pipeline_version, embedding_model) DO NOTHING
RETURNING blob_id, tenant, repo_id, path, blob_sha, pipeline_version, embedding_model;

-- name: copy_links
COPY rag_link_cache (blob_id, kind, symbol, target, key, is_path, line) FROM STDIN (FORMAT BINARY);

-- name: copy_chunks
COPY rag_chunk_cache (
    blob_id, layer, ordinal, title, content, span_start, span_end, metadata, embedding, terms, length, text_key
) FROM STDIN (FORMAT BINARY);
