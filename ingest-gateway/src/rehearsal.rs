//! A write without its effects: what a body would become on the log, or why it would be refused.
//!
//! Must stay the path that requests take, minus everything with state (keys, hosts, tokens, the log): it is what
//! fuzzing enters, and a copy of the rules would test the copy.

use crate::accept::record;
use crate::batch::Batch;
use crate::bodies;
use crate::envelope::Envelope;
use crate::limits::Limits;
use crate::sessions::{read_session, unnamed_session};
use crate::validate::{Context, Faults, Tokens};
use chrono::{DateTime, Utc};
use schemas::identity::OrgType;
use schemas::ids::{ApiKeyId, OrgId};
use schemas::log::{LogRecord, RecordKind};
use service_kit::auth::Caller;
use service_kit::http::ApiError;
use uuid::Uuid;

/// Which endpoint the body is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Document {
    /// `POST /events`.
    Events,
    /// `POST /sessions/bulk`.
    Session,
}

/// The record a body becomes at its endpoint, for a caller that may report for every host and knows no click token.
pub fn rehearse(body: &[u8], document: Document, limits: &Limits, now: DateTime<Utc>) -> Result<LogRecord, ApiError> {
    let caller = Caller {
        key_id: ApiKeyId(Uuid::nil()),
        org_id: OrgId(Uuid::nil()),
        org_type: OrgType::Platform,
        scopes: Vec::new(),
        strict: false,
    };
    let normalised = |batch: Batch<'_>| {
        let bound = batch.bind_to(&Tokens::new());
        bound.map(|bound| bound.normalise(caller.org_id, None).events)
    };
    match document {
        Document::Events => {
            let envelope = Envelope::parse(body, limits.max_events)?;
            let mut faults = Faults::default();
            let context = Context::of(&envelope, limits, now, &caller, &mut faults);
            let events = normalised(Batch::validate(&envelope.events, context, faults))?;
            Ok(record(caller.org_id, RecordKind::Events, None, events, now))
        }
        Document::Session => {
            let object = bodies::as_object(bodies::as_text(body)?)?;
            let (facts, batch) = read_session(&object, unnamed_session(caller.org_id, None, body), limits, now, &caller)?;
            Ok(record(caller.org_id, RecordKind::Session, Some(facts), normalised(batch)?, now))
        }
    }
}
