//! Restores both databases after a total loss: PostgreSQL from a backup or dump and ClickHouse from the log, as
//! `docs/operating.md` describes. Every read returns the same bytes as before.

use crate::backup_hooks::WebhookBackup;
use crate::clicks_away::on_own_postgres;
use crate::pipeline::Pipeline;
use schemas::identity::OrgType;
use serde_json::{Value, json};
use service_kit::databases;
use service_kit::testing::{Seed, eventually};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::process::Command;

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success(), "{} was not copied", from.display());
}

/// Makes a base backup with the server's own functions: the data files, then the WAL up to the end, then the label.
async fn back_up(url: &str, data: &Path, backup: &Path) {
    let mut session = PgConnection::connect(url).await.unwrap();
    let keep = "SELECT pg_create_physical_replication_slot('nightly', true)";
    sqlx::query(keep).execute(&mut session).await.unwrap();
    sqlx::query("SELECT pg_backup_start('nightly', true)").execute(&mut session).await.unwrap();
    copy(data, backup);
    // Simulate a long backup on a busy server, which would recycle the first WAL segments without the replication slot.
    for _ in 0..3 {
        sqlx::query("CREATE TEMPORARY TABLE IF NOT EXISTS busy AS SELECT 1").execute(&mut session).await.unwrap();
        sqlx::query("SELECT pg_switch_wal()").execute(&mut session).await.unwrap();
        sqlx::query("CHECKPOINT").execute(&mut session).await.unwrap();
    }
    let stop = "SELECT labelfile FROM pg_backup_stop(false)";
    let label: String = sqlx::query_scalar(stop).fetch_one(&mut session).await.unwrap();
    std::fs::remove_dir_all(backup.join("pg_wal")).unwrap();
    copy(&data.join("pg_wal"), &backup.join("pg_wal"));
    sqlx::query("SELECT pg_drop_replication_slot('nightly')").execute(&mut session).await.unwrap();
    for left in ["postmaster.pid", "postmaster.opts"] {
        std::fs::remove_file(backup.join(left)).unwrap();
    }
    let _ = std::fs::remove_dir_all(backup.join("pg_replslot/nightly"));
    let place = backup.join("backup_label");
    std::fs::write(&place, label).unwrap();
    // The server renames the file after the recovery, so it must own it.
    let owner = std::fs::metadata(data).unwrap();
    chown(&place, Some(owner.uid()), Some(owner.gid())).unwrap();
}

/// Responses from before the loss.
struct StateBeforeLoss {
    agent: String,
    reads: Vec<(String, String, String)>,
    hooks: WebhookBackup,
}

impl StateBeforeLoss {
    /// Creates an owner, an agent with a session and a partner with a delegation, reports twenty events and stores what each of
    /// them reads.
    async fn create(pipeline: &Pipeline) -> Self {
        let orgs = Seed(&pipeline.stores.pool);
        let owner = orgs.owner_of("example.com").await;
        let (agent, network) = (orgs.org("agent", OrgType::Agent).await, orgs.org("network", OrgType::Platform).await);
        orgs.delegate(owner.id, network.id).await;
        let session = "00000000-0000-0000-0000-000000000007";
        // Consent, the click token and the webhook exist only in PostgreSQL.
        let agree = "UPDATE organizations SET share_sessions_via_click_tokens = true, visible_in_click_token_lookups = true";
        sqlx::query(agree).execute(&pipeline.stores.pool).await.unwrap();
        let empty = json!({"session_id": session, "agent_id": "bot", "events": []});
        pipeline.post("/sessions/bulk", &agent.key, &empty).await;
        for number in 0..20 {
            pipeline.post("/events", &agent.key, &json!({"events": [event(number, session)]})).await;
        }
        let link = json!({"session_id": session, "content_url": "https://www.example.com/page-1"});
        let token = pipeline.post("/click-tokens", &agent.key, &link).await.body["token"].as_str().unwrap().to_owned();
        pipeline.run_worker_until_idle().await;
        let hooks = WebhookBackup::create_for(pipeline, owner.id).await;
        let mut reads = Vec::new();
        for (key, path) in [
            (&owner.key, "/content-owners/summary".to_owned()),
            (&owner.key, "/content-owners/events?limit=1000".to_owned()),
            (&network.key, format!("/content-owners/urls?delegated_from={}", owner.id)),
            (&owner.key, "/content-owners/corroboration".to_owned()),
            (&owner.key, "/content-owners/funnel".to_owned()),
            (&agent.key, format!("/sessions/{session}/document")),
            (&agent.key, "/agent/events?limit=1000".to_owned()),
            (&network.key, format!("/ctx/{token}")),
            (&network.key, "/resolve?url=https://www.example.com/page-1".to_owned()),
        ] {
            let read = pipeline.read(key, &path).await;
            reads.push((key.clone(), path, read));
        }
        Self { agent: agent.key, reads, hooks }
    }

    /// Rebuilds ClickHouse from the log, then checks that every read returns the same bytes and that new reports are accepted.
    async fn is_back_after_a_rebuild(&self, pipeline: &Pipeline) {
        let (code, _, stderr) = pipeline.command(&["rebuild"]).await;
        assert_eq!(code, Some(0), "{stderr}");
        // Reads recover from closed connections without a restart.
        eventually("PostgreSQL is available again", || async {
            let answers = sqlx::query("SELECT 1").execute(&pipeline.stores.pool).await;
            answers.ok().map(drop)
        })
        .await;
        for (key, path, before) in &self.reads {
            let now = eventually("the read succeeds", || async { pipeline.try_read(key, path).await }).await;
            assert!(now == *before, "{path} differs:\n{now}\n{before}");
        }
        self.hooks.are_back(pipeline).await;
        let session = "00000000-0000-0000-0000-000000000007";
        pipeline.post("/events", &self.agent, &json!({"events": [event(20, session)]})).await;
    }
}

fn event(number: u32, session: &str) -> Value {
    json!({"id": format!("e{number}"), "type": "content_cited", "timestamp": "2026-11-01T10:00:00Z",
        "content_url": format!("https://www.example.com/page-{}", number % 5), "session_id": session,
        "data": {"citation_type": "paraphrase", "excerpt_tokens": number}})
}

async fn lose_clickhouse(pipeline: &Pipeline) {
    let gone = format!("DROP DATABASE {} SYNC", pipeline.stores.clickhouse.clickhouse_database);
    pipeline.clickhouse(&gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_are_equal_after_restoring_backup_and_log() {
    let folder = tempfile::tempdir().unwrap();
    let (pipeline, mut database) = on_own_postgres(folder.path()).await;
    let before = StateBeforeLoss::create(&pipeline).await;
    let (data, backup) = (database.data().to_owned(), folder.path().join("backup"));
    back_up(&database.url(), &data, &backup).await;

    database.kill_9();
    std::fs::remove_dir_all(&data).unwrap();
    lose_clickhouse(&pipeline).await;
    copy(&backup, &data);
    let restarted = tokio::task::spawn_blocking(move || database.restart().map(|()| database));
    let _database = restarted.await.unwrap().unwrap();
    before.is_back_after_a_rebuild(&pipeline).await;
}

/// Runs one of PostgreSQL's own tools.
fn postgres_tool(program: &Path, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{} {}: {said}", program.display(), arguments.join(" "));
}

/// Drops and recreates the database.
async fn make_anew(url: &str) {
    let options: PgConnectOptions = url.parse().unwrap();
    let name = options.get_database().unwrap().to_owned();
    let mut session = PgConnection::connect_with(&options.database("template1")).await.unwrap();
    for statement in [format!("DROP DATABASE {name} WITH (FORCE)"), format!("CREATE DATABASE {name} TEMPLATE template0")] {
        sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&mut session).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_are_equal_after_restoring_dump_and_log() {
    let [pg_dump, pg_restore] = tokio::task::spawn_blocking(local::test_programs::postgres_tools).await.unwrap().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (pipeline, database) = on_own_postgres(folder.path()).await;
    let before = StateBeforeLoss::create(&pipeline).await;
    let (url, dump) = (database.url(), folder.path().join("telemetry.dump"));
    let dump = dump.to_str().unwrap();
    postgres_tool(&pg_dump, &["--format=custom", &format!("--file={dump}"), &url]);

    make_anew(&url).await;
    lose_clickhouse(&pipeline).await;
    let into = format!("--dbname={url}");
    postgres_tool(&pg_restore, &["--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges", &into, dump]);
    databases::migrate_postgres(&pipeline.stores.pool).await.unwrap();
    before.is_back_after_a_rebuild(&pipeline).await;
}
