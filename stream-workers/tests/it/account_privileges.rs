//! A9: in production, a worker rejects accounts with too many privileges, even if it finds out only after startup.

use crate::clicks_without_postgres::with_own_postgres;
use crate::test_app::settings;
use clap::ValueEnum as _;
use local::test_servers::ClickHouse;
use service_kit::databases;
use service_kit::roles::Role;
use service_kit::settings::{ClickHouseSettings, LogFormat, ProcessSettings, Profile};
use service_kit::testing::{TestStores, client, eventually, free_address};
use std::path::Path;
use stream_workers::{Settings, run};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_util::sync::CancellationToken;

/// A worker with the production profile and a test's other settings, with one broker.
struct Running {
    url: String,
    stop: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Running {
    /// Starts a worker, and waits until it responds or exits.
    async fn start(settings: Settings) -> Self {
        let process = ProcessSettings {
            listen: free_address(),
            metrics_listen: free_address(),
            log: "info".to_owned(),
            log_format: LogFormat::from_str("json", true).unwrap(),
            profile: Profile::Production,
        };
        let (url, stop) = (format!("http://{}/health", process.listen), CancellationToken::new());
        let stopped = stop.clone();
        let task = tokio::spawn(async move { run(&process, &settings, stopped).await });
        let running = Self { url, stop, task };
        eventually("the worker responds", || async { (running.task.is_finished() || running.is_up().await).then_some(()) }).await;
        running
    }

    async fn is_up(&self) -> bool {
        client().get(&self.url).send().await.is_ok_and(|answer| answer.status() == 200)
    }

    async fn refusal(self) -> String {
        self.task.await.unwrap().expect_err("the worker rejects such an account").to_string()
    }
}

/// Starts a ClickHouse with a deployment's accounts, and returns settings for the worker's account. Other tests' account has more rights:
/// it can access every table in a test's database.
async fn clickhouse_of_production(folder: &Path) -> (ClickHouse, ClickHouseSettings) {
    let users = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas/clickhouse/accounts.xml");
    let at = folder.to_owned();
    let environment = [("CLICKHOUSE_WORKER_PASSWORD", "sesame"), ("CLICKHOUSE_QUERY_PASSWORD", "sesame")];
    let server = spawn_blocking(move || ClickHouse::with_users(&at, &users, &environment)).await.unwrap().unwrap();
    databases::apply_clickhouse_ddl(&ClickHouseSettings::at(server.url(), "telemetry")).await.unwrap();
    let url = server.url().replacen("http://", &format!("http://{}:sesame@", Role::Worker.name()), 1);
    (server, ClickHouseSettings::at(url, "telemetry"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a9_exits_if_its_account_has_excess_privileges() {
    let (folder, fresh) = (tempfile::tempdir().unwrap(), TestStores::fresh().await);
    let (fresh, mut server) = with_own_postgres(folder.path(), fresh).await;
    let postgres = fresh.postgres.clone();
    server.kill_9();

    let (_clickhouse, clickhouse) = clickhouse_of_production(folder.path()).await;
    let of_worker = Settings { clickhouse, ..settings(&fresh) };
    let good = postgres.signed_in_as(Role::Worker).unwrap();
    let good = Running::start(Settings { postgres: good, ..of_worker.clone() }).await;
    let bad = Running::start(Settings { postgres, ..of_worker }).await;
    assert!(good.is_up().await && bad.is_up().await, "a worker starts without PostgreSQL");
    let mut server = spawn_blocking(move || server.restart().map(|()| server)).await.unwrap().unwrap();
    let said = bad.refusal().await;
    assert!(said.starts_with("DATABASE_URL=127.0.0.1:") && said.lines().count() == 1, "{said}");
    assert!(said.contains("production can't use the account telemetry, which has server-wide privileges;"), "{said}");
    assert!(good.is_up().await, "a worker with its own account continues");
    good.stop.cancel();
    good.task.await.unwrap().unwrap();
    server.kill_9();
}

#[tokio::test(flavor = "multi_thread")]
async fn a9_rejects_clickhouse_accounts_that_create_tables() {
    let fresh = TestStores::fresh().await;
    let bad = Running::start(settings(&fresh)).await;
    let said = bad.refusal().await;
    assert!(said.starts_with("CLICKHOUSE_URL=127.0.0.1:") && said.contains("connect as telemetry_worker"), "{said}");
}
