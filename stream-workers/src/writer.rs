//! The writer: merges the log into one row per event (docs/adr/0014-one-row-per-event.md).
//!
//! One writer per ClickHouse server is active. The others wait until it stops, which they notice in `progress`.

mod block;
mod caution;
mod duplicates;
mod epoch;
mod gather;
mod hot_rows;
mod loader;
mod new_report;
mod progress;
mod retention;
mod self_test;
mod server;
mod source;
mod state;
mod takeover;

use crate::Settings;
use crate::consume::{Block, Lag};
use crate::dead_letters::RejectedTopic;
use crate::metrics;
use crate::resolve::Resolver;
use crate::worker::session_writer::SessionWriter;
pub use loader::EventLoader;
pub(crate) use server::Ended;
use server::Server;
use service_kit::clock::Clock;
use service_kit::stores;
use source::Source;
use state::State;
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Heartbeats of the active writer within the silence after which a standby takes over.
const HEARTBEATS: u32 = 4;
/// How often a standby reads `progress` within that time.
const LOOKS: u32 = 8;
/// Each claim after the newest row of `progress` doubles that, at most this many times: a new writer needs time to wait for its
/// predecessor and to read the index.
const MAX_DOUBLINGS: u32 = 3;

/// Runs a writer until `stop`: first as a standby, then active. A writer that is fenced discards its state and becomes a standby.
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
            // There has never been a writer.
            Ok((0, _)) => return,
            Ok(head) => Some(seen.filter(|(known, _)| *known == head).unwrap_or_else(|| (head, Instant::now()))),
            Err(error) => {
                tracing::warn!("failed to read the progress of the writer: {error:#}");
                None
            }
        };
        if let Some(((epoch, beat), since)) = seen {
            let claims = u32::try_from(epoch.saturating_sub(epoch::epoch_of(beat))).unwrap_or(u32::MAX).min(MAX_DOUBLINGS);
            if since.elapsed() >= silence * 2_u32.pow(claims) {
                return;
            }
        }
        tokio::time::sleep(silence / LOOKS).await;
    }
}

async fn work(settings: &Settings, server: &Server, state: State) -> Result<Infallible, Ended> {
    let source = Source::connect(settings, state.progress.next())?;
    let lag = source.lag();
    metrics::writer_is_active(true);
    tokio::select! {
        ended = Work::connect(settings, server, state, source)?.run() => ended,
        () = report_lag(&lag) => unreachable!("it has no end"),
        () = duplicates::check_daily(server) => unreachable!("it has no end"),
        () = retention::apply_hourly(server, settings.keep.events_keep, &Clock::System) => unreachable!("it has no end"),
    }
}

/// What an active writer works with.
struct Work<'a> {
    server: &'a Server,
    topic: &'a str,
    beat_every: Duration,
    state: State,
    source: Source,
    sessions: SessionWriter,
    resolver: Resolver,
    rejected: RejectedTopic,
}

impl<'a> Work<'a> {
    fn connect(settings: &'a Settings, server: &'a Server, state: State, source: Source) -> anyhow::Result<Self> {
        let pool = stores::postgres(&settings.postgres)?;
        Ok(Self {
            server,
            topic: &settings.kafka.topic,
            beat_every: settings.tuning.takeover_after() / HEARTBEATS,
            state,
            source,
            sessions: SessionWriter::new(pool.clone(), Clock::System),
            resolver: Resolver::on(pool),
            rejected: RejectedTopic::connect(&settings.kafka)?,
        })
    }

    async fn run(mut self) -> Result<Infallible, Ended> {
        loop {
            let read = tokio::time::timeout(self.beat_every, self.source.block(&mut self.state, self.server)).await;
            match read {
                Ok(block) => self.store(block?).await?,
                Err(_) => self.state.beat(self.server, self.topic).await?,
            }
        }
    }

    async fn store(&mut self, mut block: Block) -> Result<(), Ended> {
        let sessions = block.take_unwritten_sessions();
        let prepare = async {
            self.sessions.write(&sessions).await;
            self.resolver.resolve(&mut block).await;
            self.rejected.send_all(&block.dead_letters).await;
        };
        tokio::select! {
            () = prepare => {}
            // PostgreSQL may be away for long, and a standby couldn't do better.
            ended = keep_beating(self.server, (self.topic, self.beat_every), &mut self.state) => match ended? {},
        }
        block::write(block, (&mut self.state, self.server, self.topic)).await?;
        metrics::index_size(self.state.index.len(), self.state.index.bytes());
        self.source.commit(&self.state.progress.next());
        Ok(())
    }
}

async fn report_lag(lag: &Lag) {
    let mut second = tokio::time::interval(Duration::from_secs(1));
    loop {
        second.tick().await;
        metrics::writer_lag(lag.at(Clock::System.now().timestamp_millis()));
    }
}

/// Inserts heartbeats, so that no standby takes over meanwhile.
async fn keep_beating(server: &Server, (topic, every): (&str, Duration), state: &mut State) -> Result<Infallible, Ended> {
    loop {
        tokio::time::sleep(every).await;
        state.beat(server, topic).await?;
    }
}

/// Host name of this machine, for the table `writers`.
fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").map_or_else(|_| "unknown host".to_owned(), |name| name.trim().to_owned())
}
