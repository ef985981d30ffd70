-- Rows that come by tens of thousands have no foreign key any more: its check cost up to a third of their insert. Whoever
-- deletes what they belong to deletes them too (`purge_…`, `collect_…`), and nobody writes to what is gone: a commit
-- holds the session, a filler the index, and chunks are cached in the transaction that adds their blob.
ALTER TABLE rag_chunk_cache DROP CONSTRAINT rag_chunk_cache_blob_id_fkey;
ALTER TABLE rag_link_cache DROP CONSTRAINT rag_link_cache_blob_id_fkey;
ALTER TABLE rag_index_terms DROP CONSTRAINT rag_index_terms_index_id_fkey;
ALTER TABLE rag_links DROP CONSTRAINT rag_links_index_id_fkey;
