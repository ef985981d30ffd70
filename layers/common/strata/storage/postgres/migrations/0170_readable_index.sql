-- Whether the caller reads a chunk's session was looked up for each text, which took as long as the text itself. Of the
-- index that a search names in `strata.index` it is now looked up once for a statement; of any other for each row, as
-- before. The setting is no right: the same is looked up, under the same policies.
ALTER POLICY reader ON rag_chunks USING (
    (acl IS NULL OR acl && (SELECT strata_principals()))
    AND CASE WHEN index_id = (SELECT nullif(current_setting('strata.index', true), '')::bigint) THEN (
        SELECT EXISTS (
            SELECT FROM rag_indexes AS i JOIN rag_sessions AS s USING (session_id)
            WHERE i.index_id = nullif(current_setting('strata.index', true), '')::bigint
        )
    ) ELSE EXISTS (
        SELECT FROM rag_indexes AS i JOIN rag_sessions AS s USING (session_id) WHERE i.index_id = rag_chunks.index_id
    ) END
);
