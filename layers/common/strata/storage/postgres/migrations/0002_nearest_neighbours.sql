-- Approximate nearest neighbours (HNSW) for large indexes: one partial index for each, of its model's dimension, so that
-- a graph holds the rows of one session only and goes with them. Small indexes are scanned, which is exact and fast.

-- How many rows the index had when its graph was built; NULL: there is none.
ALTER TABLE rag_indexes ADD COLUMN nearest_rows bigint;

-- Builds the graph of an index that has at least `least_rows` rows and none yet; true when it did. Only the owner of the
-- table may, so it runs as the owner; it takes numbers alone. Writers of the same partition wait meanwhile, readers don't.
CREATE FUNCTION strata_build_nearest(index_number bigint, least_rows bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp SET maintenance_work_mem = '512MB' AS $$
DECLARE
    found_rows bigint;
    found_dimension int;
    remainder int;
BEGIN
    SELECT i.dimension INTO found_dimension FROM public.rag_indexes AS i
    WHERE i.index_id = index_number AND i.nearest_rows IS NULL FOR UPDATE;
    SELECT sum(l.chunk_count) INTO found_rows FROM public.rag_index_layers AS l WHERE l.index_id = index_number;
    IF found_dimension IS NULL OR coalesce(found_rows, 0) < least_rows THEN
        RETURN false;
    END IF;
    FOR remainder IN 0..7 LOOP
        IF satisfies_hash_partition('public.rag_chunk_vectors'::regclass, 8, remainder, index_number) THEN
            EXECUTE format(
                'CREATE INDEX IF NOT EXISTS strata_nearest_%s ON public.rag_chunk_vectors_%s '
                'USING hnsw ((embedding::public.halfvec(%s)) public.halfvec_cosine_ops) WITH (m = 16, ef_construction = 100) '
                'WHERE index_id = %s', index_number, remainder, found_dimension, index_number);
        END IF;
    END LOOP;
    UPDATE public.rag_indexes SET nearest_rows = found_rows WHERE index_id = index_number;
    RETURN true;
END $$;
REVOKE EXECUTE ON FUNCTION strata_build_nearest(bigint, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION strata_build_nearest(bigint, bigint) TO strata_index;

-- A graph goes with its index, at the end of that transaction: dropping it locks out the partition's readers.
CREATE FUNCTION strata_drop_nearest() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    EXECUTE format('DROP INDEX IF EXISTS public.strata_nearest_%s', OLD.index_id);
    RETURN NULL;
END $$;
REVOKE EXECUTE ON FUNCTION strata_drop_nearest() FROM PUBLIC;
CREATE CONSTRAINT TRIGGER drop_nearest AFTER DELETE ON rag_indexes DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (OLD.nearest_rows IS NOT NULL) EXECUTE FUNCTION strata_drop_nearest();

-- The share of an index' rows that a search may find, from 400 of them, spread over the range of their ids.
CREATE FUNCTION strata_allowed_share(
    index_number bigint, layers text[], included text[], excluded text[], principals text[]
) RETURNS double precision
LANGUAGE sql STABLE AS $$
    WITH bounds AS (
        SELECT (SELECT min(chunk_id) FROM rag_chunk_vectors WHERE index_id = index_number) AS first,
               (SELECT max(chunk_id) FROM rag_chunk_vectors WHERE index_id = index_number) AS last
    ), sample AS (
        SELECT chunk.* FROM bounds CROSS JOIN generate_series(0, 399) AS step CROSS JOIN LATERAL (
            SELECT layer, path, acl FROM rag_chunk_vectors
            WHERE index_id = index_number AND chunk_id >= first + (last - first) * step / 400
            ORDER BY chunk_id LIMIT 1
        ) AS chunk
    )
    SELECT coalesce(avg((
        (acl IS NULL OR acl && principals) AND (layers = '{}' OR layer = ANY (layers))
        AND (included = '{}' OR path LIKE ANY (included)) AND NOT path LIKE ANY (excluded)
    )::int), 0)::double precision FROM sample
$$;

-- The rows nearest to a vector among those that a search may find, by the graph of their index: the planner uses a
-- partial index only for a number that stands in the statement. The iterative scan goes on until enough rows pass the
-- filter, or gives up; then fewer rows come back. The settings end with the call.
CREATE FUNCTION strata_nearest(
    index_number bigint, dimension int, asked halfvec, layers text[], included text[], excluded text[],
    principals text[], wanted int
) RETURNS TABLE (chunk_id bigint)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM set_config('hnsw.iterative_scan', 'relaxed_order', true),
            set_config('hnsw.ef_search', least(greatest(2 * wanted, 200), 1000)::text, true),
            set_config('hnsw.max_scan_tuples', '20000', true);
    RETURN QUERY EXECUTE format(
        'SELECT chunk.chunk_id FROM rag_chunk_vectors AS chunk '
        'WHERE chunk.index_id = %s AND (chunk.acl IS NULL OR chunk.acl && $5) '
        'AND ($2 = ''{}'' OR chunk.layer = ANY ($2)) AND ($3 = ''{}'' OR chunk.path LIKE ANY ($3)) '
        'AND NOT chunk.path LIKE ANY ($4) '
        'ORDER BY chunk.embedding::halfvec(%s) <=> $1::halfvec(%s) LIMIT %s',
        index_number, dimension, dimension, wanted)
    USING asked, layers, included, excluded, principals;
END $$;
REVOKE EXECUTE ON FUNCTION strata_allowed_share(bigint, text[], text[], text[], text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION strata_allowed_share(bigint, text[], text[], text[], text[]) TO strata_query;
REVOKE EXECUTE ON FUNCTION strata_nearest(bigint, int, halfvec, text[], text[], text[], text[], int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION strata_nearest(bigint, int, halfvec, text[], text[], text[], text[], int) TO strata_query;
