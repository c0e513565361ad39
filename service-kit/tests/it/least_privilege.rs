//! Each role's privileges in PostgreSQL, compared with a checked-in matrix on the test's own server.

use crate::database::{Database, refusal};
use service_kit::databases;
use service_kit::roles::{self, Role};
use service_kit::settings::PostgresSettings;
use std::fmt::Write as _;

const MATRIX: &str = include_str!("least_privilege/postgres.txt");

/// One line per role and table: the privileges on the whole table, then those on single columns.
const RIGHTS: &str = "\
    SELECT role || ' ' || relname || ' ' || string_agg(privilege, ' ' ORDER BY privilege) FROM ( \
        SELECT role, c.relname, p || CASE WHEN has_table_privilege(role, c.oid, p) THEN '' ELSE '(' || ( \
                SELECT string_agg(a.attname, ',' ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 \
                AND NOT a.attisdropped AND has_column_privilege(role, c.oid, a.attnum, p)) || ')' END AS privilege \
        FROM pg_class c CROSS JOIN unnest($1::text[]) role \
        CROSS JOIN unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER', 'MAINTAIN']) p \
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f') \
        AND (has_table_privilege(role, c.oid, p) OR (p IN ('SELECT', 'INSERT', 'UPDATE', 'REFERENCES') \
             AND has_any_column_privilege(role, c.oid, p)))) AS rights \
    GROUP BY role, relname ORDER BY role, relname";

/// The roles' privileges on anything except tables. They should only be able to connect.
const ELSEWHERE: &str = "\
    SELECT role || ' ' || may FROM unnest($1::text[]) role CROSS JOIN LATERAL ( \
        SELECT 'makes schemas' WHERE has_database_privilege(role, current_database(), 'CREATE') \
        UNION ALL SELECT 'makes temporary tables' WHERE has_database_privilege(role, current_database(), 'TEMPORARY') \
        UNION ALL SELECT 'makes tables' WHERE has_schema_privilege(role, 'public', 'CREATE') \
        UNION ALL SELECT 'is in ' || g.rolname FROM pg_roles g WHERE g.rolname <> role AND pg_has_role(role, g.oid, 'MEMBER') \
        UNION ALL SELECT 'owns ' || c.relname FROM pg_class c WHERE pg_has_role(role, c.relowner, 'MEMBER') \
        UNION ALL SELECT 'is mighty' FROM pg_roles r WHERE r.rolname = role \
            AND (rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls) \
        UNION ALL SELECT 'executes ' || f.proname FROM pg_proc f JOIN pg_roles o ON o.oid = f.proowner \
            WHERE f.pronamespace = 'public'::regnamespace AND has_function_privilege(role, f.oid, 'EXECUTE') \
            AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = f.oid AND d.deptype = 'e') \
        UNION ALL SELECT 'executes ' || f.oid::regprocedure FROM pg_proc f WHERE f.proname ~ '^lo(_|read$|write$)' \
            AND f.pronamespace = 'pg_catalog'::regnamespace AND has_function_privilege(role, f.oid, 'EXECUTE')) AS more (may)";

/// Statements that only a server administrator can forbid, not the table owner.
const LARGE_OBJECTS: [&str; 7] = [
    "SELECT lo_create(0)",
    "SELECT lo_creat(-1)",
    "SELECT lo_from_bytea(0, 'x')",
    "SELECT lo_put(1, 0, 'x')",
    "SELECT lo_open(1, 131072)",
    "SELECT lowrite(0, 'x')",
    "SELECT lo_unlink(1)",
];

#[tokio::test(flavor = "multi_thread")]
async fn s16_postgresql_roles_match_the_matrix() {
    let database = Database::migrated().await;
    let names = [&Role::ALL.map(Role::name)[..], &["public"]].concat();
    let found: Vec<String> = sqlx::query_scalar(RIGHTS).bind(&names).fetch_all(&database.pool).await.unwrap();
    let mut difference = String::new();
    let expected: Vec<&str> = MATRIX.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    for line in &found {
        if !expected.contains(&line.as_str()) {
            writeln!(difference, "+ {line}").unwrap();
        }
    }
    for line in &expected {
        if !found.iter().any(|found| found == line) {
            writeln!(difference, "- {line}").unwrap();
        }
    }
    assert!(
        difference.is_empty(),
        "schemas/postgres/roles/grants.sql (+) differs from tests/it/least_privilege/postgres.txt (-):\n{difference}"
    );
    let more: Vec<String> =
        sqlx::query_scalar(ELSEWHERE).bind(&Role::ALL.map(Role::name)[..]).fetch_all(&database.pool).await.unwrap();
    assert_eq!(more, Vec::<String>::new());
    let nobodys: Vec<String> = sqlx::query_scalar(
        "SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'v') \
         AND NOT EXISTS (SELECT FROM unnest($1::text[]) role WHERE has_any_column_privilege(role, c.oid, 'SELECT') \
                         OR has_table_privilege(role, c.oid, 'INSERT'))",
    )
    .bind(&Role::ALL.map(Role::name)[..])
    .fetch_all(&database.pool)
    .await
    .unwrap();
    assert_eq!(nobodys, Vec::<String>::new(), "grant them in schemas/postgres/roles/grants.sql");
}

#[tokio::test(flavor = "multi_thread")]
async fn a9_services_cannot_change_the_audit_trail() {
    let database = Database::migrated().await;
    let row = "INSERT INTO audit_log (at, actor_kind, action, object_kind, object_id) VALUES (now(), 'system', 'x', 'x', gen_random_uuid())";
    for role in Role::ALL {
        let pool = database.signed_in_as(role);
        for statement in [
            "UPDATE audit_log SET detail = '{}'",
            "DELETE FROM audit_log",
            "TRUNCATE audit_log",
            "ALTER TABLE audit_log DISABLE TRIGGER ALL",
            "ALTER TABLE audit_log OWNER TO CURRENT_USER",
            "ALTER TABLE audit_log RENAME TO other",
            "CREATE TRIGGER mine BEFORE INSERT ON audit_log FOR EACH ROW EXECUTE FUNCTION refuse_change_of_audit_log()",
            "CREATE RULE mine AS ON INSERT TO audit_log DO INSTEAD NOTHING",
            "DROP TRIGGER audit_log_is_append_only ON audit_log",
            "DROP TABLE audit_log",
            "CREATE OR REPLACE FUNCTION refuse_change_of_audit_log() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
            "CREATE TABLE mine (x int)",
            "CREATE TEMPORARY TABLE audit_log (x int)",
            "CREATE SCHEMA mine",
            "SET session_replication_role = replica",
            "SET ROLE telemetry",
            "SET SESSION AUTHORIZATION telemetry",
            "GRANT ALL ON audit_log TO CURRENT_USER",
            "COPY audit_log TO PROGRAM 'cat'",
            "ALTER ROLE telemetry PASSWORD 'mine'",
            "ALTER ROLE CURRENT_USER CREATEROLE",
            "ALTER ROLE CURRENT_USER CONNECTION LIMIT 1",
            "ALTER ROLE CURRENT_USER VALID UNTIL '2000-01-01'",
        ]
        .into_iter()
        .chain(LARGE_OBJECTS)
        {
            if statement.starts_with("GRANT") && role == Role::Identity {
                continue; // PostgreSQL only warns here and grants nothing, as the matrix shows
            }
            refusal(&pool, statement).await;
        }
        match role {
            Role::Identity => drop(sqlx::query(row).execute(&pool).await.unwrap()),
            _ => drop(refusal(&pool, row).await),
        }
    }
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM audit_log").fetch_one(&database.pool).await.unwrap();
    assert_eq!(left, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn services_cannot_read_other_services_tables() {
    let database = Database::migrated().await;
    for (role, statement) in [
        (Role::Gateway, "SELECT secret_sealed FROM webhook_endpoints"),
        (Role::Gateway, "SELECT * FROM user_sessions"),
        (Role::Gateway, "UPDATE api_keys SET revoked_at = NULL"),
        (
            Role::Gateway,
            "INSERT INTO api_keys (organization_id, name, prefix, key_hash, scopes) VALUES (gen_random_uuid(), '', '', '', '{}')",
        ),
        (Role::Gateway, "UPDATE sessions SET parent_session_id = 'p'"),
        (Role::Gateway, "UPDATE sessions SET created_at = now()"),
        (Role::Worker, "SELECT * FROM api_keys"),
        (Role::Worker, "UPDATE sessions SET outcome = '{}'"),
        (Role::Worker, "DELETE FROM sessions"),
        (Role::Deliverer, "SELECT * FROM api_keys"),
        (Role::Deliverer, "SELECT * FROM users"),
        (Role::Deliverer, "UPDATE webhook_endpoints SET url = 'https://evil.test/'"),
        (Role::Deliverer, "UPDATE webhook_deliveries SET body = ''"),
        (Role::Query, "SELECT secret_sealed FROM webhook_endpoints"),
        (Role::Query, "SELECT email FROM users"),
        (Role::Query, "UPDATE organizations SET visible_in_click_token_lookups = true"),
        (
            Role::Query,
            "INSERT INTO delegations (grantor_org_id, grantee_org_id, scopes) VALUES (gen_random_uuid(), gen_random_uuid(), '{}')",
        ),
        (Role::Identity, "SELECT * FROM click_tokens"),
        (Role::Identity, "DELETE FROM sessions"),
        (Role::Identity, "UPDATE webhook_queue SET status = 'delivered'"),
        (Role::Identity, "SELECT queue_webhook_delivery()"),
    ] {
        refusal(&database.signed_in_as(role), statement).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn production_rejects_owners_and_superusers() {
    let database = Database::migrated().await;
    database.admin("CREATE ROLE maker LOGIN CREATEROLE; CREATE ROLE heir LOGIN; CREATE ROLE parent; GRANT parent TO heir").await;
    database.admin("ALTER TABLE sessions OWNER TO parent; GRANT CONNECT ON DATABASE telemetry TO maker, heir").await;
    for (user, why) in [
        ("telemetry", "which has server-wide privileges"),
        ("maker", "which has server-wide privileges"),
        ("heir", "which owns the tables"),
    ] {
        let said = roles::reject_excess_privileges(&database.as_user(user), Role::Query).await.unwrap_err().to_string();
        assert!(said.starts_with("DATABASE_URL=127.0.0.1:") && said.lines().count() == 1, "{said}");
        assert!(said.contains(&format!("can't use the account {user}, {why}; connect as telemetry_query")), "{said}");
    }
    each_service_is_let_in(&database).await;
}

/// Production accepts the roles that `migrate` created.
async fn each_service_is_let_in(database: &Database) {
    for role in Role::ALL {
        roles::reject_excess_privileges(&database.admin.signed_in_as(role).unwrap(), role).await.unwrap();
    }
}

/// Returns the reason why production rejects an account with these privileges for `query-api`, or `None` if it accepts the account.
async fn judged(database: &Database, user: &str, statements: &str) -> Option<String> {
    database.admin(&format!("CREATE ROLE {user} LOGIN; GRANT CONNECT ON DATABASE telemetry TO {user}; {statements}")).await;
    let refused = roles::reject_excess_privileges(&database.as_user(user), Role::Query).await.err()?.to_string();
    let (_, why) = refused.split_once(&format!("can't use the account {user}, which ")).unwrap_or(("", &refused));
    let (why, fix) = why.split_once("; ")?;
    assert_eq!(fix, "connect as telemetry_query, which `telemetry identity-api migrate` creates", "{user}");
    Some(why.to_owned())
}

/// Each account exceeds its service's privileges, either itself or through a membership that requires SET ROLE.
#[tokio::test(flavor = "multi_thread")]
async fn production_rejects_accounts_with_excess_privileges() {
    const SERVER: &str = "has server-wide privileges";
    const FUNCTION: &str = "refuse_change_of_audit_log()";
    let database = Database::migrated().await;
    let refused = async |user: &str, statements: &str, expected: &str| {
        assert_eq!(judged(&database, user, statements).await.as_deref(), Some(expected), "{user}: {statements}");
    };
    let mut accounts = Vec::new();
    for right in ["SUPERUSER", "CREATEROLE", "CREATEDB", "REPLICATION", "BYPASSRLS"] {
        accounts.push((format!("ALTER ROLE ACCOUNT {right}"), SERVER.to_owned()));
    }
    for role in
        ["pg_write_all_data", "pg_read_all_data", "pg_execute_server_program", "pg_read_server_files", "pg_write_server_files"]
    {
        accounts.push((format!("GRANT {role} TO ACCOUNT WITH INHERIT FALSE"), SERVER.to_owned()));
    }
    for (right, table) in [
        ("INSERT", "audit_log"),
        ("UPDATE", "audit_log"),
        ("UPDATE (detail)", "audit_log"),
        ("DELETE", "audit_log"),
        ("TRUNCATE", "audit_log"),
        ("TRIGGER", "audit_log"),
        ("INSERT (name)", "organizations"),
        ("UPDATE", "api_keys_shown"),
        ("DELETE", "key_uses_reads"),
    ] {
        let expected = format!("can write {table}, unlike telemetry_query");
        accounts.push((format!("GRANT {right} ON {table} TO ACCOUNT"), expected));
    }
    for other in Role::ALL.into_iter().filter(|role| *role != Role::Query) {
        accounts.push((format!("GRANT {} TO ACCOUNT", other.name()), "has the privileges of another service".to_owned()));
    }
    // These come last, because each of them takes an ownership away from the previous account.
    for (statements, expected) in [
        (format!("ALTER FUNCTION {FUNCTION} OWNER TO ACCOUNT"), "owns the function refuse_change_of_audit_log"),
        ("GRANT CREATE ON SCHEMA public TO ACCOUNT".to_owned(), "can create objects in the schema public"),
        ("ALTER SCHEMA public OWNER TO ACCOUNT".to_owned(), "owns the schema public"),
    ] {
        accounts.push((statements, expected.to_owned()));
    }
    for (number, (statements, expected)) in accounts.iter().enumerate() {
        let (user, member) = (format!("account_{number}"), format!("member_{number}"));
        refused(&user, &statements.replace("ACCOUNT", &user), expected).await;
        refused(&member, &format!("GRANT {user} TO {member} WITH INHERIT FALSE"), expected).await;
    }
    refused("database_owner", "ALTER DATABASE telemetry OWNER TO database_owner", SERVER).await;
    database.admin("ALTER SCHEMA public OWNER TO pg_database_owner").await;
    each_service_is_let_in(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn production_accepts_accounts_with_the_services_privileges() {
    let database = Database::migrated().await;
    for (user, rights) in [
        ("reader", "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader; GRANT INSERT, UPDATE ON key_uses_reads TO reader"),
        ("as_query", "GRANT telemetry_query TO as_query"),
        ("nobody_special", "GRANT SELECT ON sessions TO nobody_special"),
    ] {
        assert_eq!(judged(&database, user, rights).await, None, "{user}");
    }
    let said = judged(&database, "everything", "GRANT ALL ON ALL TABLES IN SCHEMA public TO everything").await.unwrap();
    assert!(said.starts_with("can write ") && said.ends_with(", unlike telemetry_query"), "{said}");
    for other in Role::ALL {
        let itself = roles::reject_excess_privileges(&database.admin.signed_in_as(other).unwrap(), Role::Query).await;
        assert_eq!(itself.is_err(), other != Role::Query, "{}", other.name());
    }
}

/// For a service's own role, the error names the privileges to revoke, because there is no other role to use.
#[tokio::test(flavor = "multi_thread")]
async fn error_names_the_privileges_to_revoke() {
    let database = Database::migrated().await;
    database.admin("GRANT CREATE ON SCHEMA public TO telemetry_query").await;
    let settings = database.admin.signed_in_as(Role::Query).unwrap();
    let said = roles::reject_excess_privileges(&settings, Role::Query).await.unwrap_err().to_string();
    let why = "which can create objects in the schema public; remove this privilege from it and from PUBLIC";
    let expected = format!("can't use the account telemetry_query, {why}");
    assert!(said.starts_with("DATABASE_URL=127.0.0.1:") && said.ends_with(&expected), "{said}");
    database.admin("REVOKE CREATE ON SCHEMA public FROM telemetry_query").await;
    each_service_is_let_in(&database).await;
    database.admin("GRANT CREATE ON SCHEMA public TO PUBLIC").await;
    let said = roles::reject_excess_privileges(&settings, Role::Query).await.unwrap_err().to_string();
    assert!(said.ends_with(&expected), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn prints_the_statements_if_owner_lacks_createrole() {
    let database = Database::empty().await;
    database.admin("CREATE ROLE owner LOGIN; ALTER DATABASE telemetry OWNER TO owner; GRANT ALL ON SCHEMA public TO owner").await;
    let owner = databases::postgres(&database.as_user("owner")).unwrap();
    let said = databases::migrate_postgres(&owner).await.unwrap_err().to_string();
    assert!(said.starts_with("DATABASE_URL: the user owner can't create roles; an administrator must run: "), "{said}");
    let (_, statements) = said.split_once("run: ").unwrap();
    let (statements, rest) = statements.rsplit_once("; set a password for each role").unwrap();
    assert_eq!(rest, ", then run this command again");
    database.admin(statements).await;
    databases::migrate_postgres(&owner).await.unwrap();
    databases::migrate_postgres(&owner).await.expect("migrating twice works");
    for role in Role::ALL {
        databases::check_postgres(&database.signed_in_as(role)).await.expect("each role can check the tables");
    }
    let owners: Vec<String> = sqlx::query_scalar("SELECT DISTINCT tableowner::text FROM pg_tables WHERE schemaname = 'public'")
        .fetch_all(&database.pool)
        .await
        .unwrap();
    assert_eq!(owners, ["owner"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn prints_the_statement_that_forbids_large_objects() {
    let database = Database::migrated().await;
    let left = roles::statement_for_administrator(&database.pool).await.unwrap();
    assert_eq!(left, None, "an administrator has to run no statement");
    database.admin("CREATE ROLE owner LOGIN CREATEROLE").await;
    database.admin("CREATE DATABASE theirs OWNER owner").await;
    let at = |settings: PostgresSettings| {
        let (server, _) = settings.database_url.rsplit_once('/').unwrap();
        PostgresSettings { database_url: format!("{server}/theirs") }
    };
    let owner = databases::postgres(&at(database.as_user("owner"))).unwrap();
    databases::migrate_postgres(&owner).await.unwrap();
    let gateway = databases::postgres(&at(database.admin.signed_in_as(Role::Gateway).unwrap())).unwrap();
    sqlx::query("SELECT lo_create(0)").execute(&gateway).await.expect("PostgreSQL permits this by default");
    let statement = roles::statement_for_administrator(&owner).await.unwrap().expect("the statement for an administrator");
    let admin = databases::postgres(&at(database.admin.clone())).unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&admin).await.unwrap();
    for statement in LARGE_OBJECTS {
        refusal(&gateway, statement).await;
    }
    assert_eq!(roles::statement_for_administrator(&owner).await.unwrap(), None);
}

/// PostgreSQL can't forbid this, as docs/operating.md explains. If a version can, this test fails and the sentence there can be
/// removed.
#[tokio::test(flavor = "multi_thread")]
async fn services_can_change_only_their_own_password() {
    let database = Database::migrated().await;
    let gateway = database.signed_in_as(Role::Gateway);
    sqlx::raw_sql("ALTER ROLE CURRENT_USER PASSWORD 'mine'").execute(&gateway).await.unwrap();
    for other in Role::ALL.into_iter().filter(|role| *role != Role::Gateway) {
        refusal(&gateway, &format!("ALTER ROLE {} PASSWORD 'mine'", other.name())).await;
    }
}

/// Two crates derive the same passwords without depending on each other.
#[test]
fn a17_derives_the_passwords_of_local_servers() {
    let root = local::Password::generate().unwrap();
    let administrator = format!("postgres://telemetry:{}@127.0.0.1:5432/telemetry", root.reveal());
    let owner = format!("postgres://telemetry_owner:{}@127.0.0.1:5432/telemetry", root.for_owner().reveal());
    for role in Role::ALL {
        let own = format!("postgres://{}:{}@127.0.0.1:5432/telemetry", role.name(), root.for_service(role.name()).reveal());
        for database_url in [&administrator, &owner] {
            let settings = PostgresSettings { database_url: database_url.clone() };
            assert_eq!(settings.signed_in_as(role).unwrap().database_url, own);
        }
    }
}
