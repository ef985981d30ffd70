-- Postings of an index's frequent words, block by block: the rows of a layer in the order of their numbers, so many at a
-- time, and for each word a vector with a place for each of them that holds its weight there times its idf. A search adds
-- such vectors up, where it would otherwise read every row that holds one of its words. See `term_blocks.py`.
CREATE TABLE rag_term_blocks (
    index_id bigint NOT NULL,
    term_id  int NOT NULL,
    layer    text NOT NULL,
    block    int NOT NULL,
    scores   sparsevec STORAGE MAIN NOT NULL,
    idf      real NOT NULL,
    PRIMARY KEY (index_id, term_id, layer, block)
) WITH (toast_tuple_target = 8160);
ALTER TABLE rag_term_blocks ALTER scores SET STATISTICS 0;

-- Which row has which place; one that is not there any more leaves its place empty.
CREATE TABLE rag_block_rows (
    index_id  bigint NOT NULL REFERENCES rag_indexes ON DELETE CASCADE,
    block     int NOT NULL,
    chunk_ids bigint[] STORAGE EXTERNAL NOT NULL,
    PRIMARY KEY (index_id, block)
);
ALTER TABLE rag_block_rows ALTER chunk_ids SET STATISTICS 0;

-- The greatest number of a row that has a place in a block; NULL: there are no blocks.
ALTER TABLE rag_indexes ADD COLUMN blocks_upto bigint;

GRANT SELECT, INSERT, UPDATE, DELETE ON rag_term_blocks, rag_block_rows TO strata_index;
GRANT SELECT ON rag_term_blocks, rag_block_rows TO strata_query;
