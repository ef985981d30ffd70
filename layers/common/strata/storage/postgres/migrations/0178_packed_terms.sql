-- The terms of a cached chunk as plain bytes: they are only read whole, and Postgres packs and unpacks each element of an
-- array by itself. Pairs of int4 in network order, a term's id and its count, by ascending id.
ALTER TABLE rag_chunk_cache ADD COLUMN terms bytea;
UPDATE rag_chunk_cache SET terms = (
    SELECT coalesce(string_agg(int4send(t.term_id) || int4send(t.term_count), '' ORDER BY t.term_id), '')
    FROM unnest(term_ids, term_counts) AS t (term_id, term_count)
);
ALTER TABLE rag_chunk_cache ALTER COLUMN terms SET NOT NULL, DROP COLUMN term_ids, DROP COLUMN term_counts;
