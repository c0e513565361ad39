//! The public schemas as tables of members and value types.

use super::shape::ValueType::{
    ClickToken, Country, FilledText, Flag, Instant, Integer, Object, OneOf, Sha256, Text, Texts, Uri, Uris, Uuid,
};
use super::shape::{COUNT, INTEGER, Rule, nullable, optional, required as must};
use schemas::event::EventType;

const VERSION: &[&str] = &["1.0"];
const ROLES: &[&str] = &["origin", "edge", "index", "agent"];

/// Envelopes with `event` or `event_batch`.
pub(super) const ENVELOPE: &[Rule] = &[
    must("document_type", OneOf(&["event", "event_batch"])),
    must("schema_version", OneOf(VERSION)),
    optional("session_id", Uuid),
    optional("parent_session_id", Uuid),
    optional("ctx_token", ClickToken),
    optional("agent_id", Text),
    optional("started_at", Instant),
    nullable("manifest_ref", Text),
];

pub(super) const SESSION: &[Rule] = &[
    optional("document_type", OneOf(&["session"])),
    must("schema_version", OneOf(VERSION)),
    must("session_id", Uuid),
    must("started_at", Instant),
    optional("parent_session_id", Uuid),
    optional("conformance_level", OneOf(&["retrieval", "grounding", "citation"])),
    nullable("agent_id", Text),
    nullable("content_scope", Text),
    nullable("manifest_ref", Uri),
    nullable("ended_at", Instant),
    nullable("data", Object),
];

/// One entry of a session's `data.access_context.identifiers`.
pub(super) const IDENTIFIER: &[Rule] =
    &[must("data.access_context.identifiers.scheme", Text), must("data.access_context.identifiers.value", Text)];

pub(super) const EVENT: &[Rule] = &[
    must("timestamp", Instant),
    optional("id", Uuid),
    nullable("turn_id", Text),
    optional("output_id", FilledText),
    optional("output_element_id", FilledText),
    optional("citation_id", Uuid),
    optional("presentation_id", Uuid),
    optional("ctx_token", ClickToken),
    optional("source_role", OneOf(ROLES)),
    nullable("content_telemetry_id", Uuid),
    nullable("content_id", Text),
    nullable("license_ref", Text),
    nullable("terms_ref", Text),
    nullable("turn", Object),
    optional("data", Object),
];

/// Members that a type requires in addition to those of every event.
pub(super) fn required(event_type: &EventType) -> &'static [&'static str] {
    match event_type {
        EventType::ContentRetrieved => &["source_role"],
        EventType::ContentGrounded => &["data"],
        EventType::ContentCited | EventType::ContentPresented => &["id", "output_id", "data"],
        EventType::TurnStarted | EventType::TurnCompleted => &["turn"],
        EventType::ContentEngaged | EventType::CheckoutCompleted | EventType::Extension(_) => &[],
    }
}

pub(super) fn data(event_type: &EventType) -> &'static [Rule] {
    match event_type {
        EventType::ContentRetrieved => RETRIEVED,
        EventType::ContentGrounded => GROUNDED,
        EventType::ContentCited => CITED,
        EventType::ContentPresented => PRESENTED,
        EventType::ContentEngaged => ENGAGED,
        EventType::TurnStarted | EventType::TurnCompleted | EventType::CheckoutCompleted | EventType::Extension(_) => &[],
    }
}

const RETRIEVED: &[Rule] = &[
    optional("data.media_type", Text),
    optional("data.content_depth", Text),
    optional("data.user_agent", Text),
    optional("data.purpose", Text),
    optional("data.bot_name", Text),
    optional("data.verified", Flag),
    optional("data.cache_status", Text),
    optional("data.response_status", Integer { least: 100, most: 599 }),
    optional("data.response_bytes", COUNT),
    optional("data.ja4", Text),
    optional("data.asn", INTEGER),
    optional("data.asn_org", Text),
    optional("data.country", Country),
];

const GROUNDED: &[Rule] = &[
    must("data.scope", OneOf(&["session", "turn"])),
    optional("data.cached", Flag),
    optional("data.provenance", OneOf(&["agent_fetched", "agent_cached", "third_party_sourced"])),
    optional("data.chars_ingested", COUNT),
    optional("data.tokens_ingested", COUNT),
    optional("data.content_version", Text),
    optional("data.content_last_modified", Instant),
    optional("data.content_hash", Sha256),
    optional("data.media_type", Text),
    optional("data.content_fingerprint", Object),
];

/// `data.content_fingerprint` of a grounding event.
pub(super) const FINGERPRINT: &[Rule] = &[
    must("data.content_fingerprint.scheme", FilledText),
    must("data.content_fingerprint.detected", Flag),
    optional("data.content_fingerprint.value", FilledText),
];

const CITED: &[Rule] = &[
    must("data.citation_type", OneOf(crate::validate::old_names::CITATION_TYPES)),
    optional("data.position", OneOf(crate::validate::old_names::CITATION_POSITIONS)),
    optional("data.media_type", Text),
    optional("data.excerpt_tokens", COUNT),
    optional("data.excerpt_chars", COUNT),
    optional("data.excerpt_hash", Sha256),
    optional("data.content_hash", Sha256),
    optional("data.url_verified", Flag),
];

const PRESENTED: &[Rule] = &[
    must("data.presentation_kind", OneOf(&["content", "source_reference"])),
    must("data.presentation_type", Text),
    optional("data.media_type", Text),
];

const ENGAGED: &[Rule] = &[optional("data.engagement_type", Text)];

pub(super) const TURN: &[Rule] = &[
    must("turn.privacy_level", OneOf(&["full", "summary", "intent", "minimal"])),
    nullable("turn.query_text", Text),
    nullable("turn.response_text", Text),
    nullable("turn.query_intent", Text),
    nullable("turn.response_type", Text),
    nullable("turn.response_mode", Text),
    optional("turn.topics", Texts),
    optional("turn.content_urls_retrieved", Uris),
    optional("turn.content_urls_cited", Uris),
    nullable("turn.query_tokens", COUNT),
    nullable("turn.response_tokens", COUNT),
    nullable("turn.model_id", Text),
    nullable("turn.ad_rendered", Flag),
];
