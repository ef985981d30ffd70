-- As before, but three tenths of the cells are searched instead of a fifth. Over 64,183 vectors of 100,000 chunks and four
-- builds of the cells (their middles are drawn by chance), a fifth found 0.997 to 1 of the ten nearest to 113 questions,
-- in an unlucky twenty of them 0.98; three tenths found all of them each time.
CREATE OR REPLACE FUNCTION strata_nearest(
    index_number bigint, dimension int, nearest_rows bigint, allowed_share double precision, asked halfvec,
    layers text[], included text[], excluded text[], principals text[], wanted int
) RETURNS TABLE (chunk_id bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    cells int := strata_cells(nearest_rows);
    probes int := ceil(cells * least(0.3 * greatest(allowed_share, 0.001) ^ -0.25, 0.5));
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
