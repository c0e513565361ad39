//! The services' ClickHouse accounts as deployed, on the test's own server.

use local::test_servers::ClickHouse;
use service_kit::databases;
use service_kit::roles::{self, Role};
use service_kit::settings::ClickHouseSettings;
use service_kit::testing::client;
use std::path::{Path, PathBuf};

const ACCOUNTS: &str = include_str!("../../../schemas/clickhouse/accounts.xml");
const PASSWORD: &str = "sesame";

pub(crate) struct Server {
    _server: ClickHouse,
    _folder: tempfile::TempDir,
    url: String,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas/clickhouse/accounts.xml"), tempfile::tempdir().unwrap())
            .await
    }

    async fn with(users: PathBuf, folder: tempfile::TempDir) -> Self {
        let at = folder.path().to_owned();
        let environment = [("CLICKHOUSE_WORKER_PASSWORD", PASSWORD), ("CLICKHOUSE_QUERY_PASSWORD", PASSWORD)];
        let started = tokio::task::spawn_blocking(move || ClickHouse::with_users(&at, &users, &environment));
        let server = started.await.unwrap().unwrap();
        let url = server.url();
        databases::apply_clickhouse_ddl(&ClickHouseSettings::at(&url, "telemetry")).await.unwrap();
        Self { _server: server, _folder: folder, url }
    }

    pub(crate) fn settings(&self, role: Role) -> ClickHouseSettings {
        self.settings_of(role.name())
    }

    fn settings_of(&self, user: &str) -> ClickHouseSettings {
        let url = self.url.replacen("http://", &format!("http://{user}:{PASSWORD}@"), 1);
        ClickHouseSettings::at(url, "telemetry")
    }

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

const FORBIDDEN: [&str; 29] = [
    "CREATE DATABASE mine",
    "CREATE TABLE mine (x UInt8) ENGINE = MergeTree ORDER BY x",
    "CREATE TEMPORARY TABLE mine (x UInt8)",
    "CREATE VIEW mine AS SELECT 1",
    "CREATE USER mine",
    "GRANT SELECT ON *.* TO telemetry_query",
    "ALTER TABLE sites DELETE WHERE 1",
    "ALTER TABLE sites UPDATE above = '' WHERE 1",
    "ALTER TABLE sites ADD COLUMN x UInt8",
    "ALTER TABLE writers MODIFY TTL at + toIntervalDay(1)",
    "ALTER TABLE sites DROP PARTITION tuple()",
    "TRUNCATE TABLE sites",
    "OPTIMIZE TABLE sites FINAL",
    "RENAME TABLE sites TO others",
    "DROP TABLE sites",
    "SYSTEM STOP MERGES sites",
    "SYSTEM STOP LISTEN HTTP",
    "SELECT * FROM system.users",
    "SELECT * FROM elsewhere.secrets",
    "SELECT * FROM url('http://127.0.0.1:1/', 'CSV', 'x UInt8')",
    "SELECT * FROM file('/etc/passwd', 'CSV', 'x String')",
    "SELECT 1 INTO OUTFILE '/tmp/mine'",
    "SELECT * FROM remote('127.0.0.1', system.one)",
    "SELECT * FROM mysql('127.0.0.1:1', 'd', 't', 'u', 'p')",
    "SELECT * FROM system.processes",
    "SYSTEM FLUSH LOGS",
    "KILL QUERY WHERE 1",
    "BACKUP TABLE sites TO File('/tmp/mine')",
    "CREATE FUNCTION mine AS x -> x",
];

#[tokio::test(flavor = "multi_thread")]
async fn s16_clickhouse_accounts_have_only_needed_privileges() {
    let server = Server::start().await;
    let admin = databases::clickhouse(&ClickHouseSettings::at(&server.url, "telemetry")).unwrap();
    for statement in
        ["CREATE DATABASE elsewhere ENGINE = Atomic", "CREATE TABLE elsewhere.secrets (x UInt8) ENGINE = MergeTree ORDER BY x"]
    {
        admin.query(statement).execute().await.unwrap();
    }
    let row = "INSERT INTO sites (above, site) VALUES ('com.example', 'com.example')";
    for role in [Role::Worker, Role::Query] {
        databases::check_clickhouse(&server.settings(role)).await.unwrap();
        for statement in FORBIDDEN {
            let (done, said) = server.ask(role, "", statement).await;
            let is_denied = ["ACCESS_DENIED", "UNKNOWN", "INTO_OUTFILE_NOT_ALLOWED"].iter().any(|why| said.contains(why));
            assert!(!done && is_denied, "{} {statement}: {said}", role.name());
        }
        let columns = "SELECT count() FROM system.columns WHERE database = currentDatabase() AND table = 'sites'";
        assert_ne!(server.does(role, "", columns).await, "0\n");
    }
    server.does(Role::Worker, "async_insert=0", row).await;
    server.does(Role::Worker, "", include_str!("../../../stream-workers/src/writer/sql/parts.sql")).await;
    let month = "ALTER TABLE events DROP PARTITION 202601";
    server.does(Role::Worker, "", month).await;
    server.is_refused(Role::Query, "", month, "ACCESS_DENIED").await;
    assert_eq!(server.does(Role::Worker, "", "SELECT count() FROM sites FINAL").await, "1\n");
    server.is_refused(Role::Query, "", row, "ACCESS_DENIED").await;
    // With an epoch's query id, anyone could block the writer.
    server.is_refused(Role::Query, "", "SELECT slot FROM writers", "ACCESS_DENIED").await;

    let caps =
        "readonly=1&max_memory_usage=2147483648&max_result_rows=10000000&max_execution_time=120&use_query_condition_cache=0";
    assert_eq!(server.does(Role::Query, caps, "SELECT count() FROM sites FINAL").await, "1\n");
    for past in ["max_memory_usage=0", "max_memory_usage=2147483649", "max_execution_time=0", "max_result_rows=10000001"] {
        server.is_refused(Role::Query, past, "SELECT 1", "SETTING_CONSTRAINT_VIOLATION").await;
    }
    let other = client().post(&server.url).basic_auth(Role::Query.name(), Some("telemetry")).body("SELECT 1");
    assert!(!other.send().await.unwrap().status().is_success(), "a wrong password is rejected");
}

/// The `file` function doesn't require a grant. A server limits it to `user_files_path` for all accounts alike; the `clickhouse local` in
/// this test has no such limit. If a release requires a grant, this test fails and the sentence in docs/operating.md can be removed.
#[tokio::test(flavor = "multi_thread")]
async fn file_function_is_limited_only_by_the_server() {
    let server = Server::start().await;
    for role in [Role::Worker, Role::Query] {
        let manifest = format!("SELECT file('{}/Cargo.toml')", env!("CARGO_MANIFEST_DIR"));
        assert!(server.does(role, "", &manifest).await.contains("service-kit"), "{}", role.name());
        server.is_refused(role, "user_files_path=/", "SELECT 1", "UNKNOWN_SETTING").await;
    }
}

/// Returns a user in the format of `users.d` with these grants; without a list, with every grant except account management.
fn user(name: &str, grants: Option<&[&str]>) -> String {
    let list = |grants: &[&str]| grants.iter().map(|grant| format!("<query>GRANT {grant}</query>")).collect::<String>();
    let grants = grants.map(|grants| format!("<grants>{}</grants>", list(grants))).unwrap_or_default();
    format!(
        "<{name}><password>{PASSWORD}</password><networks><ip>::/0</ip></networks><profile>default</profile>\
         <quota>default</quota>{grants}</{name}>"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a9_production_rejects_privileged_clickhouse_accounts() {
    const READS: &str = "SELECT ON telemetry.sites";
    const WRITES: &str = "SELECT, INSERT ON telemetry.sites";
    let refused: [(&str, Option<&[&str]>, &str); 7] = [
        ("anything", None, ""),
        ("maker", Some(&[READS, "CREATE TABLE ON telemetry.*"]), "CREATE TABLE"),
        ("keeper", Some(&[READS, "CREATE USER ON *.*"]), "CREATE USER"),
        ("changer", Some(&[READS, "ALTER ON telemetry.*"]), "ALTER"),
        ("deleter", Some(&[READS, "ALTER DELETE ON telemetry.sites"]), "ALTER DELETE"),
        ("dropper", Some(&[READS, "DROP TABLE ON telemetry.sites"]), "DROP TABLE"),
        ("emptier", Some(&[READS, "TRUNCATE ON *.*"]), "TRUNCATE"),
    ];
    let own = refused.map(|(name, grants, _)| user(name, grants)).concat() + &user("writer", Some(&[WRITES]));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("accounts.xml");
    std::fs::write(&file, ACCOUNTS.replace("</users>", &format!("{own}</users>"))).unwrap();
    let server = Server::with(file, folder).await;
    let refusal = async |user: &str, role| {
        let judged = roles::reject_excess_clickhouse_privileges(&server.settings_of(user), role).await;
        judged.err().map(|refused| refused.to_string())
    };
    for role in [Role::Worker, Role::Query] {
        assert_eq!(refusal(role.name(), role).await, None);
        for (user, _, what) in refused {
            let said = refusal(user, role).await.unwrap_or_else(|| panic!("{user} must be rejected"));
            let whose = format!(": production can't use the account {user}, which has the privilege {what}");
            let remedy = format!("; connect as {}, which schemas/", role.name());
            assert!(said.starts_with("CLICKHOUSE_URL=127.0.0.1:") && said.contains(&whose) && said.contains(&remedy), "{said}");
            assert!(!said.contains(PASSWORD) && said.lines().count() == 1, "{said}");
        }
    }
    assert_eq!(refusal("writer", Role::Worker).await, None);
    assert!(refusal("writer", Role::Query).await.unwrap().contains("which has the privilege INSERT;"));
    let nobody = roles::reject_excess_clickhouse_privileges(&ClickHouseSettings::at(&server.url, "telemetry"), Role::Query).await;
    assert!(nobody.unwrap_err().to_string().contains("production can't use the account default, which has the privilege "));
    let absent = ClickHouseSettings::at("http://127.0.0.1:1", "telemetry");
    let said = roles::reject_excess_clickhouse_privileges(&absent, Role::Query).await.unwrap_err().to_string();
    assert!(said.starts_with("CLICKHOUSE_URL=127.0.0.1:1: ClickHouse is unavailable"), "{said}");
}

/// ClickHouse writes such names in backquotes.
#[tokio::test(flavor = "multi_thread")]
async fn checks_grants_on_databases_with_quoted_names() {
    const DATABASE: &str = "my-telemetry";
    const READS: &str = "SELECT ON `my-telemetry`.*";
    let accounts: [(&str, &[&str], Option<&str>); 5] = [
        ("deleter", &[READS, "ALTER DELETE ON `my-telemetry`.*"], Some("ALTER DELETE")),
        ("dropper", &[READS, "DROP TABLE ON `my-telemetry`.sites"], Some("DROP TABLE")),
        ("namesake", &[READS, "TRUNCATE ON `my-te`*.*"], Some("TRUNCATE")),
        ("neighbour", &[READS, "DROP TABLE ON `my-tele`.*"], None),
        ("reader", &[READS], None),
    ];
    let own = accounts.map(|(name, grants, _)| user(name, Some(grants))).concat();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("accounts.xml");
    std::fs::write(&file, ACCOUNTS.replace("</users>", &format!("{own}</users>"))).unwrap();
    let server = Server::with(file, folder).await;
    let admin = databases::clickhouse(&ClickHouseSettings::at(&server.url, "telemetry")).unwrap();
    admin.query(&format!("CREATE DATABASE `{DATABASE}`")).execute().await.unwrap();
    for (user, _, what) in accounts {
        let settings = ClickHouseSettings { clickhouse_database: DATABASE.to_owned(), ..server.settings_of(user) };
        let judged =
            roles::reject_excess_clickhouse_privileges(&settings, Role::Query).await.map_err(|refused| refused.to_string());
        match (judged, what) {
            (Ok(()), None) => {}
            (Err(said), Some(what)) => {
                let expected = format!("the account {user}, which has the privilege {what}; connect as telemetry_query,");
                assert!(said.contains(&expected), "{said}");
            }
            (judged, _) => panic!("{user}: {judged:?}"),
        }
    }
}

#[test]
fn documented_grants_match_the_accounts_file() {
    let document = include_str!("../../../docs/operating.md");
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
    assert!(grants > 1 && grants == ACCOUNTS.matches("<query>").count(), "{grants}");
}
