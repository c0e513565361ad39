//! A body of `POST /drains/{provider}`, for every provider.
//!
//! - Reading a body returns the same lines as reading it line by line, compressed or not.
//! - Repeated lines become the same events.
//! - The worker decodes every stored event.
//! - No data that must not be stored reaches the log.

use crate::event::{check_event, check_worker, now, texts};
use flate2::Compression;
use flate2::write::GzEncoder;
use ingest_gateway::{DrainDryRun, LineOutcome};
use schemas::bots::BotTable;
use schemas::identity::DrainProvider;
use schemas::ids::OrgId;
use schemas::log::{LogEvent, LogRecord, RECORD_VERSION, RecordKind};
use std::io::{Cursor, Write};
use uuid::Uuid;

/// Checks the properties. Returns whether any provider would store an event from the body.
pub fn run(body: &[u8]) -> bool {
    DrainProvider::ALL.map(|provider| check(body, provider)).contains(&true)
}

/// Number of lines, and the stored events.
struct Read {
    lines: u64,
    events: Vec<LogEvent>,
}

fn dry_run(provider: DrainProvider) -> DrainDryRun {
    DrainDryRun { provider, host: Some("www.example.com".to_owned()), hosts: Vec::new(), bots: BotTable::bundled(), now: now() }
}

fn one_by_one(body: &[u8], provider: DrainProvider) -> Option<Read> {
    let mut read = Read { lines: 0, events: Vec::new() };
    let taken = dry_run(provider).lines(body, |line| {
        read.lines += u64::from(!matches!(line.outcome, LineOutcome::Trial));
        if let LineOutcome::Kept(event) = line.outcome {
            read.events.push(*event);
        }
        Ok(())
    });
    taken.is_ok().then_some(read)
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).expect("writing to memory cannot fail");
    encoder.finish().expect("writing to memory cannot fail")
}

fn check(body: &[u8], provider: DrainProvider) -> bool {
    let whole = dry_run(provider).gzip_body(Cursor::new(gzip(body))).ok();
    let read = one_by_one(body, provider);
    // Firehose wraps lines in records.
    if provider == DrainProvider::Firehose {
        return whole.is_some_and(|(_, kept)| kept > 0);
    }
    assert_eq!(whole, read.as_ref().map(|read| (read.lines, read.events.len() as u64)), "body and lines differ: {provider:?}");
    let Some(Read { events, .. }) = read else { return false };
    let again = one_by_one(body, provider).expect("the same body is accepted again");
    assert_eq!(texts(&again.events), texts(&events), "a repeated line becomes a different event: {provider:?}");
    events.iter().for_each(check_event);
    let is_kept = !events.is_empty();
    if is_kept {
        let received_at_us = now().timestamp_micros();
        let (org, kind) = (OrgId(Uuid::nil()), RecordKind::Drain);
        let (named_sessions, failed_fetches) = (Vec::new(), Vec::new());
        let (v, drain, session, is_owners) = (RECORD_VERSION, None, None, false);
        check_worker(&LogRecord {
            v,
            org,
            is_owners,
            received_at_us,
            kind,
            drain,
            session,
            named_sessions,
            events,
            failed_fetches,
            signature: None,
        });
    }
    is_kept
}
