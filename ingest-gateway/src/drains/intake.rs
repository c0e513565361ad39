//! Processes a body into records on the log (docs/api/drains.md#bodies).
//!
//! ```text
//!  body ──► a thread: inflate, split, judge ── records ──► append ──► the answer, when all are durable
//! ```

use super::body_counts::{Batch, BodyCounts};
use super::formats::record_lines;
use super::inflate::{Awaited, Encoding, Limited, inflated};
use super::line_outcome::{Judge, Judged, bad};
use super::reader::BodyReader;
use super::settings::DrainSettings;
use super::split::{Item, Splitter, lines};
use crate::log::{Log, Message};
use crate::metrics;
use crate::record::accept::record;
use crate::request::body_memory::BodyRoom;
use schemas::identity::DrainBody;
use schemas::log::{LogRecord, RecordKind};
use schemas::problem::Code;
use service_kit::auth::Tenant;
use service_kit::http::ApiError;
use service_kit::slots::Slot;
use std::io::{self, Read};
use tokio::sync::mpsc;

/// Maximum number of records that wait for the log.
const WAITING_RECORDS: usize = 2;
/// Maximum lines per record.
const RECORD_LINES: usize = 500;
/// Maximum size of a Firehose record, in Base64 and JSON.
const MAX_FIREHOSE_RECORD_BYTES: usize = 2 * 1024 * 1024;

/// Settings for processing a body.
pub(super) struct Intake {
    pub(super) judge: Judge,
    pub(super) settings: DrainSettings,
    pub(super) encoding: Encoding,
    pub(super) log: Log,
    pub(super) request_id: String,
}

pub(super) struct Taken {
    pub(super) body_counts: BodyCounts,
    /// The id of a Firehose delivery, from its body.
    pub(super) delivery: Option<String>,
}

impl Intake {
    /// Processes a body. Returns once every record is durable. Memory and slot are occupied until the thread ends.
    pub(super) async fn take(self, body: Vec<u8>, taken: (BodyRoom, Slot<Tenant>)) -> Result<Taken, ApiError> {
        let (records, made) = mpsc::channel(WAITING_RECORDS);
        let log = self.log.clone();
        let thread = tokio::task::spawn_blocking(move || {
            let _taken = taken;
            self.work(body, &records)
        });
        let (appended, worked) = tokio::join!(append_all(&log, made), thread);
        // The log's error is more specific than the error of the interrupted thread.
        appended?;
        worked.map_err(ApiError::internal)?.map_err(|error| unreadable(&error))
    }

    fn work(self, body: Vec<u8>, records: &mpsc::Sender<Message>) -> io::Result<Taken> {
        let body = Awaited::new(body, records.clone());
        work_off(body, self.encoding, &self.judge, &self.settings, |record| {
            let message = self.log.message(&record, &self.request_id).map_err(|_| io::Error::other("too large"))?;
            records.blocking_send(message).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
        })
    }
}

/// Reads the lines of a body, and passes on records of those that are kept.
pub(super) fn work_off(
    body: impl Read + 'static,
    encoding: Encoding,
    judge: &Judge,
    settings: &DrainSettings,
    keep: impl FnMut(LogRecord) -> io::Result<()>,
) -> io::Result<Taken> {
    let body = Limited::new(inflated(body, encoding)?, settings.drain_body_bytes);
    let body_counts = BodyCounts::new(judge.now.timestamp_millis());
    let mut lines = Lines { judge, settings, body_counts, batch: Batch::default(), keep };
    let mut reader = BodyReader::new(judge);
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
    Ok(Taken { body_counts: lines.body_counts, delivery })
}

struct Lines<'a, K> {
    judge: &'a Judge,
    settings: &'a DrainSettings,
    body_counts: BodyCounts,
    batch: Batch,
    keep: K,
}

impl<K: FnMut(LogRecord) -> io::Result<()>> Lines<'_, K> {
    fn count(&mut self, line: Item<'_>, judged: Judged) -> io::Result<()> {
        self.body_counts.count(line.bytes.unwrap_or_default(), judged, &mut self.batch);
        if self.body_counts.lines > self.settings.drain_lines {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "too many lines"));
        }
        if self.batch.len() >= RECORD_LINES { self.send() } else { Ok(()) }
    }

    /// Reads the lines of a Firehose record.
    fn take_record(&mut self, record: Option<&[u8]>, reader: &mut BodyReader<'_>) -> io::Result<()> {
        match record.ok_or("too_long").and_then(record_lines) {
            Ok(bytes) => lines(&mut bytes.as_slice(), self.settings.drain_line_bytes, 0, |item| {
                reader.line(item, &mut |line, judged| self.count(line, judged))
            }),
            Err(reason) => self.count(Item { number: 0, bytes: record }, bad(reason)),
        }
    }

    /// Sends the collected lines as a record.
    fn send(&mut self) -> io::Result<()> {
        if self.batch.len() == 0 {
            return Ok(());
        }
        let Batch { events, failed_fetches } = std::mem::take(&mut self.batch);
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
        _ => ApiError::new(Code::InvalidBody, "The body doesn't match its Content-Encoding or the log format of its path."),
    }
}
