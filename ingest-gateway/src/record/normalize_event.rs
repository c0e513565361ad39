//! Turns a valid event into the log's form: canonical, with keys, without private members. Pure.
//!
//! Deterministic: on any gateway, a retry of a report produces the same key.

use super::conversation_members::ConversationMembers;
use super::crawler;
use crate::privacy::redact_click_tokens;
use crate::validate::{Binding, ValidEvent};
use schemas::bots::BotTable;
use schemas::event::{EventFamily, EventType};
use schemas::event_key::{EventKey, FetchedContent, OwnId, canonical_content_id};
use schemas::ids::OrgId;
use schemas::log::LogEvent;
use schemas::report_keys::ReportKeys;
use schemas::site::Site;

/// The parts of a request that an own key depends on.
pub(crate) struct Origin<'a> {
    pub(crate) org: OrgId,
    pub(crate) agent_id: Option<&'a str>,
    pub(crate) idempotency_key: Option<&'a str>,
    pub(crate) bots: &'a BotTable,
}

pub(crate) struct NormalizedEvent<'a> {
    pub(crate) event: LogEvent,
    /// The report's identity, computed before click tokens are looked up.
    pub(crate) reported: EventKey,
    /// Kept because the session's level may remove more of it later.
    pub(crate) conversation: Option<ConversationMembers<'a>>,
}

pub(crate) fn normalize_event<'a>(
    event: ValidEvent<'a>,
    binding: &Binding,
    origin: &Origin<'_>,
    index: usize,
) -> NormalizedEvent<'a> {
    let site = reported_site(&event).cloned();
    let correlation_key = correlation_key(&event);
    let conversation = ConversationMembers::new(&event.event_type, event.members, event.turn, event.data);
    let mut normalized = LogEvent {
        own_key: EventKey(0),
        correlation_key: None,
        event_type: event.event_type.as_str().to_owned(),
        at_ms: event.at_ms,
        source_role: event.source_role,
        site: site.map(|site| site.as_str().to_owned()).unwrap_or_default(),
        extra: conversation.extra(event.privacy_level),
        data: conversation.data(event.privacy_level),
        content_url: event.content_url.map(|url| url.stored),
        content_id: event.content_id.as_deref().map(|id| canonical_content_id(id).into_owned()),
        content_telemetry_id: event.content_telemetry_id,
        session_id: None,
        session_org: None,
        link: None,
        link_site: String::new(),
        ctx_hash: None,
        kept_ctx_hash: None,
        crawler: None,
        signature: None,
        agent_id: origin.agent_id.map(str::to_owned),
        turn_id: event.turn_id,
        output_id: event.output_id,
        id: event.id,
    };
    put_reported_binding(&mut normalized, binding);
    normalized.own_key = own_key(&normalized, origin, index);
    normalized.correlation_key = correlation_key;
    // Keys use the canonical form; the store keeps the id as reported.
    normalized.content_id = event.content_id;
    let reported = ReportKeys::new(origin.org, None, &normalized).identity;
    put_binding(&mut normalized, binding, origin.org);
    crawler::promote(&mut normalized, origin.bots);
    redact_click_tokens::withhold_from(&mut normalized);
    let conversation = Some(conversation).filter(ConversationMembers::is_private);
    NormalizedEvent { event: normalized, reported, conversation }
}

/// Returns the key that all reports of a fetch share: the correlation id with the page, or else with the content id.
fn correlation_key(event: &ValidEvent<'_>) -> Option<EventKey> {
    let telemetry_id = event.content_telemetry_id.as_deref().filter(|_| event.event_type == EventType::ContentRetrieved)?;
    let page = event.content_url.as_ref().map(|url| FetchedContent::Page(&url.keyed));
    let content = page.or_else(|| event.content_id.as_deref().map(FetchedContent::Id))?;
    Some(EventKey::correlation(telemetry_id, content))
}

/// Sets session and token as reported. A key may depend only on these: a retry must be the same event even if its token could be looked up
/// only once.
fn put_reported_binding(event: &mut LogEvent, binding: &Binding) {
    (event.session_id, event.ctx_hash) = match binding {
        Binding::Unbound => (None, None),
        Binding::Own(session) => (Some(*session), None),
        Binding::Clicked { token, named, .. }
        | Binding::Unresolved { token, named }
        | Binding::WithUnusedToken { token, named } => (*named, Some(*token)),
    };
}

/// Sets the session as stored in the log. A token that was looked up is removed.
fn put_binding(event: &mut LogEvent, binding: &Binding, reporter: OrgId) {
    match binding {
        Binding::Unbound | Binding::Own(_) | Binding::Unresolved { .. } => {}
        Binding::Clicked { click, .. } => event.bind_to_click(reporter, click.org, click.session, &click.url),
        Binding::WithUnusedToken { .. } => event.kept_ctx_hash = event.ctx_hash.take(),
    }
}

/// Returns the host that an event counts for. Turns don't count for a host (docs/api/events.md#urls).
pub(crate) fn attributed_site<'a>(event: &'a ValidEvent<'_>, binding: &'a Binding) -> Option<&'a Site> {
    match binding {
        Binding::Clicked { click, .. } if event.content_url.is_none() => click.site.as_ref(),
        _ => reported_site(event),
    }
}

fn reported_site<'a>(event: &'a ValidEvent<'_>) -> Option<&'a Site> {
    if event.event_type.family() == EventFamily::Turn {
        return None;
    }
    event.content_url.as_ref()?.site.as_ref()
}

fn own_key(event: &LogEvent, origin: &Origin<'_>, index: usize) -> EventKey {
    let org = origin.org;
    let written = |event: &LogEvent| serde_json::to_vec(event).expect("a log event serializes");
    match (&event.id, origin.idempotency_key) {
        (Some(id), _) => EventKey::own(&OwnId::Reported { org, id }),
        (None, Some(idempotency_key)) => {
            let canonical_subject = written(&LogEvent { at_ms: 0, data: None, extra: None, ..event.clone() });
            EventKey::own(&OwnId::Idempotent { org, idempotency_key, canonical_subject: &canonical_subject, index })
        }
        (None, None) => EventKey::own(&OwnId::Content { org, canonical_event: &written(event), index }),
    }
}
