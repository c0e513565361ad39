//! Tests at every start that the server behaves as the fence requires, because ClickHouse doesn't document this behavior.

use super::epoch::random_slot;
use super::statements::{FENCED, Outcome, SLOT_IN_USE, Server};
use anyhow::{Context as _, ensure};
use std::time::Duration;

/// Takes about 300 ms.
const SLOW: &str = "SELECT sleepEachRow(0.1) FROM numbers(3) SETTINGS max_block_size = 1";
/// Time after which the slow statement is running, or half of a body has arrived.
const PAUSE: Duration = Duration::from_millis(100);
/// More than the server reads by default before it starts a statement.
const LARGE_BODY_BYTES: usize = 2 * 1024 * 1024;
/// Inserts no rows.
const INSERT_NOTHING: &str = "INSERT INTO sites (above, site) SELECT above, site FROM input('above String, site String') WHERE 0 \
                              FORMAT RowBinary\n";

/// A test can fail for another reason if the server is busy or restarts.
const TRIES: u32 = 5;
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Rejects a server on which two writers could write concurrently.
pub(super) async fn run(server: &Server) -> anyhow::Result<()> {
    for _ in 1..TRIES {
        match try_all(server).await {
            Ok(()) => return Ok(()),
            Err(error) => tracing::warn!("self-test failed, retrying: {error:#}"),
        }
        tokio::time::sleep(TRY_AGAIN_AFTER).await;
    }
    try_all(server).await
}

async fn try_all(server: &Server) -> anyhow::Result<()> {
    query_ids_exclude_each_other(server).await?;
    conditions_fail_statements(server).await?;
    bodies_are_read_before_statements_begin(server).await
}

/// Checks that the server rejects a statement while another one with the same query id runs.
async fn query_ids_exclude_each_other(server: &Server) -> anyhow::Result<()> {
    let slot = random_slot();
    let (slow, other) = tokio::join!(server.run(&slot, SLOW, &[], &[]), async {
        tokio::time::sleep(PAUSE).await;
        server.run(&slot, "SELECT 1", &[], &[]).await
    });
    ensure!(slow == Outcome::Done, "CLICKHOUSE_URL: a statement in the writer's self-test failed");
    ensure!(
        other == Outcome::SlotInUse,
        "CLICKHOUSE_URL: this server runs two statements with one query id at the same time, so two writers could write at once"
    );
    Ok(())
}

/// Checks that a failed condition is an error, not an insert of no rows.
async fn conditions_fail_statements(server: &Server) -> anyhow::Result<()> {
    let outcome = server.run(&random_slot(), "SELECT throwIf(1, 'self-test of the writer')", &[], &[]).await;
    ensure!(
        outcome == Outcome::Fenced,
        "CLICKHOUSE_URL: throwIf() doesn't fail with code {FENCED}, so a fenced writer could write"
    );
    Ok(())
}

/// Checks that an insert starts only when its whole body has arrived, so that it sees the current writer.
async fn bodies_are_read_before_statements_begin(server: &Server) -> anyhow::Result<()> {
    let slot = random_slot();
    // Rows of two empty strings.
    let body = [INSERT_NOTHING.as_bytes(), &vec![0; LARGE_BODY_BYTES]].concat();
    let (ask, asked) = tokio::sync::oneshot::channel();
    let half_sent = async {
        let _ = asked.await;
    };
    let (insert, other) = tokio::join!(server.run_in_halves(&slot, body, half_sent), async {
        tokio::time::sleep(PAUSE).await;
        let outcome = server.run(&slot, "SELECT 1", &[], &[]).await;
        let _ = ask.send(());
        outcome
    });
    // The other statement may stay in the process list for a moment after its response.
    if insert.as_ref().is_err_and(|error| error.code() != Some(SLOT_IN_USE)) {
        insert.context("CLICKHOUSE_URL: an insert in the writer's self-test failed")?;
    }
    ensure!(
        other == Outcome::Done,
        "CLICKHOUSE_URL: this server starts an insert before it has read the whole body, so a paused writer could write"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use service_kit::settings::ClickHouseSettings;
    use service_kit::testing::{ClickHouseProxy, ClickHouseRequest, TestStores};

    /// Runs the tests with a proxy that can change their requests.
    async fn error_behind(change: impl Fn(&mut ClickHouseRequest) + Send + Sync + 'static) -> Option<String> {
        let settings = TestStores::fresh().await.clickhouse;
        let proxy = ClickHouseProxy::start_before(&settings.clickhouse_url, change).await;
        let server = Server::connect(&ClickHouseSettings { clickhouse_url: proxy.url().to_owned(), ..settings }).unwrap();
        let tried = query_ids_exclude_each_other(&server).await.and(conditions_fail_statements(&server).await);
        tried.err().map(|error| error.to_string())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn c6_rejects_servers_that_allow_two_writers() {
        run(&Server::connect(&TestStores::fresh().await.clickhouse).unwrap()).await.unwrap();
        assert_eq!(error_behind(|_| {}).await, None);

        let without_ids = error_behind(|request| request.settings.retain(|(name, _)| name != "query_id")).await.unwrap();
        assert!(without_ids.contains("two statements with one query id at the same time"), "{without_ids}");

        let without_errors = error_behind(|request| {
            request.statement = request.statement.replace("throwIf(1, 'self-test of the writer')", "0");
        });
        let without_errors = without_errors.await.unwrap();
        assert!(without_errors.contains("throwIf() doesn't fail"), "{without_errors}");
    }
}
