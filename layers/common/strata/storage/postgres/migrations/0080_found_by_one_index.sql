-- Where two indexes began with an index's number, the planner took the wrong one to find a file's rows, and so read all
-- rows of an index that its statistics did not know yet. Narrow rows are found by the chunks of the file.
DROP INDEX rag_chunk_vectors_index_id_path_idx;
DROP INDEX rag_chunk_terms_index_id_path_idx;
CREATE INDEX ON rag_links (key, index_id);
DROP INDEX rag_links_index_id_key_idx;
