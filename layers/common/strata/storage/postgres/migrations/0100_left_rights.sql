-- The lists of principals of files that have left the index: one that comes back, and is not said to have another, gets
-- its list back instead of being open to everybody who reads the session.
CREATE TABLE rag_left_rights (
    session_id text NOT NULL REFERENCES rag_sessions ON DELETE CASCADE,
    path       text NOT NULL,
    acl        text[] NOT NULL,
    PRIMARY KEY (session_id, path)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON rag_left_rights TO strata_index;
