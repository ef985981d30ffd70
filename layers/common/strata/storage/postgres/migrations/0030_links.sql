-- Links between files: what a file defines, and the names in it that lead elsewhere. Kept with the blob in the cache,
-- copied by the commit. What a name leads to depends on all files of the index, so it is looked up when asked.

CREATE TABLE rag_link_cache (
    blob_id bigint NOT NULL REFERENCES rag_blob_cache ON DELETE CASCADE,
    kind    text NOT NULL,
    symbol  text NOT NULL,
    target  text NOT NULL,
    key     text NOT NULL,
    is_path boolean NOT NULL,
    line    int NOT NULL
);
CREATE INDEX ON rag_link_cache (blob_id);

-- `key` is the last part of the target (a file's name, an attribute's name): links and definitions meet there.
CREATE TABLE rag_links (
    index_id bigint NOT NULL REFERENCES rag_indexes ON DELETE CASCADE,
    path     text NOT NULL,
    acl      text[],
    kind     text NOT NULL CHECK (kind IN ('defines', 'imports', 'calls', 'inherits', 'documents', 'mentions')),
    symbol   text NOT NULL,
    target   text NOT NULL,
    key      text NOT NULL,
    is_path  boolean NOT NULL,
    line     int NOT NULL
);
CREATE INDEX ON rag_links (index_id, path);
CREATE INDEX ON rag_links (index_id, key);

GRANT SELECT, INSERT, UPDATE, DELETE ON rag_link_cache, rag_links TO strata_index;
GRANT SELECT ON rag_links TO strata_query;

-- Names of symbols and files are text too: the same wall as before `rag_chunks`.
ALTER TABLE rag_links ENABLE ROW LEVEL SECURITY;
CREATE POLICY indexer ON rag_links TO strata_index USING (true) WITH CHECK (true);
CREATE POLICY reader ON rag_links FOR SELECT TO strata_query USING (
    (acl IS NULL OR acl && (SELECT strata_principals()))
    AND EXISTS (
        SELECT FROM rag_indexes AS i JOIN rag_sessions AS s USING (session_id) WHERE i.index_id = rag_links.index_id
    )
);

-- The definition that a name leads to, among the files that the principals may read; no row for a name that leads
-- nowhere. A path with a slash in front is counted from the project's root, any other one may be the end of a longer
-- one. A dotted name may be the end of a longer one too: in code (not `loose`) only where what is left out is no
-- package, so that `json` is not taken for `shop.json`. Where the definition is an import (the line tells it from one
-- inside a function of that name), it is followed.
CREATE FUNCTION strata_definition(of_index bigint, name text, is_a_path boolean, loose boolean, principals text[])
RETURNS TABLE (path text, defined text, line int, is_module boolean)
LANGUAGE plpgsql STABLE ROWS 1 AS $$
#variable_conflict use_column
DECLARE
    wanted text := name;
    may_be_loose boolean := loose;
    separator text := CASE WHEN is_a_path THEN '/' ELSE '.' END;
    definition record;
BEGIN
    FOR hop IN 1..5 LOOP
        SELECT d.path, d.target, d.line, d.symbol INTO definition
        FROM rag_links AS d
        WHERE d.index_id = of_index AND d.kind = 'defines' AND d.is_path = is_a_path
          AND d.key = reverse(split_part(reverse(wanted), separator, 1))
          AND (d.acl IS NULL OR d.acl && principals)
          AND (
              d.target = ltrim(wanted, '/')
              OR (
                  left(wanted, 1) <> '/' AND right(d.target, length(wanted) + 1) = separator || wanted
                  AND (
                      is_a_path OR may_be_loose
                      OR NOT EXISTS (
                          SELECT FROM rag_links AS package
                          WHERE package.index_id = of_index AND package.kind = 'defines' AND package.is_path
                            AND package.key = '__init__.py'
                            AND package.target = replace(
                                left(d.target, length(d.target) - length(wanted) - 1), '.', '/'
                            ) || '/__init__.py'
                      )
                  )
              )
          )
        ORDER BY d.target = ltrim(wanted, '/') DESC, d.symbol = '' DESC, length(d.target), d.path, d.line
        LIMIT 1;
        EXIT WHEN NOT FOUND;
        path := definition.path;
        defined := definition.target;
        line := definition.line;
        is_module := definition.symbol = '';
        EXIT WHEN is_a_path;
        may_be_loose := false;
        SELECT i.target INTO wanted FROM rag_links AS i
        WHERE i.index_id = of_index AND i.path = definition.path AND i.kind = 'imports'
          AND i.symbol = definition.target AND i.line = definition.line
        LIMIT 1;
        EXIT WHEN NOT FOUND;
    END LOOP;
    IF path IS NOT NULL THEN
        RETURN NEXT;
    END IF;
END $$;
