//! Labels for API identifiers. Identifiers without a label are shown unchanged.

use schemas::identity::DrainProvider;
use schemas::problem::Code;
use serde_json::{Map, Value};

/// Type of request events, whatever their outcome.
const FETCH: &str = "content_retrieved";
/// Type of an engagement; with a click token it is a visit.
const ENGAGED: &str = "content_engaged";

/// The label for a missing value.
pub(crate) const UNKNOWN: &str = "Unknown";

/// An identifier and its label.
type Label = (&'static str, &'static str);

/// Why signatures are invalid (docs/api/signatures.md#results).
const SIGNATURE_REASONS: &[Label] = &[
    ("malformed", "malformed headers"),
    ("incomplete", "incomplete"),
    ("unsupported", "unsupported form"),
    ("digest_mismatch", "different body"),
    ("stale", "expired"),
    ("no_key", "unknown key"),
    ("expired_key", "expired key"),
    ("bad_signature", "signature doesn’t match"),
    ("replayed", "used before"),
    ("unchecked", "not checked"),
];

/// Event types, with labels for one event and for several.
const EVENTS: [(&str, &str, &str); 12] = [
    ("content_retrieved", "Fetch", "Fetches"),
    ("content_grounded", "Grounding", "Groundings"),
    ("content_cited", "Citation", "Citations"),
    ("content_presented", "Presentation", "Presentations"),
    ("content_engaged", "Engagement", "Engagements"),
    ("checkout_completed", "Purchase", "Purchases"),
    ("turn_started", "Turn started", "Turns started"),
    ("turn_completed", "Turn completed", "Turns completed"),
    ("product_viewed", "Product view", "Product views"),
    ("product_compared", "Product comparison", "Product comparisons"),
    ("cart_add", "Added to cart", "Added to cart"),
    ("cart_remove", "Removed from cart", "Removed from cart"),
];

/// Request outcomes, which the event list offers as types.
pub(crate) const FETCH_OUTCOMES: [Label; 3] = [("fetch", "Fetch"), ("failed", "Failed fetch"), ("revalidation", "Revalidation")];

const OUTCOMES: &[Label] = &[("conversion", "Conversion"), ("abandonment", "Abandonment"), ("browse", "Browsing")];

const ENGAGEMENTS: &[Label] = &[("link_click", "Link click")];

const PERMISSIONS: &[Label] = &[
    ("telemetry:write", "Send events"),
    ("telemetry:read", "Read data"),
    ("identity:read", "View settings"),
    ("identity:write", "Change settings"),
    ("partner:provision", "Create organizations"),
];

/// Actions in an organization's audit trail.
pub(crate) const ACTIONS: &[Label] = &[
    ("analyst_account.created", "Analyst account created"),
    ("analyst_account.revoked", "Analyst account revoked"),
    ("api_key.changed", "API key changed"),
    ("api_key.created", "API key created"),
    ("api_key.revoked", "API key revoked"),
    ("delegation.created", "Access granted"),
    ("delegation.revoked", "Access revoked"),
    ("delegation_request.created", "Access requested"),
    ("delegation_request.approved", "Access request approved"),
    ("delegation_request.denied", "Access request denied"),
    ("delegation_request.expired", "Access request expired"),
    ("domain.registered", "Domain added"),
    ("domain.verified", "Domain verified"),
    ("domain.proved", "Domain verified again"),
    ("domain.lapsed", "Domain verification expired"),
    ("domain.lost", "Domain verified by another organization"),
    ("domain.released", "Domain released"),
    ("drain.created", "Log drain created"),
    ("drain.key_rotated", "Log drain key replaced"),
    ("drain.deleted", "Log drain deleted"),
    ("invite.created", "Invite sent"),
    ("invite.claimed", "Invite accepted"),
    ("invite.withdrawn", "Invite withdrawn"),
    ("manifest.created", "Manifest registered"),
    ("manifest.keys_changed", "Signing keys changed"),
    ("manifest.deleted", "Manifest deleted"),
    ("manifest_host.attested", "Manifest host attested"),
    ("manifest_host.withdrawn", "Manifest host withdrawn"),
    ("member.added", "Member added"),
    ("member.changed", "Member changed"),
    ("member.left", "Member left"),
    ("member.removed", "Member removed"),
    ("organization.created", "Organization created"),
    ("partner.trusted", "Trusted as partner"),
    ("partner.untrusted", "Partner trust withdrawn"),
    ("reconciliation_alert.changed", "Reconciliation alert changed"),
    ("saved_view.saved", "View saved"),
    ("saved_view.deleted", "View deleted"),
    ("settings.changed", "Settings changed"),
    ("statement.closed", "Month closed"),
    ("telemetry.read", "Data viewed"),
    ("dead_letter.retried", "Rejected request retried by operator"),
    ("webhook.created", "Webhook endpoint added"),
    ("webhook.deleted", "Webhook endpoint deleted"),
    ("webhook.disabled", "Webhook endpoint disabled"),
    ("webhook.enabled", "Webhook endpoint enabled"),
    ("webhook.secret_rotated", "Webhook secret replaced"),
    ("webhook.tested", "Webhook test sent"),
    ("webhook.redelivery_ordered", "Webhook delivery resent"),
    ("webhook.read", "Webhook endpoint viewed by operator"),
    ("webhook.deliveries_read", "Webhook deliveries viewed by operator"),
];

/// Targets of audit trail actions.
const TARGETS: &[Label] = &[
    ("access_request", "Organization request"),
    ("analyst_account", "Analyst account"),
    ("api_key", "API key"),
    ("delegation", "Access"),
    ("delegation_request", "Access request"),
    ("domain", "Domain"),
    ("drain", "Log drain"),
    ("invite", "Invite"),
    ("manifest", "Manifest"),
    ("organization", "Organization"),
    ("statement", "Statement"),
    ("user", "User"),
    ("webhook_delivery", "Webhook delivery"),
    ("webhook_endpoint", "Webhook endpoint"),
];

const DETAILS: &[Label] = &[
    ("approved_org_id", "Approved organization"),
    ("delegation_id", "Access"),
    ("domain", "Domain name"),
    ("email", "Email"),
    ("endpoint_id", "Endpoint"),
    ("event_types", "Events"),
    ("from", "Previous owner"),
    ("host", "Host"),
    ("grantee_org_id", "Partner"),
    ("grantor_org_id", "Content owner"),
    ("hosts", "Hosts"),
    ("keep_keys", "Keys kept"),
    ("method", "Method"),
    ("name", "Name"),
    ("number", "Statement"),
    ("of_member", "Member"),
    ("operator", "Operator"),
    ("org_name", "Name"),
    ("org_type", "Type"),
    ("period", "Month"),
    ("prefix", "Key prefix"),
    ("provider", "Provider"),
    ("provisioned_by", "Set up by"),
    ("replaced", "Replaced"),
    ("requester_org_id", "Requested by"),
    ("revision", "Revision"),
    ("role", "Role"),
    ("scopes", "Permissions"),
    ("sha256", "SHA-256"),
    ("share_sessions_via_click_tokens", "Share sessions"),
    ("to", "New owner"),
    ("unproved_since", "Not found since"),
    ("url", "URL"),
    ("user_id", "Requested by"),
    ("visible_in_click_token_lookups", "Visible in lookups"),
    ("was_verified", "Was verified"),
];

const ROBOTS_STATES: &[Label] = &[
    ("pending", "Not checked yet"),
    ("found", "Found"),
    ("missing", "No file: everything is allowed"),
    ("unreachable", "Not reachable: the latest version applies"),
];

const ACTORS: &[Label] = &[("user", "User"), ("key", "API key"), ("operator", "Operator"), ("system", "Service")];

/// Reasons why an event or a request was rejected.
const RULES: &[Label] = &[
    ("bad_currency", "Invalid currency"),
    ("bad_hash", "Invalid hash"),
    ("bad_timestamp", "Invalid timestamp"),
    ("bad_token", "Invalid token"),
    ("bad_url", "Invalid URL"),
    ("bad_uuid", "Invalid UUID"),
    ("not_allowed", "Not allowed"),
    ("out_of_range", "Out of range"),
    ("required", "Missing"),
    ("session_mismatch", "Session mismatch"),
    ("too_deep", "Nested too deeply"),
    ("too_early", "Too early"),
    ("too_large", "Too large"),
    ("too_long", "Too long"),
    ("too_many", "Too many"),
    ("unknown_token", "Unknown token"),
    ("unknown_type", "Unknown event type"),
    ("unknown_value", "Unknown value"),
    ("wrong_type", "Wrong type"),
];

fn find_label<'a>(labels: &[Label], name: &'a str) -> &'a str {
    labels.iter().find(|(known, _)| *known == name).map_or(name, |(_, label)| label)
}

/// Returns the label of one event of a type.
pub(crate) fn event(event_type: &str) -> &str {
    EVENTS.iter().find(|(name, ..)| *name == event_type).map_or(event_type, |(_, one, _)| one)
}

/// Returns the label of an owner's event with this outcome, which is empty unless it is a request.
pub(crate) fn event_with_outcome<'a>(event_type: &'a str, outcome: &str) -> &'a str {
    FETCH_OUTCOMES.iter().find(|(name, _)| *name == outcome).map_or(event(event_type), |(_, label)| label)
}

/// Returns an event's label: for a request, by its outcome; for any other event, by its type.
pub(crate) fn event_of<'a>(event_type: &'a str, data: &Map<String, Value>) -> &'a str {
    match data.get("response_status").and_then(Value::as_u64) {
        Some(304) if event_type == FETCH => "Revalidation",
        Some(status) if event_type == FETCH && !(200..300).contains(&status) => "Failed fetch",
        _ => event(event_type),
    }
}

/// Returns the label of a bot's purpose.
pub(crate) fn purpose(name: &str) -> &str {
    match name {
        "training" => "Training",
        "search" => "Search index",
        "user" => "User request",
        "" => UNKNOWN,
        other => other,
    }
}

/// Returns the label of the result of a robots.txt check.
pub(crate) fn robots_state(state: &str) -> &str {
    find_label(ROBOTS_STATES, state)
}

/// Returns the label of an event that others reported with a click token.
pub(crate) fn token_event(event_type: &str) -> &str {
    if event_type == ENGAGED { "Visit" } else { event(event_type) }
}

/// Returns the label of all events of a type that others reported with click tokens.
pub(crate) fn token_events(event_type: &str) -> &str {
    if event_type == ENGAGED { "Visits" } else { events(event_type) }
}

/// Returns the label of all events of a type.
pub(crate) fn events(event_type: &str) -> &str {
    EVENTS.iter().find(|(name, ..)| *name == event_type).map_or(event_type, |(.., many)| many)
}

pub(crate) fn outcome(outcome_type: &str) -> &str {
    find_label(OUTCOMES, outcome_type)
}

pub(crate) fn engagement(engagement_type: &str) -> &str {
    find_label(ENGAGEMENTS, engagement_type)
}

/// Returns a log provider's label. Several sources send `ndjson`.
pub(crate) fn signature_reason(name: &str) -> &str {
    find_label(SIGNATURE_REASONS, name)
}

pub(crate) fn provider(name: &str) -> &str {
    name.parse::<DrainProvider>().map_or(name, |provider| provider.facts().label)
}

pub(crate) fn permission(scope: &str) -> &str {
    find_label(PERMISSIONS, scope)
}

pub(crate) fn action(name: &str) -> &str {
    find_label(ACTIONS, name)
}

pub(crate) fn target(object_kind: &str) -> &str {
    find_label(TARGETS, object_kind)
}

pub(crate) fn detail(name: &str) -> &str {
    find_label(DETAILS, name)
}

pub(crate) fn actor(kind: &str) -> &str {
    find_label(ACTORS, kind)
}

pub(crate) fn rule(name: &str) -> &str {
    find_label(RULES, name)
}

/// Returns the title of a problem with this code.
pub(crate) fn problem(code: &str) -> &str {
    let Ok(known) = serde_json::from_value::<Code>(code.into()) else { return code };
    known.title()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::event::EventType;
    use schemas::identity::Scope;
    use serde_json::json;

    #[test]
    fn known_identifiers_have_labels() {
        for event_type in EventType::SPECIFIED {
            assert!(!event(event_type.as_str()).contains('_') && !events(event_type.as_str()).contains('_'), "{event_type:?}");
        }
        for known in DrainProvider::ALL {
            assert_ne!(provider(known.as_str()), known.as_str());
        }
        for scope in Scope::ALL {
            assert_ne!(permission(scope.as_str()), scope.as_str());
        }
        assert_eq!((problem("invalid_event"), problem("not_found")), ("Invalid event", "Not found"));
    }

    #[test]
    fn labels_requests_by_outcome() {
        let label = |event_type, data: Value| event_of(event_type, data.as_object().unwrap());
        for (status, expected) in
            [(200, "Fetch"), (206, "Fetch"), (304, "Revalidation"), (404, "Failed fetch"), (301, "Failed fetch")]
        {
            assert_eq!(label(FETCH, json!({"response_status": status})), expected, "{status}");
        }
        assert_eq!((label(FETCH, json!({})), label("content_cited", json!({"response_status": 404}))), ("Fetch", "Citation"));
    }

    #[test]
    fn shows_unknown_identifiers_unchanged() {
        let labels = [event, events, outcome, engagement, provider, permission, action, target, detail, actor, rule, problem];
        for label in labels {
            assert_eq!(label("com.example.new_thing"), "com.example.new_thing");
        }
    }
}
