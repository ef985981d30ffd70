-- How many chunks and terms a prepared file has in each layer: average lengths are taken from these few rows instead of
-- from every cached chunk. A JSON array of {"layer", "chunks", "terms"}.
ALTER TABLE rag_blob_cache ADD COLUMN layer_lengths jsonb NOT NULL DEFAULT '[]';
UPDATE rag_blob_cache AS b SET layer_lengths = counted.layer_lengths
FROM (
    SELECT blob_id, jsonb_agg(jsonb_build_object('layer', layer, 'chunks', chunks, 'terms', terms)) AS layer_lengths
    FROM (SELECT blob_id, layer, count(*) AS chunks, sum(length) AS terms FROM rag_chunk_cache GROUP BY 1, 2) AS of_layer
    GROUP BY blob_id
) AS counted
WHERE counted.blob_id = b.blob_id;
