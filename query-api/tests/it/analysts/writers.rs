//! Accounts can't stop or delay the writer (docs/operating/writer.md).

use super::{Analyst, DAY_MS, PASSWORD, guarded};
use crate::test_app::fetch_on;
use service_kit::testing::{client, eventually};
use std::time::Duration;

/// Runs until the server's time limit.
const ENDLESS: &str = "SELECT sum(cityHash64(a.number, b.number)) FROM numbers(1000000000) AS a CROSS JOIN numbers(1000) AS b";

impl Analyst {
    /// Starts a statement with this query id. It ends when the task is aborted.
    fn start(&self, query_id: &str) -> tokio::task::JoinHandle<()> {
        let asked = client().post(format!("{}/?query_id={query_id}", self.url)).basic_auth(&self.login, Some(PASSWORD));
        let asked = asked.body(ENDLESS).timeout(Duration::from_secs(60)).send();
        tokio::spawn(async move { drop(asked.await) })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn busy_accounts_do_not_delay_the_writer() {
    let (world, analyst, _) = guarded().await;
    let event = |key| fetch_on("a.test", key).after(2 * DAY_MS);
    world.app.insert(&[event(1)]).await;
    let slots: Vec<String> = world.app.clickhouse().query("SELECT slot FROM writers").fetch_all().await.unwrap();
    assert!(slots.iter().all(|slot| slot.len() >= 32), "query ids of writers are too short: {slots:?}");

    // Names of writers and their tasks, and the fixed query id of the first epoch.
    let names: Vec<String> =
        world.app.clickhouse().query("SELECT writer FROM writers WHERE epoch > 0").fetch_all().await.unwrap();
    let names = names.iter().map(String::as_str).take(1).chain(["compact-telemetry", "content-telemetry-first-epoch", "1"]);
    let running: Vec<_> = names.map(|name| analyst.start(name)).collect();
    let count = "SELECT count() FROM system.processes WHERE user = ?";
    eventually("four statements run", async || {
        let running: u64 = world.app.clickhouse().query(count).bind(&analyst.login).fetch_one().await.unwrap();
        (running == 4).then_some(())
    })
    .await;
    let said = analyst.refusal("", "SELECT 1").await;
    assert!(said.contains("TOO_MANY_SIMULTANEOUS_QUERIES"), "{said}");

    // Inserts a block, replaces the writer, and inserts another block.
    world.app.insert(&[event(2)]).await;
    world.app.restart_writer().await;
    world.app.insert(&[event(3)]).await;
    let still: u64 = world.app.clickhouse().query(count).bind(&analyst.login).fetch_one().await.unwrap();
    assert_eq!(still, 4, "the statements are still running");
    running.iter().for_each(tokio::task::JoinHandle::abort);
    eventually("the account's own events are complete", async || {
        let (status, text) = analyst.ask_with("", "SELECT count() FROM events").await;
        (status.is_success() && text == "3\n").then_some(())
    })
    .await;
}
