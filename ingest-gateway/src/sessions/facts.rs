//! Reads session facts from a body, and collects every fault.

use crate::privacy::{self, redact_click_tokens};
use crate::request::limits::Limits;
use crate::request::raw_json::{RawObject, as_array, as_str};
use crate::request::write_request;
use crate::validate::{Faults, Member, timestamps, typed_members};
use chrono::{DateTime, Utc};
use schemas::ids::SessionId;
use schemas::session::{MAX_PRIOR_SESSIONS, Outcome, OutcomeType, PrivacyLevel, SessionFacts};
use serde_json::value::RawValue;
use service_kit::http::ApiError;
use url::Url;
use uuid::Uuid;

const DEFAULT_CURRENCY: &str = "USD";
const OUTCOME: &[&str] = &["type", "value_amount", "currency"];
const MANIFEST_SUFFIX: &str = "/.well-known/content-telemetry.json";

/// Known members of a session. Others are stored as written.
const KNOWN: &[&str] = &[
    "session_id",
    "initiator_type",
    "agent_id",
    "manifest_ref",
    "content_scope",
    "external_session_id",
    "prior_session_ids",
    "privacy_level",
    "started_at",
    "ended_at",
    "outcome",
    "events",
    "document_type",
    "schema_version",
];

/// Rejects a body in which a known member is repeated.
pub(crate) fn require_once(object: &RawObject<'_>) -> Result<(), ApiError> {
    write_request::require_once(object, KNOWN)
}

pub(crate) fn read(
    object: &RawObject<'_>,
    session_id: SessionId,
    now: DateTime<Utc>,
    limits: &Limits,
    faults: &mut Faults,
) -> SessionFacts {
    let mut text = |name: &'static str| typed_members::text(object.get(name), Member(name), faults);
    let mut facts = SessionFacts {
        agent_id: text("agent_id"),
        content_scope: text("content_scope"),
        external_session_id: text("external_session_id"),
        ..SessionFacts::new(session_id)
    };
    facts.initiator_type = initiator_type(object, faults);
    facts.manifest_ref = manifest_ref(object, faults);
    facts.prior_session_ids = prior_sessions(object, faults).unwrap_or_default();
    facts.privacy_level = privacy_level(object, faults);
    let mut instant = |name: &'static str| {
        let at_ms = timestamps::instant(object, Member(name), now, limits.max_ahead(), faults)?;
        DateTime::from_timestamp_millis(at_ms)
    };
    (facts.started_at, facts.ended_at) = (instant("started_at"), instant("ended_at"));
    if facts.started_at.zip(facts.ended_at).is_some_and(|(start, end)| end < start) {
        faults.add(Member("ended_at"), "before_start", "ended_at must not be before started_at");
    }
    facts.outcome = read_outcome(object, limits, faults);
    facts.extra = own_members(object, KNOWN, Member("session"), limits, facts.privacy_level, faults);
    redact_click_tokens::withhold_from_session(&mut facts);
    facts
}

/// Returns the declared privacy level. Adds a fault for an unknown level.
pub(crate) fn privacy_level(object: &RawObject<'_>, faults: &mut Faults) -> Option<PrivacyLevel> {
    let (value, member) = (object.get("privacy_level"), Member("privacy_level"));
    typed_members::known(
        value,
        member,
        PrivacyLevel::parse,
        "privacy_level must be one of: full, summary, intent, minimal",
        faults,
    )
}

fn initiator_type(object: &RawObject<'_>, faults: &mut Faults) -> Option<String> {
    let read = |kind: &str| ["user", "agent"].contains(&kind).then(|| kind.to_owned());
    let (value, member) = (object.get("initiator_type"), Member("initiator_type"));
    typed_members::known(value, member, read, "initiator_type must be one of: user, agent", faults)
}

fn manifest_ref(object: &RawObject<'_>, faults: &mut Faults) -> Option<String> {
    let member = Member("manifest_ref");
    let text = typed_members::text(object.get("manifest_ref"), member, faults)?;
    if Url::parse(&text).is_ok_and(|url| url.scheme() == "https" && url.path().ends_with(MANIFEST_SUFFIX)) {
        return Some(text);
    }
    faults.reject(member, "bad_url", format!("manifest_ref must be an https URL that ends with {MANIFEST_SUFFIX}"))
}

fn prior_sessions(object: &RawObject<'_>, faults: &mut Faults) -> Option<Vec<SessionId>> {
    let member = Member("prior_session_ids");
    let Some(list) = as_array(object.get(member.0)?) else {
        return faults.reject(member, "wrong_type", "prior_session_ids must be an array of UUIDs");
    };
    if list.len() > MAX_PRIOR_SESSIONS {
        let detail = format!("prior_session_ids must contain at most {MAX_PRIOR_SESSIONS} sessions");
        return faults.reject(member, "too_many", detail);
    }
    let parsed: Option<Vec<SessionId>> =
        list.into_iter().map(|id| Uuid::try_parse(&as_str(id)?).ok().filter(|id| !id.is_nil()).map(SessionId)).collect();
    let Some(mut sessions) = parsed else {
        return faults.reject(member, "bad_uuid", "prior_session_ids must contain only UUIDs");
    };
    let mut seen = std::collections::HashSet::new();
    sessions.retain(|session| seen.insert(*session));
    Some(sessions)
}

/// Returns unknown members that the level allows, within the limits of an event's `data`. Returns `None` if they exceed a limit.
fn own_members(
    object: &RawObject<'_>,
    known: &[&str],
    member: Member,
    limits: &Limits,
    level: Option<PrivacyLevel>,
    faults: &mut Faults,
) -> Option<Box<RawValue>> {
    let is_kept = typed_members::check_unknown(object, known, member, limits.max_data_bytes, faults);
    let own = is_kept.then(|| object.retain(|name| !known.contains(&name)))?;
    privacy::strip_members(&own?, level)
}

/// Reads an outcome from a body and fills in its defaults (docs/api/sessions.md#outcome). Conversation members are always removed, whatever
/// the session's level, so two identical outcomes compare equal.
pub(crate) fn read_outcome(body: &RawObject<'_>, limits: &Limits, faults: &mut Faults) -> Option<Outcome> {
    let value = body.get("outcome")?;
    let Ok(object) = RawObject::parse(value.get()) else {
        return faults.reject(Member("outcome"), "wrong_type", "outcome must be an object");
    };
    if object.first_repeated(OUTCOME).is_some() {
        return faults.reject(Member("outcome"), "repeated", "outcome contains a repeated member");
    }
    let outcome_type = object.get("type").and_then(as_str).and_then(|name| OutcomeType::parse(&name));
    let outcome_type = outcome_type.or_else(|| {
        let detail = "outcome.type must be one of: conversion, abandonment, browse";
        faults.reject(Member("outcome.type"), "unknown_value", detail)
    });
    let value_amount = amount(&object, faults);
    let currency = currency(&object, faults);
    let extra = own_members(&object, OUTCOME, Member("outcome"), limits, Some(PrivacyLevel::Minimal), faults);
    Some(Outcome { outcome_type: outcome_type?, value_amount: value_amount?, currency: currency?, extra })
}

fn amount(object: &RawObject<'_>, faults: &mut Faults) -> Option<i64> {
    let Some(value) = object.get("value_amount") else { return Some(0) };
    value.get().parse::<i64>().ok().filter(|amount| *amount >= 0).or_else(|| {
        let detail = "outcome.value_amount must be a whole number of minor units, 0 or more";
        faults.reject(Member("outcome.value_amount"), "out_of_range", detail)
    })
}

fn currency(object: &RawObject<'_>, faults: &mut Faults) -> Option<String> {
    let Some(value) = object.get("currency") else { return Some(DEFAULT_CURRENCY.to_owned()) };
    let code = as_str(value).filter(|code| code.len() == 3 && code.bytes().all(|b| b.is_ascii_uppercase()));
    code.map(std::borrow::Cow::into_owned)
        .or_else(|| faults.reject(Member("outcome.currency"), "bad_currency", "outcome.currency must be three uppercase letters"))
}
