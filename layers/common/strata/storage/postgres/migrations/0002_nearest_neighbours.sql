-- Approximate nearest neighbours for large indexes: a partial IVFFlat index for each, of its model's dimension, so that its
-- cells (pgvector calls them lists) hold the rows of one session only and go with them. Small indexes are scanned, which is exact and fast.

-- How many rows the index had when its cells were made; NULL: it has none.
ALTER TABLE rag_indexes ADD COLUMN nearest_rows bigint;

-- Into how many cells so many rows are divided.
CREATE FUNCTION strata_cells(rows bigint) RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT least(greatest(sqrt(rows)::int, 10), 2000) $$;

-- Makes the cells of an index that has at least `least_rows` rows and none yet, or has doubled since; true when it did.
-- Only the owner of the table may, so it runs as the owner; it takes numbers alone. Writers of the same partition wait
-- meanwhile; readers don't, but for the moment in which former cells are dropped.
CREATE FUNCTION strata_build_nearest(index_number bigint, least_rows bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp SET maintenance_work_mem = '256MB' AS $$
DECLARE
    present public.rag_indexes;
    found_rows bigint;
    remainder int;
BEGIN
    SELECT * INTO present FROM public.rag_indexes AS i WHERE i.index_id = index_number FOR UPDATE;
    SELECT sum(l.chunk_count) INTO found_rows FROM public.rag_index_layers AS l WHERE l.index_id = index_number;
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
REVOKE EXECUTE ON FUNCTION strata_build_nearest(bigint, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION strata_build_nearest(bigint, bigint) TO strata_index;

-- The cells go with their index, at the end of that transaction: dropping them locks out the partition's readers.
CREATE FUNCTION strata_drop_nearest() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    EXECUTE format('DROP INDEX IF EXISTS public.strata_nearest_%s_%s', OLD.index_id, OLD.nearest_rows);
    RETURN NULL;
END $$;
REVOKE EXECUTE ON FUNCTION strata_drop_nearest() FROM PUBLIC;
CREATE CONSTRAINT TRIGGER drop_nearest AFTER DELETE ON rag_indexes DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (OLD.nearest_rows IS NOT NULL) EXECUTE FUNCTION strata_drop_nearest();

-- The share of an index' rows that a search may find, from 200 of them, spread over the range of their ids.
CREATE FUNCTION strata_allowed_share(
    index_number bigint, layers text[], included text[], excluded text[], principals text[]
) RETURNS double precision
LANGUAGE sql STABLE AS $$
    WITH bounds AS (
        SELECT (SELECT min(chunk_id) FROM rag_chunk_vectors WHERE index_id = index_number) AS first,
               (SELECT max(chunk_id) FROM rag_chunk_vectors WHERE index_id = index_number) AS last
    ), sample AS (
        SELECT chunk.* FROM bounds CROSS JOIN generate_series(0, 199) AS step CROSS JOIN LATERAL (
            SELECT layer, path, acl FROM rag_chunk_vectors
            WHERE index_id = index_number AND chunk_id >= first + (last - first) * step / 200
            ORDER BY chunk_id LIMIT 1
        ) AS chunk
    )
    SELECT coalesce(avg((
        (acl IS NULL OR acl && principals) AND (layers = '{}' OR layer = ANY (layers))
        AND (included = '{}' OR path LIKE ANY (included)) AND NOT path LIKE ANY (excluded)
    )::int), 0)::double precision FROM sample
$$;

-- The rows nearest to a vector among those that a search may find, by the cells of their index: the planner uses a
-- partial index only for a number that stands in the statement. A fifth of the cells is searched, and more of them the
-- fewer rows the filter keeps, since those are then farther away. The scan goes on until enough rows pass, or half of the
-- cells are done; then fewer rows come back.
CREATE FUNCTION strata_nearest(
    index_number bigint, dimension int, nearest_rows bigint, allowed_share double precision, asked halfvec,
    layers text[], included text[], excluded text[], principals text[], wanted int
) RETURNS TABLE (chunk_id bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    cells int := strata_cells(nearest_rows);
    probes int := ceil(cells * least(0.2 * greatest(allowed_share, 0.001) ^ -0.25, 0.5));
BEGIN
    PERFORM set_config('ivfflat.probes', greatest(probes, 5)::text, true),
            set_config('ivfflat.iterative_scan', 'relaxed_order', true),
            set_config('ivfflat.max_probes', greatest(cells / 2, probes, 5)::text, true);
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
REVOKE EXECUTE ON FUNCTION strata_nearest FROM PUBLIC;
GRANT EXECUTE ON FUNCTION strata_nearest TO strata_query;
