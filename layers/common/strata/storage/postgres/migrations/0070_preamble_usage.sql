-- What a chat model used to write a prepared file's preambles: a job's report adds it up, whichever worker paid.
ALTER TABLE rag_blob_cache
    ADD COLUMN model_calls int NOT NULL DEFAULT 0,
    ADD COLUMN model_input_tokens bigint NOT NULL DEFAULT 0,
    ADD COLUMN model_output_tokens bigint NOT NULL DEFAULT 0;
