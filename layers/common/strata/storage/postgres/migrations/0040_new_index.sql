-- A new index is filled beside the live one and goes live in one small transaction; the one before it is kept.

-- What a roll-back goes back to.
ALTER TABLE rag_sessions ADD COLUMN previous_index_id bigint REFERENCES rag_indexes DEFERRABLE INITIALLY DEFERRED;

-- `filled_by`: the job that fills an index which is not live yet; NULL from then on. `fence`: its last writer's.
ALTER TABLE rag_indexes
    ADD COLUMN filled_by text,
    ADD COLUMN fence bigint NOT NULL DEFAULT 0;

-- Provenance belongs to an index: that of one which is being filled does not mix with that of the live one.
ALTER TABLE rag_session_chunk_map ADD COLUMN index_id bigint;
UPDATE rag_session_chunk_map AS m SET index_id = s.active_index_id FROM rag_sessions AS s WHERE s.session_id = m.session_id;
ALTER TABLE rag_session_chunk_map
    ALTER COLUMN index_id SET NOT NULL,
    DROP CONSTRAINT rag_session_chunk_map_pkey,
    ADD PRIMARY KEY (index_id, path);
CREATE INDEX ON rag_session_chunk_map (session_id);
