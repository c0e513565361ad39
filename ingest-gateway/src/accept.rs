//! The end of every write: the record is appended, and the answer counts what is new.
//!
//! Must not count before the log has acknowledged.

use crate::bodies::WriteRequest;
use crate::idempotency::{Claim, Fingerprint};
use crate::normalised::Normalised;
use crate::{State, metrics};
use chrono::{DateTime, Utc};
use lru::LruCache;
use schemas::ids::OrgId;
use schemas::log::{LogEvent, LogRecord, RecordKind};
use schemas::session::SessionFacts;
use service_kit::auth::Caller;
use service_kit::http::ApiError;
use std::num::NonZeroUsize;
use std::sync::Mutex;

/// Requests whose redelivery is recognised.
const REMEMBERED: usize = 100_000;

/// Requests accepted lately: a full redelivery of one answers `events_created: 0`.
pub(crate) struct Remembered(Mutex<LruCache<Fingerprint, ()>>);

impl Remembered {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(LruCache::new(NonZeroUsize::new(REMEMBERED).expect("the constant is not zero"))))
    }

    /// Takes a request down; answers whether it was known.
    fn add(&self, fingerprint: Fingerprint) -> bool {
        self.0.lock().expect("no holder of the lock panics").put(fingerprint, ()).is_some()
    }
}

impl State {
    /// Everything that can refuse a request before it changes anything: 413, and 422 when its `Idempotency-Key` came with
    /// other events.
    pub(crate) fn claim(&self, batch: &Normalised<'_>, request: &WriteRequest) -> Result<Claim<'_>, ApiError> {
        batch.require_fits_log(&request.body)?;
        self.idempotency.claim(batch.org, request.idempotency_key.as_deref(), batch.fingerprint())
    }

    /// Appends events; answers how many of them are new as far as this gateway remembers. A redelivery goes to
    /// the log again: it changes no figure, and memory is no proof that another gateway's record is complete.
    pub(crate) async fn accept(
        &self,
        caller: &Caller,
        kind: RecordKind,
        session: Option<SessionFacts>,
        events: Vec<LogEvent>,
        request_id: &str,
        claim: &Claim<'_>,
    ) -> Result<usize, ApiError> {
        let count = events.len();
        let unresolved = events.iter().filter(|event| event.is_unresolved() || event.is_nameless).count();
        self.append(caller, kind, session, events, request_id).await?;
        let is_known = self.remembered.add(claim.fingerprint);
        metrics::accepted(count);
        metrics::unresolved(unresolved);
        Ok(if is_known { 0 } else { count })
    }

    /// Appends one record.
    pub(crate) async fn append(
        &self,
        caller: &Caller,
        kind: RecordKind,
        session: Option<SessionFacts>,
        events: Vec<LogEvent>,
        request_id: &str,
    ) -> Result<(), ApiError> {
        let record = record(caller.org_id, kind, session, events, self.clock.now());
        self.log.append(&record, request_id).await
    }
}

/// What one accepted write becomes on the log.
pub(crate) fn record(
    org: OrgId,
    kind: RecordKind,
    session: Option<SessionFacts>,
    events: Vec<LogEvent>,
    now: DateTime<Utc>,
) -> LogRecord {
    let v = LogRecord::version_of(&events);
    LogRecord { v, org, received_at_us: now.timestamp_micros(), kind, session, events }
}
