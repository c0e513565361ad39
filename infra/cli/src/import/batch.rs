//! Lines that are sent together, in the form in which their provider sends them.
//!
//! Must send each line as it stands in the log: its identity is made of it.

use super::signature::signature;
use crate::client::Content;
use crate::failure::Failure;
use crate::secret::Secret;
use crate::sending::gzip;
use axum::body::Bytes;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use schemas::identity::DrainProvider;
use serde_json::json;
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// A batch has at most about so many bytes, and so many lines: a slow server takes it in within its deadline.
const MAX_BYTES: usize = 1024 * 1024;
const MAX_LINES: u64 = 5_000;
/// Lines of one record of a Firehose delivery.
const RECORD_BYTES: usize = 512 * 1024;

/// Lines that wait to be sent.
pub(super) struct Batch {
    text: Vec<u8>,
    pub(super) lines: u64,
    /// Up to which byte of the log nothing needs to be read again.
    pub(super) end: u64,
}

impl Batch {
    /// An empty one that goes on after so many bytes of the log.
    pub(super) fn after(end: u64) -> Self {
        Self { text: Vec::new(), lines: 0, end }
    }

    /// Adds a line; a blank one is none.
    pub(super) fn add(&mut self, line: &[u8], end: u64) {
        self.end = end;
        if !line.is_empty() {
            self.text.extend_from_slice(line);
            self.text.push(b'\n');
            self.lines += 1;
        }
    }

    /// Whether it is as large as one may be.
    pub(super) fn is_full(&self) -> bool {
        self.text.len() >= MAX_BYTES || self.lines >= MAX_LINES
    }

    /// As it is sent.
    pub(super) fn content(&self, provider: DrainProvider, now_ms: i64, secret: Option<&Secret>) -> Result<Content, Failure> {
        let (media_type, body) = match provider {
            DrainProvider::Firehose => ("application/json", Bytes::from(self.delivery(now_ms))),
            DrainProvider::Combined => ("text/plain", Bytes::copy_from_slice(&self.text)),
            _ => ("application/x-ndjson", Bytes::copy_from_slice(&self.text)),
        };
        let body = gzip(&body)?;
        let headers = secret.map(|secret| signature(secret, &body)).transpose()?.unwrap_or_default();
        Ok(Content { media_type: Some(media_type), encoding: Some("gzip"), headers, body, ..Content::default() })
    }

    /// A delivery as Firehose sends one; the same lines have the same id.
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
            // at the end of a line; one that is longer than a record goes whole
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
    fn the_records_of_a_delivery_are_its_lines_cut_between_lines() {
        let mut batch = Batch::after(0);
        for n in 0..5_000_u64 {
            batch.add(format!("{n} {}", "x".repeat(300)).as_bytes(), n);
        }
        batch.add(b"", 5_000);
        let records: Vec<&[u8]> = batch.records().collect();
        assert!(records.len() > 1 && records.iter().all(|record| record.ends_with(b"\n")));
        assert_eq!(records.concat(), batch.text);
        assert_eq!((batch.lines, batch.end), (5_000, 5_000));
    }
}
