-- A cached chunk of two to eight kilobytes is kept as it is: pressing it cost a third of its insert and saved a tenth of
-- its room. The files' bytes are not pressed either, which cost four times what writing them does.
ALTER TABLE rag_chunk_cache SET (toast_tuple_target = 8160);
ALTER TABLE rag_blob_cache ALTER source SET STORAGE EXTERNAL;
