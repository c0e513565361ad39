//! `telemetry events import`: a file of events, one JSON object a line, in batches.
//!
//! Must send the same lines under the same `Idempotency-Key`, so that a second import changes nothing.

use super::MAX_BODY_BYTES;
use crate::client::{Client, Content};
use crate::context::{Asker, Context};
use crate::failure::{Failure, of_file};
use crate::log_file::open;
use crate::sending::{gzip, send_until_taken};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use clap::Args;
use serde_json::json;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use std::io::{BufRead, Read};
use std::path::PathBuf;
use std::time::Duration;
use uuid::Uuid;

/// Events of one request.
const MAX_EVENTS: usize = 500;
/// Bytes of one request, about.
const MAX_BYTES: usize = 1024 * 1024;
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A file of events.
#[derive(Args, Clone, Debug)]
pub(crate) struct Import {
    /// File of events, one JSON object a line, plain or gzip; `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Session of all of them
    #[arg(long, value_name = "ID")]
    session: Option<Uuid>,
    /// Line to begin with, as an import that stopped named it
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    from_line: u64,
    /// Seconds for which a batch is tried again while the service is away
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    patience: u64,
}

/// Events that wait, with the lines where they stand.
#[derive(Default)]
struct Batch {
    events: Vec<String>,
    lines: Vec<u64>,
    bytes: usize,
}

impl Batch {
    fn is_full(&self) -> bool {
        self.events.len() >= MAX_EVENTS || self.bytes >= MAX_BYTES
    }

    fn body(&self, session: Option<Uuid>) -> String {
        let session = session.map(|id| format!("\"session_id\":\"{id}\",")).unwrap_or_default();
        format!("{{{session}\"events\":[{}]}}", self.events.join(","))
    }
}

pub(super) async fn run(context: &Context, what: &Import) -> Result<(), Failure> {
    let client = context.client(Asker::Key)?;
    let mut reader = open(&what.file)?;
    let (mut batch, mut line, mut number) = (Batch::default(), Vec::new(), 0_u64);
    let (mut sent, mut created) = (0_u64, 0_u64);
    loop {
        line.clear();
        let taken =
            reader.by_ref().take(MAX_BODY_BYTES).read_until(b'\n', &mut line).map_err(|error| of_file(&what.file, &error))?;
        number += 1;
        let text = line.trim_ascii();
        if number >= what.from_line && !text.is_empty() {
            let event = event(text).map_err(|why| Failure::Usage(format!("{}: line {number}: {why}", what.file.display())));
            // what stands before it is sent, and no more
            let event = match event {
                Ok(event) => event,
                Err(failure) => {
                    send(&client, what, &batch).await?;
                    return Err(failure);
                }
            };
            batch.bytes += event.len();
            batch.events.push(event);
            batch.lines.push(number);
        }
        if batch.is_full() || (taken == 0 && !batch.events.is_empty()) {
            created += send(&client, what, &batch).await?;
            sent += batch.events.len() as u64;
            batch = Batch::default();
        }
        if taken == 0 {
            return context.output().object(&json!({"file": what.file, "events": sent, "events_created": created}));
        }
    }
}

fn event(text: &[u8]) -> Result<String, &'static str> {
    let text = std::str::from_utf8(text).map_err(|_| "not UTF-8")?;
    let raw: &RawValue = serde_json::from_str(text).map_err(|_| "no JSON")?;
    if raw.get().starts_with('{') { Ok(raw.to_string()) } else { Err("no JSON object") }
}

/// Sends a batch; answers how many of its events are new.
async fn send(client: &Client, what: &Import, batch: &Batch) -> Result<u64, Failure> {
    if batch.events.is_empty() {
        return Ok(0);
    }
    let body = batch.body(what.session);
    let digest: String = Sha256::digest(&body).iter().map(|byte| format!("{byte:02x}")).collect();
    let key = HeaderValue::try_from(digest).map_err(|error| Failure::Failed(error.to_string()))?;
    let content = Content {
        media_type: Some("application/json"),
        encoding: Some("gzip"),
        headers: HeaderMap::from_iter([(IDEMPOTENCY_KEY, key)]),
        body: gzip(body.as_bytes())?,
        ..Content::default()
    };
    let answer = send_until_taken(client, "/events", &Vec::new(), &content, Duration::from_secs(what.patience)).await;
    match answer {
        Ok(answer) => Ok(answer["events_created"].as_u64().unwrap_or_default()),
        Err(Failure::Refused(mut refusal)) => {
            // the place in the request is no place in the file
            for fault in refusal.problem.iter_mut().flat_map(|problem| &mut problem.errors) {
                let at = fault.index.take().and_then(|index| batch.lines.get(index));
                let place = at.map(|line| format!("line {line}: ")).unwrap_or_default();
                fault.detail = format!("{place}{}", fault.detail);
            }
            crate::talk::say(&format!("nothing from line {} on was sent; --from-line goes on there", batch.lines[0]));
            Err(Failure::Refused(refusal))
        }
        Err(failure) => Err(failure),
    }
}
