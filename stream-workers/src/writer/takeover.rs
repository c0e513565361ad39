//! Turns a standby into the writer (docs/adr/0014-one-row-per-event.md).
//!
//! 1. It claims an epoch: an insert into `writers` that fails unless the largest epoch is the one it has read.
//! 2. It waits for each earlier epoch's slot. After that, statements of these epochs are no longer running, and new ones fail.
//! 3. It deletes expired months (`retention`).
//! 4. It reads `progress`, the rows of `reports` that are newer than the last complete block, and the index.
//!
//! After a failed block, a writer takes over from itself, and reads only the rows of `reports` that this block has written.
//!
//! Safety doesn't depend on the time of a takeover.

use super::epoch::{Epoch, epoch_of, random_slot, released};
use super::interrupted_rows::Interrupted;
use super::progress::Progress;
use super::retention;
use super::send_heartbeats;
use super::sites::Sites;
use super::state::State;
use super::statements::{ERROR_PAUSE, Outcome, Server, WriterExit};
use crate::metrics;
use schemas::event_key::EventKey;
use schemas::ids::OrgId;
use std::time::Duration;
use store::key_index::{KeyIndex, KeyPlace};
use store::report::{Acceptance, Home};
use store::row::{ReportPlace, WrittenReport};
use store::row_binary::Decoder;
use tokio::time::Instant;

/// Query id of the statement that creates epoch 0.
const FIRST_EPOCH_SLOT: &str = "content-telemetry-first-epoch";
const CLAIM_PAUSE: Duration = Duration::from_millis(500);
const FIRST_EPOCH_PAUSE: Duration = Duration::from_millis(100);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Claim {
    epoch: u64,
    writer: String,
    slot: String,
    shard: String,
}

/// Claims an epoch. Returns `None` if another writer was faster.
pub(super) async fn claim(server: &Server, writer: &str, topic: &str) -> Result<Option<Epoch>, WriterExit> {
    claim_after(None, server, (writer, topic)).await
}

/// Like [`claim`], but also returns `None` if there is an epoch after the writer's own.
pub(super) async fn claim_after(
    own: Option<&Epoch>,
    server: &Server,
    (writer, topic): (&str, &str),
) -> Result<Option<Epoch>, WriterExit> {
    let mut claims = read_claims(server).await?;
    while claims.is_empty() {
        create_first_epoch(server).await;
        claims = read_claims(server).await?;
    }
    let (zero, newest) = (&claims[0], &claims[claims.len() - 1]);
    let expected = newest.epoch;
    if own.is_some_and(|own| own.number != expected) {
        return Ok(None);
    }
    let stored = Decoder(&server.read_with_retries(include_str!("sql/largest_versions.sql"), &[]).await).u64()?;
    let (epoch, shard) = (expected.max(epoch_of(stored)) + 1, server.shard().to_string());
    refuse_other_shard(&claims, &shard)?;
    let own = Claim { epoch, writer: writer.to_owned(), slot: random_slot(), shard };
    let parameters = [
        ("epoch", own.epoch.to_string()),
        ("writer", own.writer.clone()),
        ("slot", own.slot.clone()),
        ("topic", topic.to_owned()),
        ("shard", own.shard.clone()),
        ("expected", expected.to_string()),
    ];
    loop {
        // An earlier copy of the claim may have succeeded, whatever the outcome.
        server.run(&zero.slot, include_str!("sql/claim.sql"), &parameters, &[]).await;
        let newest = read_claims(server).await?.pop();
        if newest.as_ref() == Some(&own) {
            return Ok(Some(Epoch { number: own.epoch, slot: own.slot }));
        }
        if newest.is_none_or(|newest| newest.epoch != expected) {
            return Ok(None);
        }
        // The server may be overloaded.
        tokio::time::sleep(CLAIM_PAUSE).await;
        server.wait_for_slot(&zero.slot).await;
    }
}

/// Fails if the tables belong to another shard. All epochs after 0 have the same shard.
fn refuse_other_shard(claims: &[Claim], shard: &str) -> anyhow::Result<()> {
    let other = claims.iter().find(|claim| claim.epoch > 0 && claim.shard != shard);
    let Some(Claim { shard: other, .. }) = other else { return Ok(()) };
    anyhow::bail!("TELEMETRY_SHARD={shard}: these tables belong to shard {other}; correct the setting or CLICKHOUSE_URL")
}

/// Creates epoch 0. Its statement has its own query id, so only one copy is evaluated at a time.
async fn create_first_epoch(server: &Server) {
    let slot = [("slot", random_slot())];
    if server.run(FIRST_EPOCH_SLOT, include_str!("sql/first_epoch.sql"), &slot, &[]).await != Outcome::Done {
        tokio::time::sleep(FIRST_EPOCH_PAUSE).await;
    }
}

/// Waits until no earlier epoch's statement is running, deletes the months before the first one to keep, and reads the rest.
pub(super) async fn read_state(
    server: &Server,
    (epoch, first_month): (Epoch, Home),
    (topic, every): (&str, Duration),
) -> Result<State, WriterExit> {
    let begun = Instant::now();
    let head = Progress::read(server, topic).await?;
    let was_released = head.as_ref().is_none_or(|head| head.beat == released(epoch_of(head.beat)));
    // The writer that inserted the newest row of `progress` has waited for all earlier epochs.
    let drained = head.as_ref().map_or(0, |head| epoch_of(head.beat)).max(1);
    let claims = read_claims(server).await?;
    for claim in claims.iter().filter(|claim| (drained..epoch.number).contains(&claim.epoch)) {
        server.wait_for_slot(&claim.slot).await;
    }
    let drained = begun.elapsed();
    let progress = Progress::read(server, topic).await?.unwrap_or_default();
    let mut state = State::new(epoch.clone(), first_month, progress, |last| starts_since(last, &claims));
    let version = state.take_version();
    let read = async {
        retention::delete_before(first_month, (server, &epoch, version)).await?;
        let interrupted = read_interrupted(server, state.progress.complete, topic).await?;
        Ok::<_, WriterExit>((interrupted, read_index(server).await?, read_sites(server).await))
    };
    let (interrupted, index, sites) = tokio::select! {
        rows = read => rows?,
        ended = send_heartbeats(server, (topic, every), &state) => match ended? {},
    };
    if !was_released {
        tracing::info!(
            epoch = epoch.number,
            keys = index.len(),
            interrupted = interrupted.len(),
            drain_ms = drained.as_millis(),
            total_ms = begun.elapsed().as_millis(),
            "took over from a silent writer"
        );
    }
    metrics::took_over(epoch.number, drained, begun.elapsed());
    metrics::index_size(index.len(), index.bytes());
    state.begin(interrupted, index, sites);
    Ok(state)
}

/// Returns how many processes have become the writer after an epoch. A process that took over from itself counts once.
fn starts_since(last: u64, claims: &[Claim]) -> u64 {
    let mut writers: Vec<&str> = claims.iter().filter(|claim| claim.epoch > last).map(|claim| claim.writer.as_str()).collect();
    writers.dedup();
    writers.len() as u64
}

/// Continues in a new epoch of the same writer, after a failed block.
///
/// The index stays valid if the block has left nothing in `events`: no other writer has written since, because the claim would have failed,
/// and the former epoch's statements can no longer arrive.
pub(super) async fn continue_in(
    epoch: Epoch,
    state: &mut State,
    (server, topic, every): (&Server, &str, Duration),
) -> Result<(), WriterExit> {
    let begun = Instant::now();
    server.wait_for_slot(&state.epoch.slot).await;
    let drained = begun.elapsed();
    let since = [("since", state.next_version().to_string())];
    let written = Decoder(&server.read_with_retries(include_str!("sql/written_since.sql"), &since).await).u64()?;
    if written > 0 {
        let (contact, caution) = (state.contact.clone(), std::mem::take(&mut state.caution));
        *state = read_state(server, (epoch, state.first_month), (topic, every)).await?;
        (state.contact, state.caution) = (contact, caution);
        return Ok(());
    }
    let interrupted = read_interrupted(server, state.progress.complete, topic).await?;
    metrics::took_over(epoch.number, drained, begun.elapsed());
    state.continue_in(epoch, interrupted);
    Ok(())
}

async fn read_claims(server: &Server) -> Result<Vec<Claim>, WriterExit> {
    let response = server.read_with_retries(include_str!("sql/epochs.sql"), &[]).await;
    let claims = Decoder(&response)
        .rows(|from| Ok(Claim { epoch: from.u64()?, writer: from.text()?, slot: from.text()?, shard: from.text()? }))?;
    Ok(claims)
}

async fn read_interrupted(server: &Server, complete: u64, topic: &str) -> Result<Vec<Interrupted>, WriterExit> {
    let parameters = [("complete", complete.to_string()), ("topic", topic.to_owned())];
    let response = server.read_with_retries(include_str!("sql/interrupted.sql"), &parameters).await;
    let rows = Decoder(&response).rows(|from| {
        let (home, org, at_ms) = (Home(from.u32()?), OrgId(from.uuid()?), from.i64()?);
        let (identity, received) = (EventKey(from.u128()?), from.u64()?);
        let place = ReportPlace { home, org, at_ms, identity };
        let written = WrittenReport { place, accepted: Acceptance::from_stored(received, identity) };
        let (group_key, site, platform) = (from.u128()?, from.text()?.into_boxed_str(), OrgId(from.uuid()?));
        let (shared_key, issuer) = (Some(EventKey(group_key)).filter(|key| key.0 != 0), Some(platform).filter(|of| *of != org));
        Ok(Interrupted { written, shared_key, site, issuer, origin: (from.i32()?, from.i64()?) })
    })?;
    Ok(rows)
}

async fn read_index(server: &Server) -> Result<KeyIndex, WriterExit> {
    let expected = Decoder(&server.read_with_retries(include_str!("sql/count_keys.sql"), &[]).await).u64()?;
    let (index, rows) = loop {
        let mut rows = 0_u64;
        let mut index = KeyIndex::with_capacity(usize::try_from(expected).unwrap_or_default());
        let read = server.read_rows(include_str!("sql/index.sql"), |from| {
            let (key, home, at_ms) = (EventKey(from.u128()?), Home(from.u32()?), from.i64()?);
            index.insert(key, KeyPlace { home, at_ms });
            rows += 1;
            Ok(())
        });
        match read.await {
            Ok(()) => break (index, rows),
            Err(error) => tracing::error!("failed to read the index, retrying: {error:#}"),
        }
        tokio::time::sleep(ERROR_PAUSE).await;
    };
    if rows != expected {
        return Err(anyhow::anyhow!("the index has {rows} keys, but events has {expected}").into());
    }
    Ok(index)
}

async fn read_sites(server: &Server) -> Sites {
    loop {
        let mut sites = Sites::default();
        let read = server.read_rows(include_str!("sql/sites.sql"), |from| {
            sites.insert(&from.text()?);
            Ok(())
        });
        match read.await {
            Ok(()) => return sites,
            Err(error) => tracing::error!("failed to read the hosts, retrying: {error:#}"),
        }
        tokio::time::sleep(ERROR_PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::join_all;
    use service_kit::testing::{TestStores, eventually};

    const ROUNDS: usize = 5;
    const CLAIMANTS: usize = 6;

    /// Claims run under one query id, so two of them never see the same largest epoch.
    #[tokio::test(flavor = "multi_thread")]
    async fn never_claims_an_epoch_twice() {
        let settings = TestStores::fresh().await.clickhouse;
        let servers: Vec<Server> = (0..CLAIMANTS).map(|_| Server::connect(&settings).unwrap()).collect();
        let mut won = Vec::new();
        for _ in 0..ROUNDS {
            let claims =
                servers.iter().enumerate().map(async |(n, server)| claim(server, &n.to_string(), "a topic").await.unwrap());
            won.extend(join_all(claims).await.into_iter().flatten().map(|epoch| epoch.number));
        }
        let mut epochs: Vec<u64> = read_claims(&servers[0]).await.unwrap().iter().map(|claim| claim.epoch).collect();
        let all = epochs.len();
        epochs.dedup();
        assert_eq!(epochs.len(), all, "an epoch has two rows: {epochs:?}");
        won.sort_unstable();
        assert!(won.len() >= ROUNDS && won.windows(2).all(|pair| pair[0] < pair[1]), "{won:?}");
    }

    #[test]
    fn retaking_its_own_epoch_does_not_count_as_a_start() {
        let claim = |(n, writer): (usize, &str)| Claim {
            epoch: n as u64 + 1,
            writer: writer.to_owned(),
            slot: String::new(),
            shard: String::new(),
        };
        let claims: Vec<Claim> = ["a", "a", "b", "b", "b", "a", "c"].into_iter().enumerate().map(claim).collect();
        assert_eq!([0, 2, 3, 5, 7].map(|last| starts_since(last, &claims)), [4, 3, 3, 2, 0]);
    }

    async fn insert_event(server: &Server, key: u64, epoch: u64) {
        let row = "INSERT INTO events (key, version) SELECT {key:UInt64}, {version:UInt64}";
        let parameters = [("key", key.to_string()), ("version", super::super::epoch::version(epoch, 1).to_string())];
        assert_eq!(server.run(&random_slot(), row, &parameters, &[]).await, Outcome::Done);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn failed_block_without_events_keeps_the_index() {
        const BEATS: (&str, Duration) = ("a topic", Duration::from_secs(60));
        let server = Server::connect(&TestStores::fresh().await.clickhouse).unwrap();
        let epoch = claim(&server, "writer", BEATS.0).await.unwrap().unwrap();
        let mut state = read_state(&server, (epoch, Home(0)), BEATS).await.unwrap();
        // Simulate a key from a complete block.
        state.index.insert(EventKey(1), KeyPlace { home: Home(202_611), at_ms: 0 });
        let next = claim_after(Some(&state.epoch), &server, ("writer", BEATS.0)).await.unwrap().unwrap();
        continue_in(next.clone(), &mut state, (&server, BEATS.0, BEATS.1)).await.unwrap();
        assert_eq!((state.index.len(), &state.epoch), (1, &next));
        // Make part of the next block visible.
        insert_event(&server, 2, next.number).await;
        let last = claim_after(Some(&next), &server, ("writer", BEATS.0)).await.unwrap().unwrap();
        continue_in(last, &mut state, (&server, BEATS.0, BEATS.1)).await.unwrap();
        assert!(state.index.get(EventKey(1)).is_none() && state.index.get(EventKey(2)).is_some());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn replaced_writers_do_not_claim_epochs() {
        let server = Server::connect(&TestStores::fresh().await.clickhouse).unwrap();
        let own = claim(&server, "former", "a topic").await.unwrap().unwrap();
        claim(&server, "successor", "a topic").await.unwrap().unwrap();
        assert_eq!(claim_after(Some(&own), &server, ("former", "a topic")).await.unwrap(), None);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn takeovers_wait_for_earlier_statements() {
        let settings = TestStores::fresh().await.clickhouse;
        let (former, successor) = (Server::connect(&settings).unwrap(), Server::connect(&settings).unwrap());
        let earlier = claim(&former, "former", "a topic").await.unwrap().unwrap();
        let slot = earlier.slot.clone();
        let slow = tokio::spawn(async move {
            former.run(&slot, "SELECT sleepEachRow(1) FROM numbers(3) SETTINGS max_block_size = 1", &[], &[]).await
        });
        let running = "SELECT count() FROM system.processes WHERE query_id = {slot:String} FORMAT RowBinary";
        let count = async || {
            let response = successor.read(running, &[("slot", earlier.slot.clone())]).await.unwrap();
            Decoder(&response).u64().unwrap()
        };
        eventually("the earlier statement runs", || async { (count().await == 1).then_some(()) }).await;
        let epoch = claim(&successor, "successor", "a topic").await.unwrap().unwrap();
        read_state(&successor, (epoch, Home(0)), ("a topic", Duration::from_secs(60))).await.unwrap();
        assert_eq!(count().await, 0, "the earlier statement still runs");
        assert_eq!(slow.await.unwrap(), Outcome::Done);
    }
}
