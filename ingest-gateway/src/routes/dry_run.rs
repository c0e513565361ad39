//! Runs a write without side effects: returns a body's log record, or the reason it would be rejected.
//!
//! Uses the code path of real requests, minus everything with state (keys, hosts, tokens, the log), because fuzzing must not test a copy of
//! the rules.

use super::events::read_events;
use super::sessions::bulk::{read_session, unnamed_session};
use super::sessions::end::read_end;
use super::sessions::start::read_start;
use crate::click_tokens::read_request;
use crate::record::accept::record;
use crate::record::event_batch::EventBatch;
use crate::request::cpu_permits::CpuPermit;
use crate::request::limits::Limits;
use crate::validate::Tokens;
use chrono::{DateTime, Utc};
use schemas::bots::BotTable;
use schemas::identity::OrgType;
use schemas::ids::{ApiKeyId, OrgId, SessionId};
use schemas::log::{LogRecord, RecordKind};
use schemas::session::SessionFacts;
use service_kit::auth::Caller;
use service_kit::http::ApiError;
use uuid::Uuid;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Document {
    Events,
    Session,
    Start,
    End,
    ClickToken,
}

impl Document {
    /// Every endpoint that accepts a body, with its path.
    pub const ALL: [(Self, &str); 5] = [
        (Self::Events, "/events"),
        (Self::Session, "/sessions/bulk"),
        (Self::Start, "/sessions/start"),
        (Self::End, "/sessions/end"),
        (Self::ClickToken, "/click-tokens"),
    ];
}

/// Returns a body's log record, for a caller that may report for every host and has no click tokens. A click token request has an empty
/// record.
pub fn dry_run(body: &[u8], document: Document, limits: &Limits, now: DateTime<Utc>) -> Result<LogRecord, ApiError> {
    let caller = Caller {
        key_id: ApiKeyId(Uuid::nil()),
        org_id: OrgId(Uuid::nil()),
        org_type: OrgType::Platform,
        scopes: Vec::new(),
        drain: None,
        strict: false,
        require_signature: false,
        owner: None,
    };
    let org = caller.org_id;
    let normalized = |batch: EventBatch<'_>| {
        let bound = batch.bind_to(&Tokens::new());
        bound.map(|bound| bound.normalize(&CpuPermit::for_dry_run(), org, None, &BotTable::bundled()).events)
    };
    match document {
        Document::Events => {
            let events = normalized(read_events(body, limits, now, &caller)?)?;
            Ok(record(&caller, RecordKind::Events, None, events, now))
        }
        Document::Session => {
            let (facts, batch) = read_session(body, || unnamed_session(org, None, body), limits, now, &caller)?;
            Ok(record(&caller, RecordKind::Session, Some(facts), normalized(batch)?, now))
        }
        Document::Start => {
            let facts = read_start(body, SessionId(Uuid::nil()), limits, now)?;
            Ok(record(&caller, RecordKind::SessionStarted, Some(facts), Vec::new(), now))
        }
        Document::End => {
            let (session, outcome) = read_end(body, limits)?;
            let facts = SessionFacts { outcome, ..SessionFacts::new(session) };
            Ok(record(&caller, RecordKind::SessionEnded, Some(facts), Vec::new(), now))
        }
        Document::ClickToken => {
            read_request(body)?;
            Ok(record(&caller, RecordKind::Events, None, Vec::new(), now))
        }
    }
}
