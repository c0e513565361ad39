//! The writer: merges the log into one row per event (docs/adr/0014-one-row-per-event.md).
//!
//! Of all writers of a ClickHouse server one is active. The others wait until it stops, which they see in `progress`.

mod block;
mod caution;
mod gather;
mod hot_rows;
mod loader;
mod new_report;
mod progress;
mod self_test;
mod server;
mod source;
mod state;
mod takeover;

use crate::Settings;
use crate::dead_letters::RejectedTopic;
use crate::metrics;
use crate::resolve::Resolver;
pub use loader::EventLoader;
pub(crate) use server::Ended;
use server::Server;
use source::Source;
use state::State;
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Heartbeats of the active writer within the silence after which a standby takes over.
const HEARTBEATS: u32 = 4;
/// Looks of a standby at `progress` within that time.
const LOOKS: u32 = 8;
/// Each claim after the newest row of `progress` doubles that, up to so many times: whoever has claimed needs time to wait for its
/// predecessor and to read the index.
const MAX_DOUBLINGS: u32 = 3;

/// Writes, or stands by, until `stop`. A writer that is fenced forgets everything and stands by.
///
/// # Errors
///
/// If ClickHouse doesn't behave as the fence requires, or if the tables contradict themselves.
pub async fn write(settings: &Settings, stop: CancellationToken) -> anyhow::Result<()> {
    anyhow::ensure!(!settings.clickhouse.clickhouse_shards.are_several(), "CLICKHOUSE_SHARDS: the writer supports one server");
    let server = Server::connect(&settings.clickhouse)?;
    self_test::run(&server).await?;
    let work = async {
        loop {
            match stand_by_and_write(settings, &server).await {
                Err(Ended::Fenced(epoch)) => tracing::warn!(epoch, "another writer took over, standing by"),
                Err(Ended::Failed(error)) => return error,
                Ok(never) => match never {},
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => Ok(()),
        error = work => Err(error),
    }
}

async fn stand_by_and_write(settings: &Settings, server: &Server) -> Result<Infallible, Ended> {
    let (topic, silence) = (settings.kafka.topic.as_str(), settings.tuning.takeover_after());
    let name = format!("{} pid {}", host_name(), std::process::id());
    loop {
        metrics::writer_is_active(false);
        wait_for_silence(server, topic, silence).await;
        if let Some(epoch) = takeover::claim(server, &name).await? {
            let state = takeover::read_state(server, epoch, (topic, silence / HEARTBEATS)).await?;
            return work(settings, server, state).await;
        }
    }
}

/// Returns when `progress` has been the same for a while, by this process's clock.
async fn wait_for_silence(server: &Server, topic: &str, silence: Duration) {
    let mut seen: Option<((u64, u64), Instant)> = None;
    loop {
        // A standby that can't reach the server knows nothing of the others.
        seen = match takeover::head(server, topic).await {
            // Nobody has ever been active.
            Ok((0, _)) => return,
            Ok(head) => Some(seen.filter(|(known, _)| *known == head).unwrap_or_else(|| (head, Instant::now()))),
            Err(error) => {
                tracing::warn!("failed to read the progress of the writer: {error:#}");
                None
            }
        };
        if let Some(((epoch, beat), since)) = seen {
            let claims = u32::try_from(epoch.saturating_sub(takeover::epoch_of(beat))).unwrap_or(u32::MAX).min(MAX_DOUBLINGS);
            if since.elapsed() >= silence * 2_u32.pow(claims) {
                return;
            }
        }
        tokio::time::sleep(silence / LOOKS).await;
    }
}

async fn work(settings: &Settings, server: &Server, mut state: State) -> Result<Infallible, Ended> {
    let (topic, beat_every) = (settings.kafka.topic.as_str(), settings.tuning.takeover_after() / HEARTBEATS);
    let mut source = Source::connect(settings, state.progress.next.clone())?;
    let (mut resolver, rejected) = (Resolver::connect(&settings.postgres)?, RejectedTopic::connect(&settings.kafka)?);
    metrics::writer_is_active(true);
    loop {
        let Ok(read) = tokio::time::timeout(beat_every, source.block(&mut state, server)).await else {
            state.beat(server, topic).await?;
            continue;
        };
        let (mut block, next) = read?;
        tokio::select! {
            () = resolver.resolve(&mut block) => {}
            // PostgreSQL may be away for long, and a standby couldn't do better.
            ended = keep_beating(server, (topic, beat_every), &mut state) => match ended? {},
        }
        rejected.send_all(&block.dead_letters).await;
        metrics::index_size(state.index.len(), state.index.bytes());
        block::write(block.rows, &next, (&mut state, server, topic)).await?;
        source.commit(&state.progress.next);
    }
}

/// Inserts heartbeats, so that no standby takes over meanwhile.
async fn keep_beating(server: &Server, (topic, every): (&str, Duration), state: &mut State) -> Result<Infallible, Ended> {
    loop {
        tokio::time::sleep(every).await;
        state.beat(server, topic).await?;
    }
}

/// The name of this machine, for people who look at the table `writers`.
fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").map_or_else(|_| "unknown host".to_owned(), |name| name.trim().to_owned())
}
