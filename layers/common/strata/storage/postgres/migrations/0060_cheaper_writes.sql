-- Rows that come by tens of thousands have no foreign key any more: its check cost up to a third of their insert. Whoever
-- deletes what they belong to deletes them too (`purge_…`, `collect_…`), and nobody writes to what is gone: a commit
-- holds the session, a filler the index, and chunks are cached in the transaction that adds their blob.
ALTER TABLE rag_chunk_cache DROP CONSTRAINT rag_chunk_cache_blob_id_fkey;
ALTER TABLE rag_link_cache DROP CONSTRAINT rag_link_cache_blob_id_fkey;
ALTER TABLE rag_index_terms DROP CONSTRAINT rag_index_terms_index_id_fkey;
ALTER TABLE rag_links DROP CONSTRAINT rag_links_index_id_fkey;

-- Not every layer is embedded: such a chunk has no row in rag_chunk_vectors and no vector in the cache.
ALTER TABLE rag_chunk_cache ALTER COLUMN embedding DROP NOT NULL;

-- As before, but the rows are counted where the vectors are.
CREATE OR REPLACE FUNCTION strata_build_nearest(index_number bigint, least_rows bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp SET maintenance_work_mem = '256MB' AS $$
DECLARE
    present public.rag_indexes;
    found_rows bigint;
    remainder int;
BEGIN
    SELECT * INTO present FROM public.rag_indexes AS i WHERE i.index_id = index_number FOR UPDATE;
    SELECT count(*) INTO found_rows FROM public.rag_chunk_vectors AS v WHERE v.index_id = index_number;
    IF present.index_id IS NULL OR found_rows IS NULL
        OR found_rows < greatest(least_rows, 2 * coalesce(present.nearest_rows, 0)) THEN
        RETURN false;
    END IF;
    FOR remainder IN 0..7 LOOP
        IF satisfies_hash_partition('public.rag_chunk_vectors'::regclass, 8, remainder, index_number) THEN
            EXECUTE format(
                'CREATE INDEX strata_nearest_%s_%s ON public.rag_chunk_vectors_%s '
                'USING ivfflat ((embedding::public.halfvec(%s)) public.halfvec_cosine_ops) WITH (lists = %s) '
                'WHERE index_id = %s', index_number, found_rows, remainder, present.dimension,
                public.strata_cells(found_rows), index_number);
        END IF;
    END LOOP;
    IF present.nearest_rows IS NOT NULL THEN
        EXECUTE format('DROP INDEX IF EXISTS public.strata_nearest_%s_%s', index_number, present.nearest_rows);
    END IF;
    UPDATE public.rag_indexes SET nearest_rows = found_rows WHERE index_id = index_number;
    RETURN true;
END $$;
