-- Tables of the index, the content-addressed cache and the sessions; the two roles that functions connect as.
-- Applied by the owner. Forward only.

CREATE EXTENSION IF NOT EXISTS vector;

-- Names have a length in bytes: they are parts of unique keys, and a B-tree's entry ends at 2,704 bytes.
CREATE TABLE rag_sessions (
    session_id       text PRIMARY KEY CHECK (session_id ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'),
    tenant           text NOT NULL CHECK (octet_length(tenant) BETWEEN 1 AND 100),
    project_id       text NOT NULL CHECK (octet_length(project_id) BETWEEN 1 AND 200),
    repo_id          text NOT NULL CHECK (octet_length(repo_id) BETWEEN 1 AND 200),
    owner            text NOT NULL CHECK (octet_length(owner) BETWEEN 1 AND 500),
    readers          text[] NOT NULL DEFAULT '{}',
    active_index_id  bigint,
    generation       bigint NOT NULL DEFAULT 0,
    fence            bigint NOT NULL DEFAULT 0,
    applied_seq      bigint NOT NULL DEFAULT 0,
    applied_job_id   text,
    applied_counters jsonb,
    applied_chunks   bigint,
    created_at       timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON rag_sessions (tenant, owner);

CREATE TABLE rag_indexes (
    index_id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY CHECK (index_id < 2147483648),
    session_id       text NOT NULL REFERENCES rag_sessions ON DELETE CASCADE,
    embedding_model  text NOT NULL CHECK (octet_length(embedding_model) BETWEEN 1 AND 200),
    dimension        int NOT NULL CHECK (dimension BETWEEN 1 AND 4000),
    pipeline_version text NOT NULL CHECK (octet_length(pipeline_version) BETWEEN 1 AND 20),
    created_at       timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON rag_indexes (session_id);
ALTER TABLE rag_sessions ADD FOREIGN KEY (active_index_id) REFERENCES rag_indexes DEFERRABLE INITIALLY DEFERRED;

-- The statistics that BM25 needs, kept by the commit. The average length is pinned when a layer gets its first rows,
-- and anew when it gets rows after it had lost them all.
CREATE TABLE rag_index_layers (
    index_id              bigint NOT NULL REFERENCES rag_indexes ON DELETE CASCADE,
    layer                 text NOT NULL,
    chunk_count           bigint NOT NULL CHECK (chunk_count >= 0),
    pinned_average_length double precision NOT NULL CHECK (pinned_average_length > 0),
    PRIMARY KEY (index_id, layer)
);

-- The dictionary of all sessions. A term's id is its place in a sparsevec of 1,000,000,000 dimensions.
CREATE TABLE rag_terms (
    term_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY CHECK (term_id <= 1000000000),
    term    text NOT NULL UNIQUE CHECK (octet_length(term) <= 512)
);

-- `greatest_weight` is a bound: a delete leaves it as it is.
CREATE TABLE rag_index_terms (
    index_id           bigint NOT NULL REFERENCES rag_indexes ON DELETE CASCADE,
    layer              text NOT NULL,
    term_id            int NOT NULL,
    document_frequency int NOT NULL CHECK (document_frequency > 0),
    greatest_weight    real NOT NULL,
    PRIMARY KEY (index_id, layer, term_id)
);

-- BM25's saturated weight of a term in a chunk (k1 = 1.2, b = 0.75; `strata.retrieval.bm25` holds the same numbers).
CREATE FUNCTION strata_weight(term_count int, length int, average_length double precision) RETURNS real
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (term_count * 2.2::double precision
        / (term_count + 1.2::double precision * (0.25::double precision + 0.75::double precision * length / average_length))
    )::real
$$;

CREATE SEQUENCE rag_chunk_ids;

-- The wide table: read for the winners only, behind row-level security. `blob_id` names the cached file that the
-- chunk was copied from (no foreign key: its check would cost more than the insert).
CREATE TABLE rag_chunks (
    index_id   bigint NOT NULL,
    chunk_id   bigint NOT NULL DEFAULT nextval('rag_chunk_ids'),
    blob_id    bigint NOT NULL,
    path       text NOT NULL,
    layer      text NOT NULL,
    ordinal    int NOT NULL,
    title      text NOT NULL,
    content    text NOT NULL,
    span_start int NOT NULL,
    span_end   int NOT NULL,
    metadata   jsonb NOT NULL,
    blob_sha   text NOT NULL,
    acl        text[],
    PRIMARY KEY (chunk_id, index_id),
    UNIQUE (index_id, path, layer, ordinal)
) PARTITION BY HASH (index_id);
CREATE INDEX ON rag_chunks (blob_id);

-- The narrow tables: ranking touches only these. They carry every filter column.
CREATE TABLE rag_chunk_vectors (
    index_id  bigint NOT NULL,
    chunk_id  bigint NOT NULL,
    layer     text NOT NULL,
    path      text NOT NULL,
    acl       text[],
    embedding halfvec STORAGE PLAIN NOT NULL,
    PRIMARY KEY (index_id, chunk_id)
) PARTITION BY HASH (index_id);
CREATE INDEX ON rag_chunk_vectors (index_id, path);

CREATE TABLE rag_chunk_terms (
    index_id  bigint NOT NULL,
    chunk_id  bigint NOT NULL,
    layer     text NOT NULL,
    path      text NOT NULL,
    acl       text[],
    term_keys bigint[] STORAGE MAIN NOT NULL,   -- (index_id << 32) | term_id: posting lists are not shared by sessions
    weights   sparsevec STORAGE MAIN NOT NULL,  -- saturated term weights at term_id; the query's vector holds idf
    PRIMARY KEY (index_id, chunk_id)
) PARTITION BY HASH (index_id);
CREATE INDEX ON rag_chunk_terms (index_id, path);
CREATE INDEX ON rag_chunk_terms USING gin (term_keys) WITH (fastupdate = on);

-- toast_tuple_target: a narrow row stays whole in its page, uncompressed, as long as it fits.
-- Statistics on vectors, weights and texts say nothing to the planner and cost most of an ANALYZE.
DO $$
BEGIN
    FOR i IN 0..7 LOOP
        EXECUTE format('CREATE TABLE rag_chunks_%s PARTITION OF rag_chunks '
                       'FOR VALUES WITH (MODULUS 8, REMAINDER %s)', i, i);
        EXECUTE format('CREATE TABLE rag_chunk_vectors_%s PARTITION OF rag_chunk_vectors '
                       'FOR VALUES WITH (MODULUS 8, REMAINDER %s) WITH (toast_tuple_target = 8160)', i, i);
        EXECUTE format('CREATE TABLE rag_chunk_terms_%s PARTITION OF rag_chunk_terms '
                       'FOR VALUES WITH (MODULUS 8, REMAINDER %s) WITH (toast_tuple_target = 8160)', i, i);
        EXECUTE format('ALTER TABLE rag_chunks_%s ALTER content SET STATISTICS 0, ALTER metadata SET STATISTICS 0', i);
        EXECUTE format('ALTER TABLE rag_chunk_vectors_%s ALTER embedding SET STATISTICS 0', i);
        EXECUTE format('ALTER TABLE rag_chunk_terms_%s ALTER weights SET STATISTICS 0', i);
    END LOOP;
END $$;

-- Provenance: the files that a session's active index holds, also those without a chunk.
CREATE TABLE rag_session_chunk_map (
    session_id    text NOT NULL REFERENCES rag_sessions ON DELETE CASCADE,
    path          text NOT NULL,
    blob_sha      text NOT NULL,
    repo_id       text NOT NULL,
    acl           text[],
    last_modified timestamptz,
    size_bytes    bigint NOT NULL,
    job_id        text NOT NULL,
    generation    bigint NOT NULL,
    PRIMARY KEY (session_id, path)
);

-- The content-addressed cache. A blob's bytes stay, so that a citation can be opened after a re-index.
CREATE TABLE rag_blob_cache (
    blob_id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant           text NOT NULL,
    repo_id          text NOT NULL,
    path             text NOT NULL,
    blob_sha         text NOT NULL,
    pipeline_version text NOT NULL,
    embedding_model  text NOT NULL,
    source           bytea NOT NULL,
    notes            text[] NOT NULL DEFAULT '{}',
    created_at       timestamptz NOT NULL DEFAULT now(),
    UNIQUE (tenant, repo_id, path, blob_sha, pipeline_version, embedding_model)
);

CREATE TABLE rag_chunk_cache (
    blob_id     bigint NOT NULL REFERENCES rag_blob_cache ON DELETE CASCADE,
    layer       text NOT NULL,
    ordinal     int NOT NULL,
    title       text NOT NULL,
    content     text NOT NULL,
    span_start  int NOT NULL,
    span_end    int NOT NULL,
    metadata    jsonb NOT NULL,
    embedding   halfvec NOT NULL,
    term_ids    int[] NOT NULL,   -- ascending
    term_counts int[] NOT NULL,
    length      int NOT NULL,     -- the sum of term_counts
    PRIMARY KEY (blob_id, layer, ordinal)
);

-- Roles. They belong to the cluster, so another database's migration may have made them already. Neither is superuser,
-- owner or BYPASSRLS (`strata.storage.postgres.migrate` checks it, and sets their passwords). A function that is frozen
-- inside a transaction must not hold its row locks for long.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['strata_index', 'strata_query'] LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
                EXECUTE format('CREATE ROLE %I LOGIN', name);
                EXECUTE format('ALTER ROLE %I SET idle_in_transaction_session_timeout = %L', name, '60s');
            END IF;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            RAISE NOTICE 'role % was made at the same time by another migration', name;
        END;
    END LOOP;
END $$;

GRANT SELECT, INSERT, UPDATE, DELETE ON
    rag_sessions, rag_indexes, rag_index_layers, rag_index_terms, rag_chunks, rag_chunk_vectors, rag_chunk_terms,
    rag_session_chunk_map, rag_blob_cache, rag_chunk_cache TO strata_index;
GRANT SELECT, INSERT ON rag_terms TO strata_index;
GRANT USAGE ON SEQUENCE rag_chunk_ids TO strata_index;

GRANT SELECT ON
    rag_sessions, rag_indexes, rag_index_layers, rag_terms, rag_index_terms, rag_chunks, rag_chunk_vectors,
    rag_chunk_terms, rag_blob_cache TO strata_query;

-- Temporary tables are a way to write that neither role needs.
DO $$
BEGIN
    EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
END $$;

-- The second wall: row-level security on the tables with names and text. The reader sets `strata.tenant` and
-- `strata.principals` (a JSON array of texts) for its transaction, for every statement that touches rag_sessions,
-- rag_chunks or rag_blob_cache; without them nothing is visible. It is a wall against a forgotten filter, not against
-- a stolen connection, which could set what it likes.
CREATE FUNCTION strata_principals() RETURNS text[]
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(array_agg(value), '{}')
    FROM jsonb_array_elements_text(coalesce(nullif(current_setting('strata.principals', true), ''), '[]')::jsonb) AS value
$$;

ALTER TABLE rag_sessions ENABLE ROW LEVEL SECURITY;
CREATE POLICY indexer ON rag_sessions TO strata_index USING (true) WITH CHECK (true);
CREATE POLICY reader ON rag_sessions FOR SELECT TO strata_query USING (
    tenant = current_setting('strata.tenant', true)
    AND (owner = ANY ((SELECT strata_principals())::text[]) OR readers && (SELECT strata_principals()))
);

-- A chunk of a session that the caller reads (the policy of rag_sessions holds inside this one), if its own list of
-- principals lets the caller in; the session's owner is no exception. Looked up for each row: rows are few here, and
-- a list of all readable sessions may be long.
ALTER TABLE rag_chunks ENABLE ROW LEVEL SECURITY;
CREATE POLICY indexer ON rag_chunks TO strata_index USING (true) WITH CHECK (true);
CREATE POLICY reader ON rag_chunks FOR SELECT TO strata_query USING (
    (acl IS NULL OR acl && (SELECT strata_principals()))
    AND EXISTS (
        SELECT FROM rag_indexes AS i JOIN rag_sessions AS s USING (session_id) WHERE i.index_id = rag_chunks.index_id
    )
);

-- A cached file is readable through a chunk that is (the policy of rag_chunks holds inside this one), and only so.
ALTER TABLE rag_blob_cache ENABLE ROW LEVEL SECURITY;
CREATE POLICY indexer ON rag_blob_cache TO strata_index USING (true) WITH CHECK (true);
CREATE POLICY reader ON rag_blob_cache FOR SELECT TO strata_query USING (
    EXISTS (SELECT FROM rag_chunks AS c WHERE c.blob_id = rag_blob_cache.blob_id)
);

-- After a large commit: merges the GIN index's pending list, which every search would read, and takes fresh statistics.
-- Only the owner may do either, so the function runs as the owner; it takes a number and touches three partitions.
CREATE FUNCTION strata_tidy(index_number bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    remainder int;
BEGIN
    FOR remainder IN 0..7 LOOP
        IF satisfies_hash_partition('public.rag_chunk_terms'::regclass, 8, remainder, index_number) THEN
            PERFORM gin_clean_pending_list(i.indexrelid)
            FROM pg_index AS i
            JOIN pg_class AS c ON c.oid = i.indexrelid
            JOIN pg_am AS a ON a.oid = c.relam AND a.amname = 'gin'
            WHERE i.indrelid = format('public.rag_chunk_terms_%s', remainder)::regclass;
            EXECUTE format('ANALYZE public.rag_chunk_terms_%s (index_id, layer, path)', remainder);
            EXECUTE format('ANALYZE public.rag_chunk_vectors_%s (index_id, layer, path)', remainder);
            EXECUTE format('ANALYZE public.rag_chunks_%s (index_id, chunk_id, blob_id, path, layer)', remainder);
        END IF;
    END LOOP;
END $$;
REVOKE EXECUTE ON FUNCTION strata_tidy(bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION strata_tidy(bigint) TO strata_index;
