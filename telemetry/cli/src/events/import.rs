//! `telemetry events import`: sends a file of events, one JSON object per line, in batches.
//!
//! The same lines have the same `Idempotency-Key` and ids, so importing a file again has no effect, even after it has grown.

use super::MAX_BODY_BYTES;
use crate::client::{Client, RequestContent};
use crate::context::{Context, CredentialKind};
use crate::failure::{Failure, file_error};
use crate::log_file::{Reader, open};
use crate::retry::{gzip, send_until_accepted};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use clap::Args;
use data_encoding::HEXLOWER;
use serde_json::json;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::{BufRead, Read};
use std::path::PathBuf;
use std::time::Duration;
use uuid::Uuid;

const MAX_EVENTS: usize = 500;
/// Approximate maximum size of a request.
const MAX_BYTES: usize = 1024 * 1024;
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

#[derive(Args, Clone, Debug)]
pub(crate) struct Import {
    /// File with one event per line, plain or gzip, or - for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// ID of the session that the events belong to
    #[arg(long, value_name = "ID")]
    session: Option<Uuid>,
    /// Line to start at, to continue an import that stopped
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    from_line: u64,
    /// Seconds to keep retrying a batch while the service is unavailable
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    patience: u64,
}

/// Events to send, with their line numbers.
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

    /// Reads the next line and adds its event, if any. Returns the number of bytes read.
    fn take_line(&mut self, reader: &mut Reader, what: &Import, line: &mut Vec<u8>, number: u64) -> Result<usize, Failure> {
        line.clear();
        let taken =
            reader.by_ref().take(MAX_BODY_BYTES).read_until(b'\n', line).map_err(|error| file_error(&what.file, &error))?;
        let text = line.trim_ascii();
        if number >= what.from_line && !text.is_empty() {
            let wrong = |why| Failure::Usage(format!("{}: line {number}: {why}", what.file.display()));
            let event = event(text, what.session, number).map_err(wrong)?;
            self.bytes += event.len();
            self.events.push(event);
            self.lines.push(number);
        }
        Ok(taken)
    }

    fn body(&self, session: Option<Uuid>) -> String {
        let session = session.map(|id| format!("\"session_id\":\"{id}\",")).unwrap_or_default();
        format!("{{{session}\"events\":[{}]}}", self.events.join(","))
    }
}

pub(super) async fn run(context: &Context, what: &Import) -> Result<(), Failure> {
    let client = context.client(CredentialKind::Key)?;
    let mut reader = open(&what.file)?;
    let (mut batch, mut line, mut number) = (Batch::default(), Vec::new(), 0_u64);
    let (mut sent, mut created) = (0_u64, 0_u64);
    loop {
        number += 1;
        let taken = match batch.take_line(&mut reader, what, &mut line, number) {
            Ok(taken) => taken,
            Err(failure) => {
                // Send the events before the bad line.
                send(&client, what, &batch).await?;
                let is_first = sent == 0 && batch.events.is_empty();
                return Err(if is_first { failure } else { failure.after_sending(&format!("line {number}")) });
            }
        };
        if batch.is_full() || (taken == 0 && !batch.events.is_empty()) {
            created += send(&client, what, &batch).await?;
            sent += batch.events.len() as u64;
            batch = Batch::default();
        }
        if taken == 0 {
            let result = json!({"file": what.file, "events": sent, "events_created": created});
            let facts = [
                ("File", what.file.display().to_string()),
                ("Events sent", sent.to_string()),
                ("New events", created.to_string()),
            ];
            return context.output().object_as(&result, &facts);
        }
    }
}

/// Returns a line's event unchanged, but adds an id if it is missing.
fn event(text: &[u8], session: Option<Uuid>, number: u64) -> Result<String, &'static str> {
    let text = std::str::from_utf8(text).map_err(|_| "not UTF-8")?;
    let raw: &RawValue = serde_json::from_str(text).map_err(|_| "invalid JSON")?;
    let Some(members) = raw.get().strip_prefix('{') else { return Err("not a JSON object") };
    let named: BTreeMap<String, &RawValue> = serde_json::from_str(raw.get()).map_err(|_| "invalid JSON")?;
    if named.contains_key("id") {
        return Ok(raw.to_string());
    }
    let (id, comma) = (id_of(raw.get(), session, number), if named.is_empty() { "" } else { "," });
    Ok(format!("{{\"id\":\"{id}\"{comma}{members}"))
}

/// Returns the id for a line of a session, always the same. A UUID, because strict keys accept no other ids.
fn id_of(text: &str, session: Option<Uuid>, number: u64) -> Uuid {
    let mut digest = Sha256::new();
    digest.update(session.unwrap_or_default());
    digest.update(number.to_be_bytes());
    digest.update(text);
    let digest: [u8; 32] = digest.finalize().into();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// Sends a batch and returns how many of its events are new.
async fn send(client: &Client, what: &Import, batch: &Batch) -> Result<u64, Failure> {
    if batch.events.is_empty() {
        return Ok(0);
    }
    let body = batch.body(what.session);
    let digest = HEXLOWER.encode(&Sha256::digest(&body));
    let key = HeaderValue::try_from(digest).map_err(|error| Failure::Failed(error.to_string()))?;
    let content = RequestContent {
        media_type: Some("application/json"),
        encoding: Some("gzip"),
        headers: HeaderMap::from_iter([(IDEMPOTENCY_KEY, key)]),
        body: gzip(body.as_bytes())?,
        ..RequestContent::default()
    };
    let answer = send_until_accepted(client, "/events", &Vec::new(), &content, Duration::from_secs(what.patience)).await;
    match answer {
        Ok(answer) => Ok(answer["events_created"].as_u64().unwrap_or_default()),
        Err(Failure::Rejected(mut refusal)) => {
            // Replace the index in the request with the line in the file.
            for fault in refusal.problem.iter_mut().flat_map(|problem| &mut problem.errors) {
                let at = fault.index.take().and_then(|index| batch.lines.get(index));
                let place = at.map(|line| format!("line {line}: ")).unwrap_or_default();
                fault.detail = format!("{place}{}", fault.detail);
            }
            crate::terminal::print_message(&format!(
                "Nothing from line {0} on was sent. Fix the file, then continue with --from-line {0}.",
                batch.lines[0]
            ));
            Err(Failure::Rejected(refusal))
        }
        Err(failure) => Err(failure),
    }
}
