-- A statement that its connection plans once. Planning a search takes a fifth of its time, and a client that prepared it by
-- name would keep its connection from other clients of a proxy. Prepared in here nothing of it is seen outside: whoever
-- gets the connection next finds the plan there or makes it. The caller's rights hold, as if it had sent the text itself.
--
-- `statement_name` must stand for `statement_text`. What is common to all calls of a name, such as the index's number,
-- belongs into the text, because the plan does not look at the arguments. At most 24 are kept, the newest, and none for
-- longer than ten minutes: by then the tables may have grown.
CREATE FUNCTION strata_prepared(statement_name text, statement_text text, arguments text[]) RETURNS SETOF record
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    given text;
    former text;
BEGIN
    IF NOT EXISTS (
        SELECT FROM pg_prepared_statements
        WHERE name = statement_name AND prepare_time > statement_timestamp() - interval '10 minutes'
    ) THEN
        FOR former IN
            SELECT name FROM (
                SELECT name, row_number() OVER (ORDER BY prepare_time DESC) AS place
                FROM pg_prepared_statements WHERE name LIKE 'strata\_%'
            ) AS ours
            WHERE name = statement_name OR place > 23
        LOOP
            EXECUTE format('DEALLOCATE %I', former);
        END LOOP;
        EXECUTE format('PREPARE %I AS %s', statement_name, statement_text);
    END IF;
    SELECT string_agg(quote_nullable(value), ',' ORDER BY place) INTO given
    FROM unnest(arguments) WITH ORDINALITY AS argument (value, place);
    RETURN QUERY EXECUTE format('EXECUTE %I(%s)', statement_name, given);
END $$;
REVOKE EXECUTE ON FUNCTION strata_prepared(text, text, text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION strata_prepared(text, text, text[]) TO strata_query;
