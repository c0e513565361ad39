-- Returns why production must not run as this account, or NULL if it may. $1 is the service's role, $2 the roles of the others.
--
-- Counts privileges of the account and of every role it is a direct or indirect member of, even without INHERIT, because it
-- can use SET ROLE.
WITH held AS (SELECT * FROM pg_roles WHERE pg_has_role(session_user, oid, 'MEMBER')),
    ours AS (SELECT * FROM pg_class WHERE relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace))
SELECT coalesce(
    -- The server's own roles (pg_…) can write every table, read files or run programs.
    (SELECT 'has server-wide privileges' FROM held
        WHERE rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls OR starts_with(rolname, 'pg_') LIMIT 1),
    (SELECT 'owns the tables' FROM ours JOIN held ON held.oid = relowner WHERE relkind IN ('r', 'p', 'v', 'm', 'f', 'S') LIMIT 1),
    -- The owner of a function can replace it: one function protects the audit trail, others run with the rights of the tables' owner.
    (SELECT 'owns the function ' || proname FROM pg_proc JOIN held ON held.oid = proowner
        WHERE pronamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) ORDER BY proname LIMIT 1),
    -- The owner of a schema can drop its content; with CREATE, an account can shadow the objects that statements mean.
    (SELECT 'owns the schema ' || nspname FROM pg_namespace JOIN held ON held.oid = nspowner WHERE nspname = 'public' LIMIT 1),
    (SELECT 'can create objects in the schema ' || nspname FROM pg_namespace, held
        WHERE nspname = 'public' AND has_schema_privilege(held.oid, pg_namespace.oid, 'CREATE') LIMIT 1),
    (SELECT 'has the privileges of another service' FROM held WHERE rolname = ANY($2) LIMIT 1),
    -- TRIGGER permits writes too. Privileges that the service's intended role has are allowed.
    (SELECT 'can write ' || relname || ', unlike ' || $1
        FROM ours CROSS JOIN held LEFT JOIN pg_roles meant ON meant.rolname = $1
        WHERE relkind IN ('r', 'p', 'v', 'f', 'S') AND (
            EXISTS (SELECT FROM unnest(array['DELETE', 'TRUNCATE', 'TRIGGER']) AS rights (may)
                WHERE has_table_privilege(held.oid, ours.oid, may)
                AND NOT coalesce(has_table_privilege(meant.oid, ours.oid, may), false))
            OR EXISTS (SELECT FROM pg_attribute, unnest(array['INSERT', 'UPDATE']) AS rights (may)
                WHERE attrelid = ours.oid AND attnum > 0 AND NOT attisdropped
                AND has_column_privilege(held.oid, ours.oid, attnum, may)
                AND NOT coalesce(has_column_privilege(meant.oid, ours.oid, attnum, may), false)))
        ORDER BY relname LIMIT 1)
)
