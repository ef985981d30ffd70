-- What was embedded, by its hash: a chunk that an older version of the file held keeps its vector.
ALTER TABLE rag_chunk_cache ADD COLUMN text_key bytea NOT NULL DEFAULT '';
