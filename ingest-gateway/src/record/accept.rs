//! The last step of every write: appends the record, and counts new events for the response.

use super::normalized_request::NormalizedRequest;
use crate::request::cpu_permits::CpuPermit;
use crate::request::idempotency::{Claim, Fingerprint};
use crate::request::write_request::WriteRequest;
use crate::{State, metrics};
use chrono::{DateTime, Utc};
use lru::LruCache;
use schemas::identity::OrgType;
use schemas::log::{LogEvent, LogRecord, RECORD_VERSION, RecordKind};
use schemas::session::SessionFacts;
use service_kit::auth::Caller;
use service_kit::http::ApiError;
use std::num::NonZeroUsize;
use std::sync::Mutex;

const REMEMBERED: usize = 100_000;

/// Recently accepted requests, so that repeats get `events_created: 0`.
pub(crate) struct AcceptedRequests(Mutex<LruCache<Fingerprint, ()>>);

impl AcceptedRequests {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(LruCache::new(NonZeroUsize::new(REMEMBERED).expect("the constant is not zero"))))
    }

    /// Remembers a request. Returns whether it was known.
    fn add(&self, fingerprint: Fingerprint) -> bool {
        self.0.lock().expect("no holder of the lock panics").put(fingerprint, ()).is_some()
    }
}

impl State {
    /// Runs every check that can reject a request before anything changes. Returns 413 for a record that is too large, and 422 if its
    /// `Idempotency-Key` was used with other events.
    pub(crate) fn claim<'a>(
        &self,
        turn: &CpuPermit,
        batch: NormalizedRequest<'a>,
        request: &WriteRequest,
    ) -> Result<(NormalizedRequest<'a>, Claim<'_>), ApiError> {
        batch.require_fits_log(turn, request.body.len())?;
        let claim = self.idempotency.claim(batch.org, request.idempotency_key.as_deref(), batch.fingerprint())?;
        Ok((batch, claim))
    }

    /// Appends events and returns how many are new, as far as this gateway remembers. A repeat is appended again: it doesn't change
    /// figures, and this memory doesn't prove that another gateway's record is complete.
    pub(crate) async fn accept(&self, record: &LogRecord, request: &WriteRequest, claim: &Claim<'_>) -> Result<usize, ApiError> {
        let count = record.events.len();
        let unresolved = record.events.iter().filter(|event| event.is_unresolved()).count();
        self.append(record, request).await?;
        let is_known = self.remembered.add(claim.fingerprint);
        metrics::accepted(count);
        metrics::unresolved(unresolved);
        Ok(if is_known { 0 } else { count })
    }

    pub(crate) async fn append(&self, record: &LogRecord, request: &WriteRequest) -> Result<(), ApiError> {
        let message = |_: &CpuPermit| self.log.message(record, &request.request_id);
        self.log.append(&self.cpu_permits.run(&request.body, message).await?).await
    }
}

pub(crate) fn record(
    caller: &Caller,
    kind: RecordKind,
    session: Option<SessionFacts>,
    events: Vec<LogEvent>,
    now: DateTime<Utc>,
) -> LogRecord {
    LogRecord {
        v: RECORD_VERSION,
        org: caller.org_id,
        is_owners: caller.org_type == OrgType::ContentOwner,
        received_at_us: now.timestamp_micros(),
        kind,
        drain: None,
        session,
        named_sessions: Vec::new(),
        events,
        failed_fetches: Vec::new(),
        signature: None,
    }
}
