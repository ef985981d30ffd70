-- Links between files of a session, for one caller: both ends are files that the caller may read.

-- name: links
-- The links that leave a file or a symbol, and those that lead to it; one row without a link if there is none, no row
-- without the session. A name that a file only imports is no definition of its own here.
WITH session AS MATERIALIZED (
    SELECT s.active_index_id AS index_id FROM rag_sessions AS s
    WHERE s.session_id = %(session_id)s AND s.tenant = %(tenant)s
      AND (s.owner = ANY (%(principals)s::text[]) OR s.readers && %(principals)s::text[])
),
scope AS MATERIALIZED (
    SELECT d.path, d.target, d.key FROM rag_links AS d
    WHERE d.index_id = (SELECT index_id FROM session) AND d.kind = 'defines'
      AND (d.acl IS NULL OR d.acl && %(principals)s::text[])
      AND (
          d.path = %(path)s::text
          OR (
              d.key = %(symbol_key)s::text AND NOT d.is_path
              AND (d.target = %(symbol)s OR right(d.target, length(%(symbol)s::text) + 1) = '.' || %(symbol)s)
          )
      )
      AND NOT EXISTS (
          SELECT FROM rag_links AS i
          WHERE i.index_id = d.index_id AND i.path = d.path AND i.kind = 'imports' AND i.symbol = d.target
            AND i.line = d.line
      )
),
keys AS MATERIALIZED (
    SELECT key FROM scope
    UNION
    SELECT regexp_replace(i.symbol, '^.*\.', '') FROM rag_links AS i
    WHERE i.index_id = (SELECT index_id FROM session) AND i.key = ANY (ARRAY(SELECT key FROM scope))
      AND i.kind = 'imports' AND (i.acl IS NULL OR i.acl && %(principals)s::text[])
),
outgoing AS (
    SELECT 'outgoing' AS direction, l.kind, l.path, l.symbol, l.line, l.target, l.is_path,
           found.path AS found_path, found.defined, found.line AS found_line
    FROM (
        SELECT DISTINCT l.* FROM scope JOIN rag_links AS l ON l.path = scope.path
        WHERE l.index_id = (SELECT index_id FROM session) AND l.kind <> 'defines'
          AND (l.acl IS NULL OR l.acl && %(principals)s::text[])
          AND (%(path)s::text IS NOT NULL OR l.symbol = scope.target OR starts_with(l.symbol, scope.target || '.'))
        ORDER BY l.path, l.line, l.target LIMIT %(limit)s
    ) AS l
    LEFT JOIN LATERAL strata_definition(
        l.index_id, l.target, l.is_path, l.kind IN ('documents', 'mentions'), %(principals)s::text[]
    ) AS found ON true
),
incoming AS (
    SELECT 'incoming' AS direction, l.kind, l.path, l.symbol, l.line, l.target, l.is_path,
           found.path AS found_path, found.defined, found.line AS found_line
    FROM rag_links AS l
    CROSS JOIN LATERAL strata_definition(
        l.index_id, l.target, l.is_path, l.kind IN ('documents', 'mentions'), %(principals)s::text[]
    ) AS found
    WHERE l.index_id = (SELECT index_id FROM session) AND l.kind <> 'defines'
      AND l.key = ANY (ARRAY(SELECT key FROM keys)) AND (l.acl IS NULL OR l.acl && %(principals)s::text[])
      AND EXISTS (SELECT FROM scope WHERE scope.path = found.path AND scope.target = found.defined)
    ORDER BY l.path, l.line, l.target LIMIT %(limit)s
)
SELECT both_ways.* FROM session LEFT JOIN (SELECT * FROM outgoing UNION ALL SELECT * FROM incoming) AS both_ways ON true
ORDER BY direction DESC, path, line, target;

-- name: drift
-- What documents name and nothing in the session defines; one row without a name if there is nothing, no row without
-- the session. A path is only taken for one of the project where its first folder is one, a dotted name only where it
-- begins with a package of the project and its longest part that exists is a module whose names are all known; what
-- the document's author links or lists as related needs no such sign.
WITH session AS MATERIALIZED (
    SELECT s.active_index_id AS index_id FROM rag_sessions AS s
    WHERE s.session_id = %(session_id)s AND s.tenant = %(tenant)s
      AND (s.owner = ANY (%(principals)s::text[]) OR s.readers && %(principals)s::text[])
),
folders AS MATERIALIZED (
    SELECT DISTINCT folder.name FROM rag_links AS d
    CROSS JOIN LATERAL unnest(string_to_array(regexp_replace(d.target, '/?[^/]*$', ''), '/')) AS folder (name)
    WHERE d.index_id = (SELECT index_id FROM session) AND d.kind = 'defines' AND d.is_path
      AND (d.acl IS NULL OR d.acl && %(principals)s::text[])
),
lost AS MATERIALIZED (
    SELECT l.index_id, l.kind, l.path, l.line, l.target, l.is_path FROM rag_links AS l
    WHERE l.index_id = (SELECT index_id FROM session) AND l.kind IN ('documents', 'mentions')
      AND (l.acl IS NULL OR l.acl && %(principals)s::text[])
      AND (l.kind = 'documents' OR l.target LIKE CASE WHEN l.is_path THEN '%%/%%' ELSE '%%.%%' END)
      AND l.path !~* %(histories)s
      AND NOT EXISTS (
          SELECT FROM strata_definition(l.index_id, l.target, l.is_path, true, %(principals)s::text[])
      )
),
judged AS (
    SELECT lost.*, known.defined AS known
    FROM lost
    LEFT JOIN LATERAL (
        SELECT found.defined, found.path, found.is_module
        FROM generate_series(cardinality(string_to_array(lost.target, '.')) - 1, 1, -1) AS parts (count)
        CROSS JOIN LATERAL strata_definition(
            lost.index_id, array_to_string((string_to_array(lost.target, '.'))[1:parts.count], '.'), false, false,
            %(principals)s::text[]
        ) AS found
        WHERE NOT lost.is_path AND lost.kind = 'mentions'
        ORDER BY parts.count DESC LIMIT 1
    ) AS known ON true
    LEFT JOIN LATERAL strata_definition(
        lost.index_id, split_part(lost.target, '.', 1), false, false, %(principals)s::text[]
    ) AS root ON NOT lost.is_path AND lost.kind = 'mentions'
    WHERE CASE
        WHEN lost.kind = 'documents' THEN true
        WHEN lost.is_path THEN split_part(ltrim(lost.target, '/'), '/', 1) IN (SELECT name FROM folders)
        ELSE root.path ~ '(^|/)__init__\.py$' AND known.is_module
             AND (lost.target ~ '\..*\.' OR lost.target ~ '\._*[A-Z]\w*[a-z]\w*$')
             AND NOT EXISTS (
                 SELECT FROM rag_links AS unknown
                 WHERE unknown.index_id = lost.index_id AND unknown.path = known.path
                   AND (
                       (unknown.kind = 'imports' AND unknown.symbol = known.defined || '.*')
                       OR (unknown.kind = 'defines' AND unknown.target = known.defined || '.__getattr__')
                   )
             )
        END
)
SELECT judged.path, judged.line, judged.target, judged.is_path, judged.known
FROM session LEFT JOIN judged ON true
ORDER BY judged.path, judged.line, judged.target
LIMIT %(limit)s;
