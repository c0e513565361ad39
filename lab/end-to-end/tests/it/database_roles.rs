//! S16 and A9 in running processes: each service uses its own database role, and in production rejects more powerful ones.

use crate::demo::Demo;
use crate::pipeline::process;
use crate::production::{clean, refusal, set};
use local::test_servers::Postgres;
use service_kit::databases;
use service_kit::roles::Role;
use service_kit::settings::PostgresSettings;
use service_kit::testing::{TestAuthority, eventually};
use std::collections::BTreeSet;
use std::path::Path;

#[tokio::test(flavor = "multi_thread")]
async fn s16_each_service_signs_in_as_its_own_role() {
    let demo = Demo::start().await;
    let only = databases::postgres(&demo.stores.postgres).unwrap();
    let mut mine = only.acquire().await.unwrap();
    demo.stores.pool.close().await;
    let statement = "SELECT DISTINCT usename::text FROM pg_stat_activity \
                     WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
    demo.get(demo.env("OWNER_KEY"), "/content-owners/summary").await;
    demo.get(demo.env("OWNER_KEY"), "/api/v1/identity/api-keys").await;
    let names: Vec<String> = sqlx::query_scalar(statement).fetch_all(&mut *mine).await.unwrap();
    let seen: BTreeSet<String> = names.into_iter().collect();
    let roles: BTreeSet<String> = Role::ALL.into_iter().map(|role| role.name().to_owned()).collect();
    let strangers: Vec<&String> = seen.difference(&roles).collect();
    assert!(strangers.is_empty(), "unexpected roles: {strangers:?}");
    for role in [Role::Gateway, Role::Query, Role::Identity] {
        assert!(seen.contains(role.name()), "{} is not signed in: {seen:?}", role.name());
    }
}

/// Starts a migrated PostgreSQL server with TLS, which production requires.
async fn encrypted(folder: &Path) -> (Postgres, String) {
    let authority = TestAuthority::new();
    let (certificate, key) = authority.pem_for(&["127.0.0.1"]);
    let ca = folder.join("ca.pem");
    std::fs::write(&ca, &authority.pem).unwrap();
    let at = folder.to_owned();
    let server = tokio::task::spawn_blocking(move || Postgres::start(&at).unwrap()).await.unwrap();
    let pool = databases::postgres(&PostgresSettings { database_url: server.url() }).unwrap();
    databases::migrate_postgres(&pool).await.unwrap();
    // The server writes these files itself, because they must belong to it.
    for (name, text) in [("server.crt", certificate), ("server.key", key)] {
        let put = format!("COPY (SELECT $pem${text}$pem$) TO PROGRAM 'umask 077; sed ''s/\\\\n/\\n/g'' > {name}'");
        sqlx::raw_sql(sqlx::AssertSqlSafe(put)).execute(&pool).await.unwrap();
    }
    for statement in [
        "CREATE ROLE heir LOGIN",
        "GRANT CONNECT ON DATABASE telemetry TO heir",
        "ALTER TABLE sessions OWNER TO heir",
        "ALTER SYSTEM SET ssl = on",
        "SELECT pg_reload_conf()",
    ] {
        sqlx::raw_sql(statement).execute(&pool).await.unwrap();
    }
    let url = format!("{}?sslmode=verify-full&sslrootcert={}", server.url(), ca.display());
    eventually("the server speaks TLS", || async {
        let pool = databases::postgres(&PostgresSettings { database_url: url.clone() }).ok()?;
        pool.acquire().await.ok().map(drop)
    })
    .await;
    (server, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn a9_production_rejects_superusers_and_table_owners() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, url) = encrypted(folder.path()).await;
    for (service, arguments, role) in [
        ("ingest-gateway", &[][..], Role::Gateway),
        ("stream-workers", &[], Role::Worker),
        ("stream-workers", &["deliver"], Role::Deliverer),
        ("query-api", &[], Role::Query),
        ("identity-api", &[], Role::Identity),
        ("identity-api", &["admin", "operator", "list"], Role::Identity),
    ] {
        for (user, why) in [("telemetry", "has server-wide privileges"), ("heir", "owns the tables")] {
            let url = url.replacen("//telemetry@", &format!("//{user}@"), 1);
            let line = refusal(service, arguments, &set(clean(), "DATABASE_URL", &url)).await;
            let expected = format!("production can't use the account {user}, which {why}; connect as {}, which", role.name());
            assert!(line.starts_with("DATABASE_URL=127.0.0.1:") && line.contains(&expected), "{service} {arguments:?}: {line}");
        }
        // With its own role, each service complains about the next missing store. The others start without PostgreSQL.
        let url = url.replacen("//telemetry@", &format!("//{}@", role.name()), 1);
        if arguments.contains(&"admin") {
            let mut admin = process(service, arguments, &set(clean(), "DATABASE_URL", &url));
            assert_eq!(admin.exit_code().await, Some(0), "{}", admin.stderr());
        }
        if matches!(role, Role::Worker | Role::Query) {
            let line = refusal(service, arguments, &set(clean(), "DATABASE_URL", &url)).await;
            assert!(line.starts_with("KAFKA_BROKERS=") || line.starts_with("CLICKHOUSE_URL="), "{service} {arguments:?}: {line}");
        }
    }
}
