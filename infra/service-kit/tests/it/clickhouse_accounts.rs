//! What each service may do in ClickHouse: the accounts as they are deployed, on an engine of the test's own.
//!
//! Must use the file as it is, and try what it does not grant.

use local::private::ClickHouse;
use service_kit::roles::Role;
use service_kit::settings::ClickHouseSettings;
use service_kit::stores;
use service_kit::testing::client;
use std::path::Path;

const ACCOUNTS: &str = include_str!("../../../../schemas/clickhouse/accounts.xml");
const PASSWORD: &str = "sesame";

struct Server {
    _server: ClickHouse,
    _folder: tempfile::TempDir,
    url: String,
}

impl Server {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().to_owned();
        let users = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/clickhouse/accounts.xml");
        let environment = [("CLICKHOUSE_WORKER_PASSWORD", PASSWORD), ("CLICKHOUSE_QUERY_PASSWORD", PASSWORD)];
        let started = tokio::task::spawn_blocking(move || ClickHouse::with_users(&at, &users, &environment));
        let server = started.await.unwrap().unwrap();
        let url = server.url();
        stores::apply_clickhouse_ddl(&ClickHouseSettings::at(&url, "telemetry")).await.unwrap();
        Self { _server: server, _folder: folder, url }
    }

    fn settings(&self, role: Role) -> ClickHouseSettings {
        let url = self.url.replacen("http://", &format!("http://{}:{PASSWORD}@", role.name()), 1);
        ClickHouseSettings::at(url, "telemetry")
    }

    /// Whether it was done, and what was said.
    async fn ask(&self, role: Role, settings: &str, statement: &str) -> (bool, String) {
        let url = format!("{}/?database=telemetry&{settings}", self.url);
        let asked = client().post(url).basic_auth(role.name(), Some(PASSWORD)).body(statement.to_owned());
        let answer = asked.send().await.unwrap();
        (answer.status().is_success(), answer.text().await.unwrap())
    }

    async fn does(&self, role: Role, settings: &str, statement: &str) -> String {
        let (done, said) = self.ask(role, settings, statement).await;
        assert!(done, "{} {statement}: {said}", role.name());
        said
    }

    async fn is_refused(&self, role: Role, settings: &str, statement: &str, why: &str) {
        let (done, said) = self.ask(role, settings, statement).await;
        assert!(!done && said.contains(why), "{} {settings} {statement}: {said}", role.name());
    }
}

/// What neither needs.
const FORBIDDEN: [&str; 21] = [
    "CREATE DATABASE mine",
    "CREATE TABLE mine (x UInt8) ENGINE = MergeTree ORDER BY x",
    "CREATE TEMPORARY TABLE mine (x UInt8)",
    "CREATE VIEW mine AS SELECT 1",
    "CREATE USER mine",
    "GRANT SELECT ON *.* TO telemetry_query",
    "ALTER TABLE observations DELETE WHERE 1",
    "ALTER TABLE observations UPDATE data = '' WHERE 1",
    "ALTER TABLE observations ADD COLUMN x UInt8",
    "ALTER TABLE observations MODIFY TTL received_at + toIntervalDay(1)",
    "ALTER TABLE observations DROP PARTITION tuple()",
    "TRUNCATE TABLE observations",
    "OPTIMIZE TABLE observations FINAL",
    "RENAME TABLE observations TO others",
    "DROP TABLE observations",
    "SYSTEM STOP MERGES observations",
    "SYSTEM STOP LISTEN HTTP",
    "SELECT * FROM system.users",
    "SELECT * FROM elsewhere.secrets",
    "SELECT * FROM url('http://127.0.0.1:1/', 'CSV', 'x UInt8')",
    "SELECT * FROM file('/etc/passwd', 'CSV', 'x String')",
];

#[tokio::test(flavor = "multi_thread")]
async fn s16_the_accounts_of_clickhouse_do_what_the_services_do_and_nothing_else() {
    let server = Server::start().await;
    let admin = stores::clickhouse(&ClickHouseSettings::at(&server.url, "telemetry")).unwrap();
    for statement in
        ["CREATE DATABASE elsewhere ENGINE = Atomic", "CREATE TABLE elsewhere.secrets (x UInt8) ENGINE = MergeTree ORDER BY x"]
    {
        admin.query(statement).execute().await.unwrap();
    }
    let row = "INSERT INTO observations (site, event_key) VALUES ('com.example', 1)";
    for role in [Role::Worker, Role::Query] {
        stores::check_clickhouse(&server.settings(role)).await.unwrap();
        for statement in FORBIDDEN {
            let (done, said) = server.ask(role, "", statement).await;
            assert!(!done && (said.contains("ACCESS_DENIED") || said.contains("UNKNOWN")), "{} {statement}: {said}", role.name());
        }
        let columns = "SELECT count() FROM system.columns WHERE database = currentDatabase() AND table = 'observations'";
        assert_ne!(server.does(role, "", columns).await, "0\n");
    }
    let with_token = "async_insert=0&insert_deduplication_token=x";
    server.does(Role::Worker, with_token, row).await;
    assert_eq!(server.does(Role::Worker, "", "SELECT count() FROM observations FINAL").await, "1\n");
    server.is_refused(Role::Query, "", row, "ACCESS_DENIED").await;

    let caps = "readonly=1&max_memory_usage=2147483648&max_result_rows=100000&max_execution_time=120&use_query_condition_cache=0";
    assert_eq!(server.does(Role::Query, caps, "SELECT count() FROM observations FINAL").await, "1\n");
    for past in ["max_memory_usage=0", "max_memory_usage=2147483649", "max_execution_time=0", "max_result_rows=100001"] {
        server.is_refused(Role::Query, past, "SELECT 1", "SETTING_CONSTRAINT_VIOLATION").await;
    }
    let other = client().post(&server.url).basic_auth(Role::Query.name(), Some("telemetry")).body("SELECT 1");
    assert!(!other.send().await.unwrap().status().is_success(), "another password is refused");
}

#[test]
fn the_statements_in_the_documents_grant_what_the_file_grants() {
    let document = include_str!("../../../../docs/operating.md");
    let mut user = "";
    let mut grants = 0;
    for line in ACCOUNTS.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("<telemetry_") {
            user = name.trim_end_matches('>');
        }
        if let Some(grant) = line.strip_prefix("<query>").and_then(|rest| rest.strip_suffix("</query>")) {
            assert!(document.contains(&format!("{grant} TO telemetry_{user};")), "{grant} TO telemetry_{user}");
            grants += 1;
        }
    }
    assert_eq!(grants, 2);
}
