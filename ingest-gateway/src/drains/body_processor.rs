//! Turns a body into records on the log (docs/api/drains.md#bodies).
//!
//! ```text
//!  body ──► a thread, in turns: inflate, split, judge ── records ──► append ──► the answer, when all are durable
//! ```

use super::body_counts::{BodyCounts, LineBatch};
use super::body_thread::BodyThread;
use super::drain_settings::DrainSettings;
use super::formats::read_record;
use super::inflate::{Encoding, Metered, inflated};
use super::line_processor::{LineProcessor, ProcessedLine, bad};
use super::line_reader::LineReader;
use super::split::{Item, Splitter, lines_of};
use crate::State;
use crate::log::{Log, Message};
use crate::metrics;
use crate::record::accept::record;
use crate::request::body_memory::BodyReservation;
use schemas::identity::DrainBody;
use schemas::ids::OrgId;
use schemas::log::{LogRecord, RecordKind};
use schemas::problem::Code;
use service_kit::auth::Tenant;
use service_kit::byte_budgets::cost;
use service_kit::http::ApiError;
use service_kit::slots::Slot;
use std::io::{self, Read};
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Maximum number of records waiting for the log.
const WAITING_RECORDS: usize = 2;
/// Maximum lines per record.
const RECORD_LINES: usize = 500;
/// Maximum size of a Firehose record, in Base64 and JSON.
const MAX_FIREHOSE_RECORD_BYTES: usize = 2 * 1024 * 1024;

/// Settings for processing a body.
pub(super) struct BodyProcessor {
    pub(super) processor: LineProcessor,
    pub(super) encoding: Encoding,
    pub(super) state: Arc<State>,
    pub(super) request_id: String,
}

pub(super) struct ProcessedBody {
    pub(super) body_counts: BodyCounts,
    /// A Firehose delivery's id, from its body.
    pub(super) delivery: Option<String>,
}

impl BodyProcessor {
    /// Processes a body. Returns once every record is durable. Memory and slot are in use until the thread ends.
    pub(super) async fn process(self, body: Vec<u8>, taken: (BodyReservation, Slot<Tenant>)) -> Result<ProcessedBody, ApiError> {
        let (records, made) = mpsc::channel(WAITING_RECORDS);
        let state = Arc::clone(&self.state);
        let thread = tokio::task::spawn_blocking(move || {
            let (room, _slot) = taken;
            self.work(body, room.tenant(), records)
        });
        let (appended, worked) = tokio::join!(append_all(&state.log, made), thread);
        // The log's error is more specific than the interrupted thread's error.
        appended?;
        worked.map_err(ApiError::internal)?
    }

    fn work(&self, body: Vec<u8>, tenant: Tenant, records: mpsc::Sender<Message>) -> Result<ProcessedBody, ApiError> {
        let Self { processor: judge, encoding, state, request_id } = self;
        let mut budget = LogBudget::new(state, judge);
        budget.spend(cost(1, body.len()))?;
        let turns = BodyThread::begin(Arc::clone(&state.cpu_permits), tenant, records).map_err(|error| unreadable(&error))?;
        let message = |record: &LogRecord| state.log.message(record, request_id).map_err(|_| io::Error::other("too large"));
        work_in_turns(body, *encoding, (judge, &state.drains.settings), turns, |bytes| budget.spend(bytes), message)
    }
}

/// Reads a body's lines in turns, and sends its records' messages. Spends the decompressed bytes that exceed the body's size.
fn work_in_turns<T: 'static>(
    body: Vec<u8>,
    encoding: Encoding,
    (judge, settings): (&LineProcessor, &DrainSettings),
    turns: BodyThread<T>,
    mut spend: impl FnMut(u64) -> Result<(), ApiError>,
    message: impl Fn(&LogRecord) -> io::Result<T>,
) -> Result<ProcessedBody, ApiError> {
    let (mut prepaid, mut refused, turns) = (body.len() as u64, None, Rc::new(turns));
    let wire = Metered::new(io::Cursor::new(body), {
        let turns = Rc::clone(&turns);
        move |bytes| turns.spend(bytes)
    });
    let meter = |bytes: u64| {
        turns.spend(bytes)?;
        let unpaid = bytes.saturating_sub(prepaid);
        prepaid -= bytes - unpaid;
        spend(unpaid).map_err(|error| {
            refused = Some(error);
            io::ErrorKind::QuotaExceeded.into()
        })
    };
    let taken = read_body(wire, encoding, judge, settings, meter, |record| turns.send(message(&record)?));
    taken.map_err(|error| refused.unwrap_or_else(|| unreadable(&error)))
}

/// Budget of an organization without a verified domain. Its bodies spend their compressed or decompressed size, although they aren't
/// stored.
struct LogBudget<'a> {
    state: &'a State,
    /// `None` if unlimited.
    org: Option<OrgId>,
    spent: u64,
}

impl<'a> LogBudget<'a> {
    fn new(state: &'a State, judge: &LineProcessor) -> Self {
        let is_unverified = judge.owned_sites.as_ref().is_some_and(Vec::is_empty);
        Self { state, org: is_unverified.then_some(judge.caller.org_id), spent: 0 }
    }

    fn spend(&mut self, bytes: u64) -> Result<(), ApiError> {
        let Some(org) = self.org else { return Ok(()) };
        self.state.write_budgets.spend_log(org, self.spent, bytes, self.state.clock.now())?;
        self.spent += bytes;
        Ok(())
    }
}

/// Reads a body's lines, and passes on the records for lines to be stored. Calls `meter` with the size of each decompressed part.
pub(super) fn read_body(
    body: impl Read + 'static,
    encoding: Encoding,
    judge: &LineProcessor,
    settings: &DrainSettings,
    mut meter: impl FnMut(u64) -> io::Result<()>,
    keep: impl FnMut(LogRecord) -> io::Result<()>,
) -> io::Result<ProcessedBody> {
    let mut room = settings.drain_body_bytes;
    let body = Metered::new(inflated(body, encoding)?, |bytes| {
        room = room.checked_sub(bytes).ok_or_else(|| io::Error::new(io::ErrorKind::FileTooLarge, "too large uncompressed"))?;
        meter(bytes)
    });
    let body_counts = BodyCounts::new(judge.now.timestamp_millis());
    let mut lines = RecordBuilder { judge, settings, body_counts, batch: LineBatch::default(), record: Vec::new(), keep };
    let mut reader = LineReader::new(judge);
    let delivery = match judge.provider.facts().body {
        DrainBody::FirehoseRecords => {
            Splitter::new(body, MAX_FIREHOSE_RECORD_BYTES).records(|record| lines.take_record(record.bytes, &mut reader))?
        }
        DrainBody::Json | DrainBody::Text => {
            let take = |item: Item<'_>| reader.line(item, &mut |line, judged| lines.count(line, judged));
            Splitter::new(body, settings.drain_line_bytes).items(judge.provider, take)?;
            None
        }
    };
    reader.end(&mut |line, judged| lines.count(line, judged))?;
    lines.send()?;
    Ok(ProcessedBody { body_counts: lines.body_counts, delivery })
}

struct RecordBuilder<'a, K> {
    judge: &'a LineProcessor,
    settings: &'a DrainSettings,
    body_counts: BodyCounts,
    batch: LineBatch,
    /// Text of the latest Firehose record.
    record: Vec<u8>,
    keep: K,
}

impl<K: FnMut(LogRecord) -> io::Result<()>> RecordBuilder<'_, K> {
    fn count(&mut self, line: Item<'_>, judged: ProcessedLine) -> io::Result<()> {
        self.body_counts.count(line.bytes.unwrap_or_default(), judged, &mut self.batch);
        if self.body_counts.lines > self.settings.drain_lines {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "too many lines"));
        }
        if self.batch.len() >= RECORD_LINES { self.send() } else { Ok(()) }
    }

    /// Reads a Firehose record's lines.
    fn take_record(&mut self, record: Option<&[u8]>, reader: &mut LineReader<'_>) -> io::Result<()> {
        let mut text = std::mem::take(&mut self.record);
        match record.ok_or("too_long").and_then(|record| read_record(record, &mut text)) {
            Ok(()) => lines_of(&text, self.settings.drain_line_bytes, |item| {
                reader.line(item, &mut |line, judged| self.count(line, judged))
            }),
            Err(reason) => self.count(Item { number: 0, bytes: record }, bad(reason)),
        }?;
        self.record = text;
        Ok(())
    }

    /// Sends the collected lines as a record.
    fn send(&mut self) -> io::Result<()> {
        if self.batch.len() == 0 {
            return Ok(());
        }
        let LineBatch { events, failed_fetches } = std::mem::take(&mut self.batch);
        let record = record(&self.judge.caller, RecordKind::Drain, None, events, self.judge.now);
        (self.keep)(LogRecord { drain: self.judge.drain, failed_fetches, ..record })
    }
}

/// Appends records until the channel closes.
async fn append_all(log: &Log, mut made: mpsc::Receiver<Message>) -> Result<(), ApiError> {
    while let Some(message) = made.recv().await {
        log.append(&message).await?;
        metrics::accepted(message.events());
    }
    Ok(())
}

fn unreadable(error: &io::Error) -> ApiError {
    match error.kind() {
        io::ErrorKind::FileTooLarge => {
            ApiError::new(Code::TooLarge, "The body has too many lines or is too large when decompressed. Send smaller batches.")
        }
        _ => ApiError::new(Code::InvalidBody, "The body doesn't match its Content-Encoding or the log format in the path."),
    }
}

#[cfg(test)]
mod tests {
    use super::super::dry_run::DrainDryRun;
    use super::*;
    use crate::request::cpu_permits::CpuPermits;
    use schemas::bots::BotTable;
    use schemas::identity::DrainProvider;
    use std::io::Write as _;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn sender(number: u128) -> Tenant {
        Tenant::Organization(OrgId(uuid::Uuid::from_u128(number)))
    }

    #[tokio::test]
    async fn f79_large_logs_get_at_most_every_other_turn() {
        let turns = CpuPermits::with_cores(2);
        let _taken = turns.wait(sender(0)).await;
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&b"no line of a log\n".repeat(1 << 18)).unwrap();
        let (body, of_body, (records, _made)) = (gzip.finish().unwrap(), Arc::clone(&turns), mpsc::channel::<()>(1));
        let others = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&others);
        let log = tokio::task::spawn_blocking(move || {
            let (bots, now) = (BotTable::bundled(), chrono::DateTime::from_timestamp(1_793_527_200, 0).unwrap());
            let dry_run = DrainDryRun { provider: DrainProvider::Combined, host: None, hosts: Vec::new(), bots, now };
            let turns = BodyThread::begin(of_body, sender(1), records).unwrap();
            let (judge, settings, mut seen) = (dry_run.judge(), DrainSettings::default(), Vec::new());
            let spend = |_| {
                seen.push(counted.load(Ordering::Relaxed));
                Ok(())
            };
            work_in_turns(body, Encoding::Gzip, (&judge, &settings), turns, spend, |_| Ok(())).map(|_| seen)
        });
        while !log.is_finished() {
            let _turn = turns.wait(sender(2)).await;
            others.fetch_add(1, Ordering::Relaxed);
        }
        let seen = log.await.unwrap().unwrap();
        let during = seen[seen.len() - 1] - seen[0];
        assert!(during > 5, "{during} turns of other senders while more than 4 MiB were read");
    }
}
