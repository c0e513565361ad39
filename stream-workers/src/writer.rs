//! The writer: merges the log into one row per event (docs/adr/0014-one-row-per-event.md).
//!
//! One writer per ClickHouse server is active. The others stand by until `progress` shows that it has stopped.

mod batch;
mod store_block;
mod poison_records;
mod kafka_contact;
mod interrupted_rows;
mod culprits;
mod epoch;
mod event_metrics;
mod current_rows;
mod row_cache;
mod event_loader;
mod progress;
pub(crate) mod replay;
mod retention;
mod rows;
mod self_test;
mod statements;
mod sites;
mod log_source;
mod state;
mod takeover;

use crate::Settings;
use crate::consume::partition_stats::PartitionStats;
use crate::consume::{Block, Lag};
use crate::dead_letters::{KnownDeadLetters, RejectedTopic, serve_operators};
use crate::metrics;
use crate::resolve::Resolver;
use crate::resolve::session_writer::SessionWriter;
use batch::Records;
pub use event_loader::EventLoader;
use kafka_contact::KafkaContact;
use log_source::LogSource;
use poison_records::BlockLimits;
use progress::Progress;
use replay::Replays;
use service_kit::clock::Clock;
use service_kit::databases;
use service_kit::settings::ClickHouseSettings;
use state::State;
pub(crate) use statements::WriterExit;
use statements::{FailedBlock, Server};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::LazyLock;
use std::time::Duration;
use store_block::Destination;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Number of heartbeats within the silence after which a standby takes over.
const HEARTBEATS: u32 = 4;
/// Number of times a standby reads `progress` within that silence.
const LOOKS: u32 = 8;
/// Each claim since the newest row of `progress` doubles that silence, at most this many times, because a new writer must wait for its
/// predecessor and read the index.
const MAX_DOUBLINGS: u32 = 3;
/// Time to finish the current block and release the epoch after SIGTERM. The next writer reads an unfinished block again.
const STOP_GRACE: Duration = Duration::from_secs(2);
/// Pause after a failed statement if no record caused the failure.
const FAILURE_PAUSE: Duration = Duration::from_millis(500);

/// Runs a writer until `stop`, first as a standby, then active. A fenced writer discards its state and becomes a standby.
///
/// # Errors
///
/// Fails if ClickHouse doesn't behave as the fence requires, or if the tables are inconsistent.
pub(crate) async fn run_writer(settings: &Settings, stop: CancellationToken) -> anyhow::Result<()> {
    metrics::is_active(false);
    let server = Server::of_shard(&settings.clickhouse, settings.tuning.shard)?;
    self_test::run(&server).await?;
    let (contact, _watching) = KafkaContact::watch(&settings.kafka)?;
    let work = async {
        let (mut narrowing, mut is_standby) = (BlockLimits::default(), true);
        loop {
            let ended = stand_by_and_write(settings, (&server, &contact), (&mut narrowing, is_standby), &stop).await;
            is_standby = !matches!(ended, Err(WriterExit::Block(_) | WriterExit::MonthExpired));
            match ended {
                Err(WriterExit::Fenced(epoch)) => tracing::warn!(epoch, "another writer took over, standing by"),
                // One of the takeover's statements failed.
                Err(WriterExit::Block(failed)) => {
                    tracing::error!("failed to take over, retrying: {}", failed.reason);
                    tokio::time::sleep(FAILURE_PAUSE).await;
                }
                Err(WriterExit::MonthExpired) => {}
                Err(WriterExit::Failed(error)) => return Err(error),
                Err(WriterExit::Stopped) => return Ok(()),
                Ok(never) => match never {},
            }
        }
    };
    tokio::select! {
        ended = work => ended,
        () = async { stop.cancelled().await; tokio::time::sleep(STOP_GRACE).await } => Ok(()),
    }
}

/// Returns the stored progress of each partition of a topic.
pub(crate) async fn progress_of(settings: &ClickHouseSettings, topic: &str) -> anyhow::Result<BTreeMap<i32, PartitionStats>> {
    let progress = Progress::read_once(&Server::connect(settings)?, topic).await?;
    Ok(progress.unwrap_or_default().partitions)
}

async fn stand_by_and_write(
    settings: &Settings,
    (server, contact): (&Server, &KafkaContact),
    (narrowing, mut is_standby): (&mut BlockLimits, bool),
    stop: &CancellationToken,
) -> Result<Infallible, WriterExit> {
    let (topic, silence) = (settings.kafka.topic.as_str(), settings.tuning.takeover_after());
    loop {
        metrics::is_active(false);
        if is_standby {
            stop.run_until_cancelled(wait_for_silence((server, contact), silence)).await.ok_or(WriterExit::Stopped)?;
        }
        is_standby = true;
        if let Some(epoch) = takeover::claim(server, writer_name(), topic).await? {
            let first_month = retention::first_month(settings.keep.events_keep, Clock::System.now());
            let mut state = takeover::read_state(server, (epoch, first_month), (topic, silence / HEARTBEATS)).await?;
            state.contact = contact.clone();
            return run_active_writer(settings, server, state, (narrowing, stop)).await;
        }
    }
}

/// Returns when the active writer has stopped, or when `progress` has not changed for some time by this process's clock. This process must
/// reach Kafka all that time: after a Kafka outage, the active writer has the same time to continue.
async fn wait_for_silence((server, contact): (&Server, &KafkaContact), silence: Duration) {
    let mut seen: Option<((u64, u64), Instant)> = None;
    let mut is_logged = false;
    loop {
        // Without contact, this process can't judge the others, so the silence starts again.
        seen = match progress::head(server).await {
            Ok(_) if !contact.is_recent() => None,
            // There has never been a writer.
            Ok((0, _)) => return,
            Ok((epoch, beat)) if beat == epoch::released(epoch) => return,
            Ok(head) => {
                if !std::mem::replace(&mut is_logged, true) {
                    tracing::info!("standing by");
                }
                Some(seen.filter(|(known, _)| *known == head).unwrap_or_else(|| (head, Instant::now())))
            }
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

async fn run_active_writer(
    settings: &Settings,
    server: &Server,
    state: State,
    (narrowing, stop): (&mut BlockLimits, &CancellationToken),
) -> Result<Infallible, WriterExit> {
    let known = known_letters(settings, server, &state).await?;
    let source = LogSource::connect(settings, state.progress.next(), known.clone())?;
    let lag = source.lag();
    let _operators = serve_operators(settings.clone());
    metrics::is_active(true);
    tokio::select! {
        ended = ActiveWriter::connect(settings, server, state, (source, known))?.run(narrowing, stop) => ended,
        never = report_lag(&lag) => match never {},
        never = event_metrics::keep_checking_keys(server) => match never {},
        never = event_metrics::keep_counting_parts(server) => match never {},
    }
}

/// Reads the known dead letters if there is no progress: the writer then reads the whole log, which may contain records that another
/// database's writer has rejected.
async fn known_letters(settings: &Settings, server: &Server, state: &State) -> Result<KnownDeadLetters, WriterExit> {
    if !state.progress.partitions.is_empty() {
        return Ok(KnownDeadLetters::default());
    }
    let (topic, every) = (settings.kafka.topic.as_str(), settings.tuning.takeover_after() / HEARTBEATS);
    let read = tokio::select! {
        read = KnownDeadLetters::read(&settings.kafka) => read,
        ended = send_heartbeats(server, (topic, every), state) => match ended? {},
    };
    Ok(read.unwrap_or_else(|error| {
        // A dead letter may then be sent twice.
        tracing::warn!("failed to read the dead letters: {error:#}");
        KnownDeadLetters::default()
    }))
}

struct ActiveWriter<'a> {
    settings: &'a Settings,
    server: &'a Server,
    topic: &'a str,
    heartbeat_interval: Duration,
    state: State,
    source: LogSource,
    sessions: SessionWriter,
    resolver: Resolver,
    rejected: RejectedTopic,
    events_keep: Option<u32>,
    replays: Replays,
}

impl<'a> ActiveWriter<'a> {
    fn connect(
        settings: &'a Settings,
        server: &'a Server,
        state: State,
        (source, known): (LogSource, KnownDeadLetters),
    ) -> anyhow::Result<Self> {
        let pool = databases::postgres(&settings.postgres)?;
        Ok(Self {
            settings,
            server,
            topic: &settings.kafka.topic,
            heartbeat_interval: settings.tuning.takeover_after() / HEARTBEATS,
            state,
            source,
            sessions: SessionWriter::new(pool.clone(), Clock::System),
            resolver: Resolver::on(pool),
            rejected: RejectedTopic::connect(&settings.kafka, known)?,
            events_keep: settings.keep.events_keep,
            replays: Replays::new(settings, settings.tuning.takeover_after() / HEARTBEATS),
        })
    }

    async fn run(mut self, narrowing: &mut BlockLimits, stop: &CancellationToken) -> Result<Infallible, WriterExit> {
        let mut beat_at = Instant::now() + self.heartbeat_interval;
        loop {
            match self.step(beat_at, (narrowing, stop)).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(WriterExit::Block(failed)) => self.recover(&failed, narrowing).await?,
                Err(ended) => return Err(ended),
            }
            beat_at = Instant::now() + self.heartbeat_interval;
        }
    }

    /// Stores a block, part of a replay, or a heartbeat. Returns whether `progress` has a new row.
    async fn step(
        &mut self,
        beat_at: Instant,
        (narrowing, stop): (&mut BlockLimits, &CancellationToken),
    ) -> Result<bool, WriterExit> {
        let destination = self.destination();
        // An interrupted block of the log must be completed before a replay starts or continues.
        let may_replay = self.state.interrupted_rows.is_complete(&self.state.progress.next());
        if retention::first_month(self.events_keep, Clock::System.now()) > self.state.first_month {
            return Err(WriterExit::MonthExpired);
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => {
                self.state.release(self.server, self.topic).await?;
                Err(WriterExit::Stopped)
            }
            // Blocks of the log have priority over replays.
            block = self.source.block(&mut self.state, (narrowing, self.server)) => {
                self.store(block?, narrowing).await?;
                narrowing.stored();
                Ok(true)
            }
            () = tokio::time::sleep_until(beat_at) => self.send_heartbeat().await.map(|()| true),
            step = self.replays.next(), if may_replay => {
                self.replays.execute(step, (&mut self.state, destination)).await?;
                // A replay step doesn't have to insert a row into `progress`.
                Ok(false)
            }
        }
    }

    /// Continues after a failed block. Part of it may be visible, so the writer takes over from itself.
    async fn recover(&mut self, failed: &FailedBlock, narrowing: &mut BlockLimits) -> Result<(), WriterExit> {
        let FailedBlock { reason, records, culprits, .. } = failed;
        tracing::error!(records = records.len(), culprits = culprits.len(), "failed to store a block: {reason}");
        narrowing.failed(failed);
        if culprits.is_empty() {
            tokio::time::sleep(FAILURE_PAUSE).await;
        }
        let own = &self.state.epoch;
        let claimed = takeover::claim_after(Some(own), self.server, (writer_name(), self.topic)).await?;
        let epoch = claimed.ok_or(WriterExit::Fenced(own.number))?;
        takeover::continue_in(epoch, &mut self.state, (self.server, self.topic, self.heartbeat_interval)).await?;
        self.replays = Replays::new(self.settings, self.heartbeat_interval);
        self.source.restart(self.settings, self.state.progress.next())?;
        Ok(())
    }

    async fn send_heartbeat(&mut self) -> Result<(), WriterExit> {
        tokio::select! {
            beaten = self.state.beat(self.server, self.topic) => beaten?,
            never = self.source.keep_watching() => match never {},
        }
        // The commit after the last block may have failed.
        self.source.commit(&self.state.progress.next());
        Ok(())
    }

    fn destination(&self) -> Destination<'a> {
        Destination { server: self.server, topic: self.topic, heartbeat_interval: self.heartbeat_interval }
    }

    /// Stores a block while decoding the next block's records.
    async fn store(&mut self, (mut block, records): (Block, Records), narrowing: &BlockLimits) -> Result<(), WriterExit> {
        let (destination, is_calm) = (self.destination(), self.state.can_decode_ahead());
        let Self { state, source, sessions, resolver, rejected, .. } = self;
        let store = async {
            let prepare = async {
                let named = block.take_named_sessions();
                resolver.forget_agents(&named);
                sessions.write(named).await;
                resolver.resolve(&mut block).await;
                rejected.send_all(&block.dead_letters).await;
            };
            tokio::select! {
                () = prepare => {}
                // PostgreSQL may be unavailable for a long time, and a standby would have the same problem.
                ended = send_heartbeats(destination.server, (destination.topic, destination.heartbeat_interval), state) => match ended? {},
            }
            store_block::write(block, records, (state, destination)).await
        };
        tokio::select! {
            biased;
            stored = store => stored?,
            never = source.read_ahead(narrowing, destination.server.shard()), if is_calm => match never {},
        }
        source.begin_waiting();
        metrics::index_size(self.state.index.len(), self.state.index.bytes());
        self.source.commit(&self.state.progress.next());
        Ok(())
    }
}

async fn report_lag(lag: &Lag) -> Infallible {
    let mut second = tokio::time::interval(Duration::from_secs(1));
    loop {
        second.tick().await;
        metrics::lag(lag.age_at(Clock::System.now().timestamp_millis()));
    }
}

/// Inserts heartbeats while there is contact with Kafka, so that standbys don't take over.
async fn send_heartbeats(server: &Server, (topic, every): (&str, Duration), state: &State) -> Result<Infallible, WriterExit> {
    loop {
        tokio::time::sleep(every).await;
        state.beat(server, topic).await?;
    }
}

/// Returns this process's name in the `writers` table. Successive processes in a container can have the same host name and process id, so
/// the name contains a random number.
fn writer_name() -> &'static str {
    static NAME: LazyLock<String> =
        LazyLock::new(|| format!("{} pid {} start {:08x}", host_name(), std::process::id(), rand::random::<u32>()));
    &NAME
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").map_or_else(|_| "unknown host".to_owned(), |name| name.trim().to_owned())
}
