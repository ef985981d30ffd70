-- What is left to know of a session that was deleted. A later one of the same name goes on with its numbers, so that a
-- late worker of the old one, or an entry in a cache, never fits the new one.
CREATE TABLE rag_deleted_sessions (
    session_id  text PRIMARY KEY,
    tenant      text NOT NULL,
    repo_id     text NOT NULL,
    index_ids   bigint[] NOT NULL,   -- whose rows are still to be removed
    generation  bigint NOT NULL,
    fence       bigint NOT NULL,
    applied_seq bigint NOT NULL,
    purged      boolean NOT NULL DEFAULT false,   -- false: the name is not free yet
    deleted_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON rag_deleted_sessions (tenant, repo_id);
CREATE INDEX ON rag_sessions (tenant, repo_id);
GRANT SELECT, INSERT, UPDATE ON rag_deleted_sessions TO strata_index;
