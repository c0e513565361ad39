//! From the bytes of a request to records on the log, as they arrive (docs/api/drains.md#bodies).
//!
//! ```text
//!  request ── parts ──► a thread: inflate, split, judge ── records ──► append ──► the answer, when all are durable
//! ```

use super::body_counts::{Batch, BodyCounts};
use super::formats::record_lines;
use super::inflate::{Encoding, Limited, Parts, inflated};
use super::line_outcome::{Judge, Judged, bad};
use super::reader::BodyReader;
use super::settings::DrainSettings;
use super::split::{Item, Splitter, lines};
use crate::log::{Log, Message};
use crate::metrics;
use crate::record::accept::record;
use axum::body::{Body, Bytes};
use http_body_util::BodyExt;
use schemas::identity::DrainBody;
use schemas::log::{LogRecord, RecordKind};
use schemas::problem::Code;
use service_kit::http::ApiError;
use service_kit::slots::Slot;
use std::io::{self, Read};
use std::time::Duration;
use tokio::sync::mpsc;

/// The longest pause between two parts of a body.
const PART_DEADLINE: Duration = Duration::from_secs(10);
/// Parts that wait for the thread.
const WAITING_PARTS: usize = 4;
/// Records that wait for the log.
const WAITING_RECORDS: usize = 2;
/// Lines of one record.
const RECORD_LINES: usize = 500;
/// Largest record of a delivery of Firehose, in Base64 and JSON.
const MAX_FIREHOSE_RECORD_BYTES: usize = 2 * 1024 * 1024;

/// One body on its way.
pub(super) struct Intake {
    pub(super) judge: Judge,
    pub(super) settings: DrainSettings,
    pub(super) encoding: Encoding,
    pub(super) log: Log,
    pub(super) request_id: String,
}

pub(super) struct Taken {
    pub(super) body_counts: BodyCounts,
    /// The id of a delivery of Firehose, as its body says it.
    pub(super) delivery: Option<String>,
}

impl Intake {
    /// Takes a body in; answers once every record is durable. The slot is taken until the thread has ended.
    pub(super) async fn take(self, body: Body, slot: Slot) -> Result<Taken, ApiError> {
        let (parts, arriving) = mpsc::channel(WAITING_PARTS);
        let (records, made) = mpsc::channel(WAITING_RECORDS);
        let (log, wire_bytes) = (self.log.clone(), self.settings.drain_wire_bytes);
        let thread = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            self.work(Parts::new(arriving), &records)
        });
        let (sent, appended, worked) = tokio::join!(send_parts(body, wire_bytes, parts), append_all(&log, made), thread);
        let worked = worked.map_err(ApiError::internal)?;
        // Why the log or the request ended says more than that the thread was cut short.
        appended?;
        sent?;
        worked.map_err(|error| unreadable(&error))
    }

    fn work(self, parts: Parts, records: &mpsc::Sender<Message>) -> io::Result<Taken> {
        work_off(parts, self.encoding, &self.judge, &self.settings, |record| {
            let message = self.log.message(&record, &self.request_id).map_err(|_| io::Error::other("too large"))?;
            records.blocking_send(message).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
        })
    }
}

/// Takes the lines of a body one after the other, and hands over records of what is kept.
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

/// The lines of a body as they are cut.
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

    /// The lines in a record of Firehose.
    fn take_record(&mut self, record: Option<&[u8]>, reader: &mut BodyReader<'_>) -> io::Result<()> {
        match record.ok_or("too_long").and_then(record_lines) {
            Ok(bytes) => lines(&mut bytes.as_slice(), self.settings.drain_line_bytes, 0, |item| {
                reader.line(item, &mut |line, judged| self.count(line, judged))
            }),
            Err(reason) => self.count(Item { number: 0, bytes: record }, bad(reason)),
        }
    }

    /// Makes a record of the lines so far.
    fn send(&mut self) -> io::Result<()> {
        if self.batch.len() == 0 {
            return Ok(());
        }
        let Batch { events, failed_fetches } = std::mem::take(&mut self.batch);
        let record = record(&self.judge.caller, RecordKind::Drain, None, events, self.judge.now);
        (self.keep)(LogRecord { drain: self.judge.drain, failed_fetches, ..record })
    }
}

/// Appends records until there are no more.
async fn append_all(log: &Log, mut made: mpsc::Receiver<Message>) -> Result<(), ApiError> {
    while let Some(message) = made.recv().await {
        log.append(&message).await?;
        metrics::accepted(message.events());
    }
    Ok(())
}

/// Hands the parts of a body over as they arrive.
async fn send_parts(mut body: Body, wire_bytes: u64, parts: mpsc::Sender<io::Result<Bytes>>) -> Result<(), ApiError> {
    let sent = send_within(&mut body, wire_bytes, &parts).await;
    if sent.is_err() {
        // What has arrived is not all: the line at hand is no line.
        let _ = parts.send(Err(io::ErrorKind::ConnectionAborted.into())).await;
    }
    sent
}

async fn send_within(body: &mut Body, wire_bytes: u64, parts: &mpsc::Sender<io::Result<Bytes>>) -> Result<(), ApiError> {
    let mut left = wire_bytes;
    while let Some(part) = next_part(body, &mut left, wire_bytes).await? {
        if parts.send(Ok(part)).await.is_err() {
            // The thread has ended; it says why.
            return Ok(());
        }
    }
    Ok(())
}

/// The next bytes of a body, if they come in time and the whole, of which `left` may still come, is no larger than `wire_bytes`.
pub(super) async fn next_part(body: &mut Body, left: &mut u64, wire_bytes: u64) -> Result<Option<Bytes>, ApiError> {
    let too_slow = |_| ApiError::new(Code::RequestTimeout, "The body did not arrive in time.");
    while let Some(frame) = tokio::time::timeout(PART_DEADLINE, body.frame()).await.map_err(too_slow)? {
        let frame = frame.map_err(|_| ApiError::new(Code::InvalidBody, "The body ended before it was complete."))?;
        let Ok(part) = frame.into_data() else { continue };
        *left = left.checked_sub(part.len() as u64).ok_or_else(|| too_large(wire_bytes))?;
        return Ok(Some(part));
    }
    Ok(None)
}

/// 413 for a body on the wire.
pub(super) fn too_large(wire_bytes: u64) -> ApiError {
    ApiError::new(Code::TooLarge, format!("The body is larger than {wire_bytes} bytes. Send smaller batches."))
}

fn unreadable(error: &io::Error) -> ApiError {
    match error.kind() {
        io::ErrorKind::FileTooLarge => {
            ApiError::new(Code::TooLarge, "The body has too many lines or is too large when decompressed. Send smaller batches.")
        }
        _ => ApiError::new(Code::InvalidBody, "The body doesn't match its Content-Encoding or the log format of its path."),
    }
}
