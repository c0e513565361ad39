//! The log: topic names, and the record of one accepted request (docs/api/event-keys.md#replays-and-records).
//!
//! Replays read records of any age, so only add optional members. Increase [`RECORD_VERSION`] if an older worker would misread a new
//! record.

use crate::bots::Purpose;
use crate::click_tokens::{LinkRelation, site_of_url};
use crate::crawler::Crawler;
use crate::event::SourceRole;
use crate::event_key::EventKey;
use crate::ids::{DrainId, OrgId, SessionId};
use crate::secrets::SecretHash;
use crate::session::{SessionFacts, SessionReport};
use crate::signature::RecordedSignature;
use crate::site::ContentUrl;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with_macros::skip_serializing_none;

pub const TELEMETRY_TOPIC: &str = "telemetry.v1";
/// Records that a worker could not decode, unchanged.
pub const REJECTED_TOPIC: &str = "telemetry.rejected.v1";
/// The record version that this build writes, and the newest it reads. Workers reject newer records, so update workers before gateways.
/// Increase the version if an older worker would store a new record wrongly, or if a rule for keys or sites changes: replaying older
/// records must still produce the same rows.
pub const RECORD_VERSION: u16 = 1;
/// Maximum size of a record, which the topics must accept: a decompressed request of 4 MiB, and what normalizing adds.
pub const MAX_RECORD_BYTES: usize = 8 * 1024 * 1024;

/// Maximum size of a dead letter's headers and framing, without its record.
pub const MAX_DEAD_LETTER_OVERHEAD_BYTES: usize = 16 * 1024;

pub mod header {
    /// `telemetry.v1/<record version>`.
    pub const SCHEMA: &str = "schema";
    pub const ORG: &str = "org";
    /// The request id of the write.
    pub const REQUEST_ID: &str = "request-id";
    /// The store buckets of its reports ([`crate::shard::Buckets`]).
    pub const BUCKETS: &str = "buckets";
    /// On a dead letter: the reason why decoding failed.
    pub const REASON: &str = "reason";
    /// On a dead letter: `topic/partition/offset` of the original.
    pub const ORIGIN: &str = "origin";
    /// On the marker for a dead letter that was retried: `topic/partition/offset` of the copy. The marker also has the origin.
    pub const RETRIED: &str = "retried";
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordKind {
    Events,
    SessionStarted,
    SessionEnded,
    Session,
    /// A part of `POST /drains/{provider}`.
    Drain,
}

/// One accepted request, or one batch of a drain's lines.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LogRecord {
    /// The [`RECORD_VERSION`] of the build that wrote it.
    pub v: u16,
    pub org: OrgId,
    /// Whether `org` is a content owner, which can report only for its verified hosts. Its reports take precedence in describing a fetch
    /// (docs/api/counting.md#5-one-report-represents-the-event).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_owners: bool,
    /// When the gateway accepted it, in microseconds UTC. The earlier of two copies wins.
    pub received_at_us: i64,
    pub kind: RecordKind,
    /// The drain, if the lines were sent with a drain key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainId>,
    /// Facts about the session, if the request has a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionFacts>,
    /// The reporter's sessions that events name, without duplicates. The worker stores them before the events become visible.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named_sessions: Vec<SessionReport>,
    /// Normalized events with keys, without members that must not be stored.
    #[serde(default)]
    pub events: Vec<LogEvent>,
    /// Bot requests in a drain that returned no content. They aren't events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_fetches: Vec<FailedFetch>,
    /// The request's signature; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Box<RecordedSignature>>,
}

impl LogRecord {
    /// Returns whether the worker must look up a click token or an agent.
    pub fn is_unresolved(&self) -> bool {
        self.events.iter().any(LogEvent::needs_worker_lookup)
    }
}

/// A bot request that returned no content, according to its status (docs/api/drains.md#what-is-kept). Contains neither query nor user
/// agent, because no figure depends on them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedFetch {
    /// The key that the line's event would have if it had returned content ([`LogEvent::own_key`]).
    pub own_key: EventKey,
    /// Time of the request in milliseconds UTC.
    pub at_ms: i64,
    /// Reversed canonical host; empty if it can't be owned.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub site: String,
    /// Path of the URL, without query.
    pub path: String,
    pub bot: String,
    pub operator: String,
    pub purpose: Purpose,
    /// Whether the request came from an address that the operator publishes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
    /// HTTP status; 0 if the request wasn't answered.
    pub status: u16,
    /// The agent's signature; absent if the line has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Box<RecordedSignature>>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LogEvent {
    /// The reporter's own key, derived from the report's id, the `Idempotency-Key` or its content. Contains the organization but not the
    /// host, because a click token may still determine the host.
    pub own_key: EventKey,
    /// Key from the correlation id and the content of a fetch. Observers with the same key and host report the same fetch. The gateway
    /// computes it, because `content_url` may lose click tokens afterwards.
    pub correlation_key: Option<EventKey>,
    /// The reporter's own id, canonical.
    pub id: Option<String>,
    #[serde(rename = "type")]
    pub event_type: String,
    /// Time of the event in milliseconds UTC.
    pub at_ms: i64,
    pub source_role: Option<SourceRole>,
    /// Reversed host; empty if it can't be owned.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub site: String,
    pub content_url: Option<String>,
    pub content_id: Option<String>,
    /// Correlation id, canonical.
    pub content_telemetry_id: Option<String>,
    pub session_id: Option<SessionId>,
    /// The organization that owns the session, if it isn't the reporter: the issuer of the click token.
    pub session_org: Option<OrgId>,
    /// How the event's URL relates to the token's link. Set together with `session_org`.
    pub link: Option<LinkRelation>,
    /// Reversed host of that link, if `link` is [`LinkRelation::Other`] and the host can be owned. An owner of both hosts may learn which
    /// session the click belongs to (docs/api/click-tokens.md#what-a-token-shows).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub link_site: String,
    /// Hash of a click token that the gateway could not look up. The worker looks it up as of `received_at_us`. If the reporter also names
    /// a `session_id`, its own token must belong to that session, and another organization's token doesn't bind the event.
    pub ctx_hash: Option<SecretHash>,
    /// Hash of a click token that doesn't bind the event: an unknown, expired or foreign token next to a session, or a token on a type that
    /// can't be bound.
    pub kept_ctx_hash: Option<SecretHash>,
    /// Name of the responding agent. If absent, the worker uses the session's agent.
    pub agent_id: Option<String>,
    pub turn_id: Option<String>,
    pub output_id: Option<String>,
    /// The bot and its response, if an edge or origin reported them.
    pub crawler: Option<Box<Crawler>>,
    /// The agent's signature in a log line. The worker sets the request's signature for other events.
    pub signature: Option<Box<RecordedSignature>>,
    /// The type-specific object, as written.
    pub data: Option<Box<RawValue>>,
    /// An object of unknown members, as written.
    pub extra: Option<Box<RawValue>>,
}

impl LogEvent {
    /// Sets the session of the event's click token, and the token's URL if the event has none. Removes the agent for a foreign session,
    /// because only that organization can name it.
    ///
    /// Call it only after computing `own_key`: a retry is the same report whether or not its token could be looked up.
    pub fn bind_to_click(&mut self, reporter: OrgId, issuer: OrgId, session: SessionId, token_url: &str) {
        self.ctx_hash = None;
        self.session_id = Some(session);
        self.session_org = Some(issuer).filter(|issuer| *issuer != reporter);
        let is_taken = self.content_url.is_none();
        if let Some(url) = ContentUrl::parse(token_url).ok().filter(|_| is_taken) {
            self.site = url.site.map(|site| site.as_str().to_owned()).unwrap_or_default();
            self.content_url = Some(url.stored);
        }
        if self.session_org.is_some() {
            self.agent_id = None;
            let link = |url: &str| if is_taken { LinkRelation::Taken } else { LinkRelation::compare(url, token_url) };
            let link = self.content_url.as_deref().map_or(LinkRelation::Other, link);
            let other = (link == LinkRelation::Other).then(|| site_of_url(token_url)).flatten();
            self.link_site = other.map(|site| site.as_str().to_owned()).unwrap_or_default();
            self.link = Some(link);
        }
    }

    /// Returns whether this issuer's click token can bind the event. A session id belongs to its reporter, so it isn't compared with
    /// another organization's.
    pub fn can_be_bound_by(&self, reporter: OrgId, issuer: OrgId) -> bool {
        self.session_id.is_none() || issuer == reporter
    }

    /// Returns whether the session depends on a click token that has not been looked up.
    pub fn is_unresolved(&self) -> bool {
        self.ctx_hash.is_some()
    }

    /// Returns whether the worker must look up the session's agent.
    pub fn lacks_agent(&self) -> bool {
        self.agent_id.is_none() && self.session_id.is_some()
    }

    /// Returns whether the worker must look up a click token or an agent.
    pub fn needs_worker_lookup(&self) -> bool {
        self.is_unresolved() || self.lacks_agent()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::PlainClickToken;

    const RECORD: &str = r#"{"v":1,"org":"00000000-0000-0000-0000-000000000001","received_at_us":1790000000000000,"kind":"events",
        "events":[{"own_key":"0000000000000000000000000000000a","type":"content_engaged","at_ms":1790000000000}]}"#;

    #[test]
    fn omits_absent_members() {
        let record: LogRecord = serde_json::from_str(RECORD).unwrap();
        assert!(!record.is_unresolved() && record.v == RECORD_VERSION);
        let written = serde_json::to_string(&record).unwrap();
        let absent = ["is_owners", "ctx_hash", "named_sessions", "failed_fetches", "signature"];
        assert!(absent.iter().all(|member| !written.contains(member)), "{written}");
    }

    #[test]
    fn stores_unresolved_tokens_as_hashes() {
        let mut record: LogRecord = serde_json::from_str(RECORD).unwrap();
        record.events[0].session_id = Some(SessionId(uuid::Uuid::max()));
        assert!(record.is_unresolved(), "the session's agent is not looked up");
        record.events[0].agent_id = Some("bot".to_owned());
        assert!(!record.is_unresolved());
        record.events[0].session_id = None;
        record.events[0].ctx_hash = Some(PlainClickToken::presented("ctx_secret").hash());
        assert!(record.is_unresolved());
        let written = serde_json::to_string(&record).unwrap();
        // SHA-256 of `ctx_secret`.
        assert!(
            written.contains(r#""ctx_hash":"35cd9e19021627ec4370175f47eb4d73385c2770a7eda01f351817fccc0eae4f""#),
            "{written}"
        );
        let read: LogRecord = serde_json::from_str(&written).unwrap();
        assert!(read.events[0].ctx_hash == record.events[0].ctx_hash);
        for bad in ["", "00", &"g".repeat(64), &"0".repeat(66), &"é".repeat(32)] {
            let forged = written.replace("35cd9e19021627ec4370175f47eb4d73385c2770a7eda01f351817fccc0eae4f", bad);
            assert!(serde_json::from_str::<LogRecord>(&forged).is_err(), "{bad}");
        }
    }

    #[test]
    fn click_token_sets_session_and_url() {
        let event = |members: &str| {
            let record: LogRecord = serde_json::from_str(&RECORD.replace(r#""type":"#, &format!(r#"{members}"type":"#))).unwrap();
            record.events[0].clone()
        };
        let (reporter, issuer, session) =
            (OrgId(uuid::Uuid::from_u128(1)), OrgId(uuid::Uuid::from_u128(2)), SessionId(uuid::Uuid::from_u128(3)));
        let bound = |members: &str, issuer: OrgId| {
            let mut event = event(members);
            event.bind_to_click(reporter, issuer, session, "https://www.shop.test/offer");
            assert_eq!(event.link_site, if event.link == Some(LinkRelation::Other) { "test.shop" } else { "" }, "{event:?}");
            (event.content_url, event.site, event.session_org, event.link, event.agent_id)
        };
        let own = bound(r#""agent_id":"bot","#, reporter);
        assert_eq!(
            (own.0.as_deref(), own.2, own.3),
            (Some("https://www.shop.test/offer"), None, None),
            "the reporter's own token"
        );
        assert_eq!(own.4.as_deref(), Some("bot"));
        let (url, site, org, link, agent) = bound(r#""agent_id":"bot","#, issuer);
        assert_eq!((url.as_deref(), org, link), (Some("https://www.shop.test/offer"), Some(issuer), Some(LinkRelation::Taken)));
        assert_eq!(agent, None, "a reporter can't name the agent of another organization's session");
        let elsewhere = bound(r#""content_url":"https://evil.test/","site":"test.evil","#, issuer);
        assert_eq!((elsewhere.1.as_str(), elsewhere.3), ("test.evil", Some(LinkRelation::Other)));
        let same = bound(&format!(r#""content_url":"https://www.shop.test/thanks","site":"{site}","#), issuer);
        assert_eq!((same.0.as_deref(), same.3), (Some("https://www.shop.test/thanks"), Some(LinkRelation::Same)));
    }
}
