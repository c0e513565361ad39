//! Connections to every store over TLS: real servers with a test authority's certificates, which clients trust only if its file is
//! configured.

use local::test_servers::{ClickHouse, Kafka, Postgres, ScramListener};
use service_kit::settings::kafka_security::{KafkaSecurity, Protocol};
use service_kit::settings::{ClickHouseSettings, KafkaSettings, PostgresSettings, SecretSetting};
use service_kit::testing::{TestAuthority, eventually};
use service_kit::{databases, kafka};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

const HERE: &[&str] = &["127.0.0.1", "localhost"];

fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// Returns an authority, its file, and the file of another one.
fn authorities(folder: &TempDir) -> (TestAuthority, PathBuf, PathBuf) {
    let own = TestAuthority::new();
    let (ca, foreign) = (file(folder.path(), "ca.pem", &own.pem), file(folder.path(), "b.pem", &TestAuthority::new().pem));
    (own, ca, foreign)
}

#[tokio::test(flavor = "multi_thread")]
async fn kafka_requires_tls_password_and_authority() {
    let folder = tempfile::tempdir().unwrap();
    let (own, ca, foreign) = authorities(&folder);
    let (certificate, key) = own.pem_for(HERE);
    let keystore = file(folder.path(), "keystore.pem", &format!("{key}{certificate}"));
    let at = folder.path().to_owned();
    let start = move || Kafka::with_scram_listener(&at, ScramListener::new(keystore, "telemetry", "correct horse")).unwrap();
    let broker = tokio::task::spawn_blocking(start).await.unwrap();
    let settings = |ca: &Path, password: &str| KafkaSettings {
        security: KafkaSecurity {
            kafka_security: Protocol::SaslSsl,
            kafka_ca: Some(ca.to_owned()),
            kafka_user: Some("telemetry".to_owned()),
            kafka_password: Some(SecretSetting::from(password.to_owned())),
            ..KafkaSecurity::default()
        },
        ..KafkaSettings::at(broker.scram_address())
    };
    let good = settings(&ca, "correct horse");
    kafka::create_topics(&good).await.unwrap();
    kafka::check_topics(&good).await.unwrap();

    let open = KafkaSettings::at(broker.scram_address());
    // Run them concurrently, because each waits for brokers as long as a starting service does.
    let refused = [settings(&foreign, "correct horse"), settings(&ca, "battery staple"), open];
    let asked = refused.map(|bad| tokio::spawn(async move { kafka::check_topics(&bad).await }));
    for answer in asked {
        let said = format!("{:#}", answer.await.unwrap().unwrap_err());
        assert!(said.starts_with("KAFKA_BROKERS=") && !said.contains("battery staple"), "{said}");
    }
    // Check production's requirements on a real topic too: a single broker keeps only one copy.
    let mut production = good;
    production.harden().unwrap();
    let said = kafka::check_topics(&production).await.unwrap_err().to_string();
    assert!(said.starts_with("topic telemetry.v1: 1 of the 3 copies that production requires; "), "{said}");
    let said = kafka::create_topics(&production).await.unwrap_err().to_string();
    assert!(said.contains("1 broker(s), but production requires 3 copies"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn postgresql_requires_the_configured_authority() {
    let folder = tempfile::tempdir().unwrap();
    let (own, ca, foreign) = authorities(&folder);
    let (certificate, key) = own.pem_for(HERE);
    let at = folder.path().to_owned();
    let server = tokio::task::spawn_blocking(move || Postgres::start(&at).unwrap()).await.unwrap();
    let pool = databases::postgres(&PostgresSettings { database_url: server.url() }).unwrap();
    // The server must own these files, so it writes them itself.
    for (name, text) in [("server.crt", certificate), ("server.key", key)] {
        let put = format!("COPY (SELECT $pem${text}$pem$) TO PROGRAM 'umask 077; sed ''s/\\\\n/\\n/g'' > {name}'");
        sqlx::raw_sql(sqlx::AssertSqlSafe(put)).execute(&pool).await.unwrap();
    }
    sqlx::raw_sql("ALTER SYSTEM SET ssl = on").execute(&pool).await.unwrap();
    sqlx::raw_sql("SELECT pg_reload_conf()").execute(&pool).await.unwrap();
    let with = |ca: &Path| PostgresSettings {
        database_url: format!("{}?sslmode=verify-full&sslrootcert={}", server.url(), ca.display()),
    };
    let good = with(&ca);
    good.harden().unwrap();
    let encrypted = || async {
        let pool = databases::postgres(&good).unwrap();
        let question = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        sqlx::query_scalar::<_, bool>(question).fetch_one(&pool).await.ok()
    };
    assert!(eventually("the server speaks TLS", encrypted).await);
    databases::migrate_postgres(&databases::postgres(&good).unwrap()).await.unwrap();
    databases::check_postgres(&databases::postgres(&good).unwrap()).await.unwrap();
    let said = databases::check_postgres(&databases::postgres(&with(&foreign)).unwrap()).await.unwrap_err().to_string();
    assert!(said.starts_with("DATABASE_URL=127.0.0.1:"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clickhouse_requires_the_configured_authority() {
    let folder = tempfile::tempdir().unwrap();
    let (own, ca, foreign) = authorities(&folder);
    let at = folder.path().to_owned();
    let server = tokio::task::spawn_blocking(move || ClickHouse::start(&at).unwrap()).await.unwrap();
    let inside = server.url().trim_start_matches("http://").trim_end_matches('/').to_owned();
    // `clickhouse local` doesn't support TLS, so terminate TLS in front of it, like a load balancer.
    let (acceptor, listener) = (TlsAcceptor::from(own.server_for(HERE)), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, inside) = (acceptor.clone(), inside.clone());
            tokio::spawn(async move {
                let mut outer = acceptor.accept(stream).await.ok()?;
                let mut inner = TcpStream::connect(inside).await.ok()?;
                tokio::io::copy_bidirectional(&mut outer, &mut inner).await.ok()
            });
        }
    });
    let with = |ca: Option<&Path>| ClickHouseSettings {
        clickhouse_ca: ca.map(Path::to_owned),
        ..ClickHouseSettings::at(&url, "telemetry")
    };
    with(Some(&ca)).harden().unwrap();
    databases::apply_clickhouse_ddl(&with(Some(&ca))).await.unwrap();
    databases::check_clickhouse(&with(Some(&ca))).await.unwrap();
    for stranger in [None, Some(foreign.as_path())] {
        let said = databases::check_clickhouse(&with(stranger)).await.unwrap_err().to_string();
        assert!(said.starts_with("CLICKHOUSE_URL=127.0.0.1:"), "{said}");
    }
    let absent = databases::check_clickhouse(&with(Some(Path::new("/nowhere.pem")))).await.unwrap_err();
    assert!(format!("{absent:#}").starts_with("TELEMETRY_CLICKHOUSE_CA=/nowhere.pem: "), "{absent:#}");
}
