//! The log: topic names and the record that one accepted request becomes (docs/api/event-keys.md#replays-and-records).
//!
//! A replay reads records of any age: add optional members only, and increase [`RECORD_VERSION`] when an older worker would misread a
//! new record.

use crate::bots::Purpose;
use crate::clicks::{ClickLink, site_of};
use crate::crawler::Crawler;
use crate::event::SourceRole;
use crate::event_key::EventKey;
use crate::ids::{DrainId, OrgId, SessionId};
use crate::secrets::SecretHash;
use crate::session::{SessionFacts, SessionReport};
use crate::site::ContentUrl;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with_macros::skip_serializing_none;

pub const TELEMETRY_TOPIC: &str = "telemetry.v1";
/// Records no worker could decode, as they were.
pub const REJECTED_TOPIC: &str = "telemetry.rejected.v1";
/// The record version that this build writes, and the newest one it reads. A worker rejects a newer record instead of storing it
/// wrongly, so update workers before gateways. Increase it when an older worker would store a new record wrongly, or when a rule
/// for keys or sites changes: a replay of older records must produce the same rows as before.
pub const RECORD_VERSION: u16 = 1;
/// Largest record the topics must take: an inflated request of 4 MiB with what normalising adds.
pub const MAX_RECORD_BYTES: usize = 8 * 1024 * 1024;

/// What a dead letter takes besides its record: headers and framing.
pub const MAX_LETTER_HEAD_BYTES: usize = 16 * 1024;

pub mod header {
    /// `telemetry.v1/<record version>`.
    pub const SCHEMA: &str = "schema";
    pub const ORG: &str = "org";
    /// The request id of the write.
    pub const REQUEST_ID: &str = "request-id";
    /// The buckets of the store that its reports are in ([`crate::shard::Buckets`]).
    pub const BUCKETS: &str = "buckets";
    /// On a dead letter: why it could not be decoded.
    pub const REASON: &str = "reason";
    /// On a dead letter: `topic/partition/offset` of the original.
    pub const ORIGIN: &str = "origin";
    /// On the note that a dead letter was put back: `topic/partition/offset` of the copy. The note repeats its origin.
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

/// One accepted request; of a drain, one batch of its lines.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LogRecord {
    /// The [`RECORD_VERSION`] of the build that wrote it.
    pub v: u16,
    pub org: OrgId,
    /// Whether `org` is a content owner, which reports only for hosts that it has verified: its reports describe a fetch before others'
    /// (docs/api/counting.md#5-one-report-represents-the-event).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_owners: bool,
    /// When the gateway accepted it, in microseconds UTC; decides which of two repeats is the first.
    pub received_at_us: i64,
    pub kind: RecordKind,
    /// The drain, if the lines were sent with the key of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainId>,
    /// What the write says about a session, when it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionFacts>,
    /// The reporter's sessions that the events name, each once. The worker writes them before the events can be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named_sessions: Vec<SessionReport>,
    /// Normalised, keyed and stripped of what must not be kept.
    #[serde(default)]
    pub events: Vec<LogEvent>,
    /// Of a drain: requests by bots that returned no content. They are no events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_fetches: Vec<FailedFetch>,
}

impl LogRecord {
    /// Whether a click token or an agent is left for the worker to look up.
    pub fn is_unresolved(&self) -> bool {
        self.events.iter().any(LogEvent::is_left_to_the_worker)
    }
}

/// A bot's request whose status says that no content was returned (docs/api/drains.md#what-is-kept). It has neither the query nor the
/// user agent, because nothing counts by them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedFetch {
    /// The key that the line's event would have, had content been returned ([`LogEvent::own_key`]).
    pub own_key: EventKey,
    /// Time of the request in milliseconds UTC.
    pub at_ms: i64,
    /// Reversed canonical host; empty if nobody can own it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub site: String,
    /// Path of the URL, without query.
    pub path: String,
    pub bot: String,
    pub operator: String,
    pub purpose: Purpose,
    /// Whether it asked from an address that its operator publishes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
    /// HTTP status; 0 if the request wasn't answered.
    pub status: u16,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LogEvent {
    /// The reporter's own key of the report, from its id, the `Idempotency-Key` or its content. It contains the organization but
    /// not the host, which a click token may still decide.
    pub own_key: EventKey,
    /// Correlation id and content of a fetch: observers with the same one report the same fetch, if the host is the same too.
    /// The gateway makes it, because `content_url` may lose click tokens afterwards.
    pub correlation_key: Option<EventKey>,
    /// The reporter's own id, canonical.
    pub id: Option<String>,
    #[serde(rename = "type")]
    pub event_type: String,
    /// When it happened, in milliseconds UTC.
    pub at_ms: i64,
    pub source_role: Option<SourceRole>,
    /// Reversed host; empty when nobody can own it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub site: String,
    pub content_url: Option<String>,
    pub content_id: Option<String>,
    /// Correlation id, canonical.
    pub content_telemetry_id: Option<String>,
    pub session_id: Option<SessionId>,
    /// Whose session it is, when it is not the reporter's: the organisation that issued the click token.
    pub session_org: Option<OrgId>,
    /// How its URL stands to the link of the token; said where `session_org` is.
    pub link: Option<ClickLink>,
    /// Reversed host of that link, where `link` is [`ClickLink::Other`] and somebody can own it: who owns both may learn whose
    /// click it was (docs/api/click-tokens.md#what-a-token-tells).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub link_site: String,
    /// The hash of a click token that the gateway could not look up; the worker does, as of `received_at_us`. A
    /// `session_id` beside it is what the reporter says: a good token of the reporter's own must turn out to be of that session,
    /// and another organisation's binds nothing.
    pub ctx_hash: Option<SecretHash>,
    /// The hash of a click token that binds nothing: one that stands beside a session and is unknown, expired or another
    /// organisation's, or on a type that no token binds.
    pub kept_ctx_hash: Option<SecretHash>,
    /// The answering agent, as its reporter names it. Without one the worker puts the session's here.
    pub agent_id: Option<String>,
    pub turn_id: Option<String>,
    pub output_id: Option<String>,
    /// Who fetched it and how it was answered, where an edge or an origin says so.
    pub crawler: Option<Box<Crawler>>,
    /// The type-specific object, as written.
    pub data: Option<Box<RawValue>>,
    /// An object of the members this build does not know, as written.
    pub extra: Option<Box<RawValue>>,
}

impl LogEvent {
    /// Puts the session behind its click token into an event, and the token's URL where the event names none. The agent of
    /// somebody else's session is that session's to name, not the reporter's.
    ///
    /// Call it only after `own_key` is made: a retry is the same report whether its token could be looked up or not.
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
            let link = |url: &str| if is_taken { ClickLink::Taken } else { ClickLink::of_reported(url, token_url) };
            let link = self.content_url.as_deref().map_or(ClickLink::Other, link);
            let other = (link == ClickLink::Other).then(|| site_of(token_url)).flatten();
            self.link_site = other.map(|site| site.as_str().to_owned()).unwrap_or_default();
            self.link = Some(link);
        }
    }

    /// Returns whether a click token of this issuer can bind the event: a session id belongs to its reporter and is not compared
    /// with another organization's.
    pub fn can_be_bound_by(&self, reporter: OrgId, issuer: OrgId) -> bool {
        self.session_id.is_none() || issuer == reporter
    }

    /// Whether its session stands behind a click token that is not looked up yet.
    pub fn is_unresolved(&self) -> bool {
        self.ctx_hash.is_some()
    }

    /// Whether the worker looks up the agent of its session, because it names none.
    pub fn is_nameless(&self) -> bool {
        self.agent_id.is_none() && self.session_id.is_some()
    }

    /// Whether the worker looks up its click token or its agent.
    pub fn is_left_to_the_worker(&self) -> bool {
        self.is_unresolved() || self.is_nameless()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::PlainClickToken;

    const RECORD: &str = r#"{"v":1,"org":"00000000-0000-0000-0000-000000000001","received_at_us":1790000000000000,"kind":"events",
        "events":[{"own_key":"0000000000000000000000000000000a","type":"content_engaged","at_ms":1790000000000}]}"#;

    #[test]
    fn absent_members_are_not_written() {
        let record: LogRecord = serde_json::from_str(RECORD).unwrap();
        assert!(!record.is_unresolved() && record.v == RECORD_VERSION);
        let written = serde_json::to_string(&record).unwrap();
        let absent = ["is_owners", "ctx_hash", "named_sessions", "failed_fetches"];
        assert!(absent.iter().all(|member| !written.contains(member)), "{written}");
    }

    #[test]
    fn an_unresolved_token_is_a_hash() {
        let mut record: LogRecord = serde_json::from_str(RECORD).unwrap();
        record.events[0].session_id = Some(SessionId(uuid::Uuid::max()));
        assert!(record.is_unresolved(), "the agent of its session");
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
    fn an_event_bound_by_a_token_takes_its_session_its_agent_and_where_it_has_none_its_url() {
        let event = |members: &str| {
            let record: LogRecord = serde_json::from_str(&RECORD.replace(r#""type":"#, &format!(r#"{members}"type":"#))).unwrap();
            record.events[0].clone()
        };
        let (reporter, issuer, session) =
            (OrgId(uuid::Uuid::from_u128(1)), OrgId(uuid::Uuid::from_u128(2)), SessionId(uuid::Uuid::from_u128(3)));
        let bound = |members: &str, issuer: OrgId| {
            let mut event = event(members);
            event.bind_to_click(reporter, issuer, session, "https://www.shop.test/offer");
            assert_eq!(event.link_site, if event.link == Some(ClickLink::Other) { "test.shop" } else { "" }, "{event:?}");
            (event.content_url, event.site, event.session_org, event.link, event.agent_id)
        };
        let own = bound(r#""agent_id":"bot","#, reporter);
        assert_eq!((own.0.as_deref(), own.2, own.3), (Some("https://www.shop.test/offer"), None, None), "one's own token");
        assert_eq!(own.4.as_deref(), Some("bot"));
        let (url, site, org, link, agent) = bound(r#""agent_id":"bot","#, issuer);
        assert_eq!((url.as_deref(), org, link), (Some("https://www.shop.test/offer"), Some(issuer), Some(ClickLink::Taken)));
        assert_eq!(agent, None, "a reporter does not name the agent of another's session");
        let elsewhere = bound(r#""content_url":"https://evil.test/","site":"test.evil","#, issuer);
        assert_eq!((elsewhere.1.as_str(), elsewhere.3), ("test.evil", Some(ClickLink::Other)));
        let same = bound(&format!(r#""content_url":"https://www.shop.test/thanks","site":"{site}","#), issuer);
        assert_eq!((same.0.as_deref(), same.3), (Some("https://www.shop.test/thanks"), Some(ClickLink::Same)));
    }
}
