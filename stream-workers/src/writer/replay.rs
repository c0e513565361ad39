//! Processes replays between blocks of the log: stores parts of the log again, through the same merge and statements.
//!
//! Storing a report again has no effect, so a replay can be repeated and interrupted anywhere. Its position is a row of `replays`, which is
//! inserted after each of its blocks and fenced like them. After a takeover, the interrupted block is read again. A replay reads only
//! records before the offsets in `progress`, so they are never mistaken for an interrupted block of the log.

mod reader;
mod replay_row;

use super::batch::Records;
use super::progress::NextOffsets;
use super::state::State;
use super::statements::{Server, WriterExit};
use super::store_block::{self, Destination};
use crate::Settings;
use crate::consume::Block;
use crate::consume::topic_reader::OffsetRange;
use crate::resolve::back_off::BackOff;
pub(crate) use reader::{Chunk, Reader, message};
pub(crate) use replay_row::{Plan, Replay, ReplayFigures, Status};
use service_kit::crash_point;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// A replay fails after this number of writers ended during one of its blocks.
const MOST_STARTS: u32 = 5;

pub(super) enum Step {
    Poll,
    Store(Chunk),
    /// Everything available was read, or reading failed.
    End(Result<(), String>),
}

pub(super) struct Replays {
    settings: Settings,
    look_every: Duration,
    look_at: Instant,
    running: Option<Running>,
}

struct Running {
    replay: Replay,
    end: NextOffsets,
    chunks: mpsc::Receiver<anyhow::Result<Chunk>>,
    _reading: AbortOnDropHandle<()>,
    due: Instant,
    unexpected: Vec<String>,
}

impl Replays {
    pub(super) fn new(settings: &Settings, look_every: Duration) -> Self {
        Self { settings: settings.clone(), look_every, look_at: Instant::now(), running: None }
    }

    /// Returns when there is something to do. Safe to cancel and call again.
    pub(super) async fn next(&mut self) -> Step {
        let Some(running) = &mut self.running else {
            tokio::time::sleep_until(self.look_at).await;
            return Step::Poll;
        };
        tokio::time::sleep_until(running.due).await;
        match running.chunks.recv().await {
            Some(Ok(chunk)) => Step::Store(chunk),
            Some(Err(error)) => Step::End(Err(format!("{error:#}"))),
            None => Step::End(Ok(())),
        }
    }

    /// Executes a step that [`next`](Self::next) has returned.
    pub(super) async fn execute(&mut self, step: Step, (state, to): (&mut State, Destination<'_>)) -> Result<(), WriterExit> {
        match step {
            Step::Poll => self.poll(state, to).await,
            Step::Store(chunk) => self.store(chunk, state, to).await,
            Step::End(read) => self.end(read, state, to.server).await,
        }
    }

    async fn poll(&mut self, state: &State, to: Destination<'_>) -> Result<(), WriterExit> {
        self.look_at = Instant::now() + self.look_every;
        let mut replay = match Replay::pending(to.server, to.topic).await {
            Ok(Some(replay)) => replay,
            Ok(None) => return Ok(()),
            Err(error) => {
                tracing::warn!("failed to check for replays: {error:#}");
                return Ok(());
            }
        };
        let available = replay.available(&state.progress.next());
        if replay.is_read() {
            replay.status = Status::Done;
        } else if replay.starts >= MOST_STARTS {
            replay.status = Status::Failed;
            replay.message = format!("{MOST_STARTS} writers stopped while they processed its next block");
        } else if available.is_empty() {
            // The writer hasn't reached these records yet.
            return Ok(());
        } else {
            replay.status = Status::Running;
            replay.starts += 1;
        }
        insert(&replay, state, to.server).await?;
        if replay.status == Status::Running {
            tracing::info!(replay = %replay.id, "replay started");
            self.running = Some(Running::start(&self.settings, replay, available));
        }
        Ok(())
    }

    async fn store(&mut self, chunk: Chunk, state: &mut State, to: Destination<'_>) -> Result<(), WriterExit> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let Chunk { reports, failed_fetches, next, figures, unexpected } = chunk;
        let before = state.changed;
        if !reports.is_empty() || !failed_fetches.is_empty() {
            let mut block = Block::default();
            (block.reports, block.failed_fetches) = (reports, failed_fetches);
            store_block::write(block, Records::default(), (state, to)).await?;
        }
        crash_point::reached("before_replay");
        running.pace(figures.events);
        let replay = &mut running.replay;
        replay.figures.add(&figures);
        replay.figures.changed_events += state.changed.events - before.events;
        replay.figures.changed_reports += state.changed.reports - before.reports;
        replay.starts = 0;
        replay.advance(&next);
        if !unexpected.is_empty() {
            running.unexpected.extend(unexpected);
            replay.message = message(&running.unexpected);
        }
        insert(replay, state, to.server).await
    }

    async fn end(&mut self, read: Result<(), String>, state: &State, server: &Server) -> Result<(), WriterExit> {
        self.look_at = Instant::now();
        let Some(Running { mut replay, end, .. }) = self.running.take() else { return Ok(()) };
        match read {
            Ok(()) => replay.advance(&end),
            Err(error) => (replay.status, replay.message) = (Status::Failed, error),
        }
        replay.starts = 0;
        if replay.status == Status::Running && replay.is_read() {
            replay.status = Status::Done;
        }
        let what = if replay.status == Status::Running { "replay is waiting for records" } else { "replay ended" };
        tracing::info!(replay = %replay.id, status = ?replay.status, message = replay.message, "{what}");
        insert(&replay, state, server).await
    }
}

async fn insert(replay: &Replay, state: &State, server: &Server) -> Result<(), WriterExit> {
    replay.insert(state.next_beat(), (server, &state.epoch)).await
}

impl Running {
    /// Starts reading in a separate task, because brokers and PostgreSQL may be slow to respond.
    fn start(settings: &Settings, replay: Replay, parts: Vec<OffsetRange>) -> Self {
        let (sender, chunks) = mpsc::channel(1);
        let end = parts.iter().map(|part| (part.partition, part.to)).collect();
        let (settings, plan) = (settings.clone(), replay.plan.clone());
        let reading = tokio::spawn(async move {
            if let Err(error) = read(&settings, &plan, &parts, &sender).await {
                let _ = sender.send(Err(error)).await;
            }
        });
        let unexpected = Vec::new();
        Self { replay, end, chunks, _reading: AbortOnDropHandle::new(reading), due: Instant::now(), unexpected }
    }

    /// Delays the next chunk so that these events don't exceed the rate.
    fn pace(&mut self, events: u64) {
        if self.replay.plan.rate > 0 {
            #[expect(clippy::cast_precision_loss, reason = "the pause can be approximate")]
            let pause = Duration::from_secs_f64(events as f64 / f64::from(self.replay.plan.rate));
            self.due = self.due.max(Instant::now()) + pause;
        }
    }
}

async fn read(
    settings: &Settings,
    plan: &Plan,
    parts: &[OffsetRange],
    sender: &mpsc::Sender<anyhow::Result<Chunk>>,
) -> anyhow::Result<()> {
    let mut back_off = BackOff::default();
    let mut reader = loop {
        match Reader::begin(settings, plan, parts).await {
            Ok(reader) => break reader,
            Err(error) => tracing::warn!("failed to begin a replay, retrying: {error:#}"),
        }
        back_off.pause().await;
    };
    while let Some(chunk) = reader.chunk().await? {
        if sender.send(Ok(chunk)).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}
