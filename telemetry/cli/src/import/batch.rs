//! Batches of lines in their provider's format.
//!
//! Lines are sent unchanged, because their identity is derived from their content.

use super::signature::signature;
use crate::client::RequestContent;
use crate::failure::Failure;
use crate::retry::gzip;
use crate::secret::Secret;
use axum::body::Bytes;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use schemas::identity::{DrainBody, DrainProvider};
use serde_json::json;
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// Approximate limits of a batch, small enough for a slow server's deadline.
const MAX_BYTES: usize = 1024 * 1024;
const MAX_LINES: u64 = 5_000;
/// Maximum size of a record in a Firehose delivery.
const RECORD_BYTES: usize = 512 * 1024;

/// Start of the line with the column names in a W3C log or a standard `CloudFront` log.
pub(super) const FIELDS: &[u8] = b"#Fields:";

/// The directives read so far. Each batch is a separate body, so it starts with them.
#[derive(Clone, Default)]
pub(super) enum Heading {
    #[default]
    Unread,
    /// The log doesn't start with a directive, so it has none.
    Absent,
    /// The latest `#Fields` line; empty before the first one.
    Fields(Vec<u8>),
}

impl Heading {
    /// Returns the state at this offset, after the given `#Fields` line.
    pub(super) fn resume_at(from: u64, fields: Option<Vec<u8>>) -> Self {
        match fields {
            Some(fields) => Self::Fields(fields),
            None if from == 0 => Self::Unread,
            None => Self::Absent,
        }
    }

    /// Returns whether a line is a directive, which applies to later lines. Lines in text logs contain a quote.
    fn read_directive(&mut self, line: &[u8]) -> bool {
        let is_directive = line.starts_with(b"#") && !line.contains(&b'"');
        if matches!(self, Self::Unread) && !line.is_empty() {
            *self = if is_directive { Self::Fields(Vec::new()) } else { Self::Absent };
        }
        let Self::Fields(fields) = self else { return false };
        if line.starts_with(FIELDS) {
            line.clone_into(fields);
        }
        is_directive
    }
}

pub(super) struct Batch {
    text: Vec<u8>,
    heading: Heading,
    pub(super) lines: u64,
    /// Offset in the log from which to read next.
    pub(super) end: u64,
}

impl Batch {
    /// Creates an empty batch that starts at this offset.
    pub(super) fn starting_at(end: u64, heading: Heading) -> Self {
        let text = match &heading {
            Heading::Fields(fields) if !fields.is_empty() => [fields, b"\n".as_slice()].concat(),
            Heading::Unread | Heading::Absent | Heading::Fields(_) => Vec::new(),
        };
        Self { text, heading, lines: 0, end }
    }

    /// Creates an empty batch that starts where this one ended.
    pub(super) fn next(&self) -> Self {
        Self::starting_at(self.end, self.heading.clone())
    }

    /// Adds a line; ignores blank ones.
    pub(super) fn add(&mut self, line: &[u8], end: u64) {
        self.end = end;
        if !line.is_empty() {
            self.text.extend_from_slice(line);
            self.text.push(b'\n');
            self.lines += u64::from(!self.heading.read_directive(line));
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.text.len() >= MAX_BYTES || self.lines >= MAX_LINES
    }

    pub(super) fn content(
        &self,
        provider: DrainProvider,
        now_ms: i64,
        secret: Option<&Secret>,
    ) -> Result<RequestContent, Failure> {
        let (media_type, body) = match provider.facts().body {
            DrainBody::FirehoseRecords => ("application/json", Bytes::from(self.delivery(now_ms))),
            DrainBody::Text => ("text/plain", Bytes::copy_from_slice(&self.text)),
            DrainBody::Json => ("application/x-ndjson", Bytes::copy_from_slice(&self.text)),
        };
        let body = gzip(&body)?;
        let headers = secret.map(|secret| signature(secret, &body)).transpose()?.unwrap_or_default();
        Ok(RequestContent { media_type: Some(media_type), encoding: Some("gzip"), headers, body, ..RequestContent::default() })
    }

    /// Returns a Firehose delivery. The same lines have the same id.
    fn delivery(&self, now_ms: i64) -> String {
        let digest: [u8; 32] = Sha256::digest(&self.text).into();
        let id = Uuid::from_slice(&digest[..16]).unwrap_or_default();
        let records: Vec<_> = self.records().map(|record| json!({"data": BASE64_STANDARD.encode(record)})).collect();
        json!({"requestId": id.to_string(), "timestamp": now_ms, "records": records}).to_string()
    }

    fn records(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.text.as_slice();
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let most = rest.len().min(RECORD_BYTES);
            // Cut at the end of a line. A line longer than a record is sent whole.
            let cut = match rest[..most].iter().rposition(|byte| *byte == b'\n') {
                Some(at) => at + 1,
                None => rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1),
            };
            let (record, others) = rest.split_at(cut);
            rest = others;
            Some(record)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_deliveries_between_lines() {
        let mut batch = Batch::starting_at(0, Heading::default());
        for n in 0..5_000_u64 {
            batch.add(format!("{n} {}", "x".repeat(300)).as_bytes(), n);
        }
        batch.add(b"", 5_000);
        let records: Vec<&[u8]> = batch.records().collect();
        assert!(records.len() > 1 && records.iter().all(|record| record.ends_with(b"\n")));
        assert_eq!(records.concat(), batch.text);
        assert_eq!((batch.lines, batch.end), (5_000, 5_000));
    }

    #[test]
    fn each_batch_starts_with_the_column_names() {
        let mut batch = Batch::starting_at(0, Heading::default());
        for line in ["#Version: 1.0", "#Fields: date time", "2026-11-01 10:00:00", "#Fields: time date", "10:00:00 2026-11-01"] {
            batch.add(line.as_bytes(), 1);
        }
        assert_eq!(batch.lines, 2, "directives aren't lines");
        let mut next = batch.next();
        next.add(b"10:00:01 2026-11-01", 2);
        assert_eq!((next.text.as_slice(), next.lines), (b"#Fields: time date\n10:00:01 2026-11-01\n".as_slice(), 1));
        let mut plain = Batch::starting_at(0, Heading::default());
        ["#a.test 192.0.2.1 \"GET\"", "#b.test 192.0.2.1 \"GET\""].iter().for_each(|line| plain.add(line.as_bytes(), 1));
        assert_eq!((plain.lines, plain.next().text.len()), (2, 0), "a host that starts with # is not a directive");
    }
}
