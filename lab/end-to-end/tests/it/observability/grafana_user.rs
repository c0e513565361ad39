//! On a real ClickHouse server, the Grafana account can run the dashboards' queries and nothing else.

use super::dashboards::statements;
use super::file;
use local::test_servers::ClickHouse;
use service_kit::databases;
use service_kit::settings::ClickHouseSettings;
use service_kit::testing::client;

const USER: &str = "grafana";
const PASSWORD: &str = "sesame";

/// Runs a statement as a user. Returns whether it succeeded, and the response.
async fn ask(url: &str, user: &str, password: &str, statement: &str) -> (bool, String) {
    let asked = client().post(format!("{url}/?database=telemetry")).basic_auth(user, Some(password)).body(statement.to_owned());
    let answer = asked.send().await.unwrap();
    (answer.status().is_success(), answer.text().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn grafana_account_is_read_only() {
    let folder = tempfile::tempdir().unwrap();
    let (at, users) = (folder.path().to_owned(), file("infra/observability/clickhouse/grafana-user.xml"));
    let environment = [("CLICKHOUSE_GRAFANA_PASSWORD", PASSWORD)];
    let started = tokio::task::spawn_blocking(move || ClickHouse::with_users(&at, &users, &environment));
    let server = started.await.unwrap().unwrap();
    let url = server.url();
    let settings = ClickHouseSettings::at(&url, "telemetry");
    databases::apply_clickhouse_ddl(&settings).await.unwrap();
    let own = async |statement: &str| {
        let (done, said) = ask(&url, "default", "", statement).await;
        assert!(done, "{statement}: {said}");
        said
    };
    own("CREATE DATABASE elsewhere ENGINE = Atomic").await;
    own("CREATE TABLE elsewhere.secrets (x UInt8) ENGINE = MergeTree ORDER BY x").await;

    let as_grafana = async |statement: &str| ask(&url, USER, PASSWORD, statement).await;
    let statements = statements();
    assert!(statements.len() > 3, "{statements:?}");
    let tables = ["events", "reports", "failed_fetches", "sites"].map(|table| format!("SELECT * FROM {table} FINAL"));
    for statement in statements.iter().chain(&tables) {
        let (done, said) = as_grafana(statement).await;
        assert!(done, "{statement}: {said}");
        // The plugin sets its own limits.
        let (done, said) = as_grafana(&format!("{statement} SETTINGS max_execution_time = 5")).await;
        assert!(done, "{statement}: {said}");
    }
    assert!(!ask(&url, USER, "telemetry", "SELECT 1").await.0, "a wrong password was accepted");

    let before = own("SELECT count(), sum(cityHash64(*)) FROM events").await;
    let tables = "SELECT groupArray((database, name)), sum(cityHash64(create_table_query)) FROM (SELECT * FROM system.tables \
                  WHERE database IN ('telemetry', 'elsewhere') ORDER BY ALL)";
    let made = own(tables).await;
    for statement in [
        "INSERT INTO events (site) VALUES ('com.example')",
        "INSERT INTO FUNCTION file('x.csv') SELECT 1",
        "ALTER TABLE events DELETE WHERE 1",
        "ALTER TABLE events ADD COLUMN x UInt8",
        "DELETE FROM events WHERE 1",
        "TRUNCATE TABLE events",
        "OPTIMIZE TABLE events FINAL",
        "DROP TABLE events",
        "RENAME TABLE events TO others",
        "CREATE TABLE mine (x UInt8) ENGINE = MergeTree ORDER BY x",
        "CREATE DATABASE mine",
        "CREATE USER other",
        "GRANT ALL ON *.* TO grafana",
        "SET readonly = 0",
        "KILL QUERY WHERE 1",
        "SYSTEM STOP MERGES telemetry.events",
        "SYSTEM DROP MARK CACHE",
        "SELECT slot FROM writers",
        "SELECT count() FROM writers WHERE slot < 'a'",
        "SELECT * FROM progress",
        "SELECT * FROM analyst_access",
        "SELECT * FROM elsewhere.secrets",
        "SELECT * FROM url('http://127.0.0.1:1/', CSV, 'x String')",
        "SELECT * FROM file('/etc/passwd', LineAsString)",
        "SELECT * FROM remote('127.0.0.1:1', system.one)",
        "SELECT * FROM postgresql('127.0.0.1:1', 'a', 'b', 'c', 'd')",
    ] {
        let (done, said) = as_grafana(statement).await;
        let is_refused = ["READONLY", "ACCESS_DENIED"].iter().any(|code| said.contains(code));
        assert!(!done && is_refused, "{statement}: {said}");
    }
    is_kept_within_its_limits(&url).await;
    assert_eq!(own("SELECT count(), sum(cityHash64(*)) FROM events").await, before);
    assert_eq!(own(tables).await, made);
}

/// Checks that the account can neither raise its limits nor read about other users or the server.
async fn is_kept_within_its_limits(url: &str) {
    let as_grafana = async |statement: &str| ask(url, USER, PASSWORD, statement).await;
    for limit in [
        "max_execution_time = 3600",
        "max_execution_time = 0",
        "max_memory_usage = 100000000000",
        "max_memory_usage = 0",
        "max_threads = 64",
        "timeout_overflow_mode = 'break'",
        "timeout_before_checking_execution_speed = 1000",
        "max_memory_usage_for_user = 1",
        "readonly = 0",
    ] {
        let (done, said) = as_grafana(&format!("SELECT 1 SETTINGS {limit}")).await;
        let is_refused = ["SETTING_CONSTRAINT_VIOLATION", "READONLY"].iter().any(|code| said.contains(code));
        assert!(!done && is_refused, "{limit}: {said}");
    }
    // Other users' queries, the accounts, and the server's configuration.
    let mut readable = Vec::new();
    for table in ["processes", "users", "grants", "row_policies", "errors", "server_settings", "disks"] {
        let (done, said) = as_grafana(&format!("SELECT * FROM system.{table}")).await;
        if done || !said.contains("ACCESS_DENIED") {
            readable.push((table, said));
        }
    }
    assert!(readable.is_empty(), "{readable:?}");
    let (_, others) = as_grafana("SELECT name FROM system.tables WHERE database = 'elsewhere'").await;
    assert_eq!(others, "", "tables of others are visible");
}
