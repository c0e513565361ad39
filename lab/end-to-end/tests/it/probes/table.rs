//! Requests that can name another organization's data. `{it}` is the probed name, `{own}` is one of the caller's organizations, and other
//! placeholders are further names in the probed organization.
//!
//! `s2_every_route_with_an_id_is_probed` checks that every route with an id is listed. Responses that differ by design are excluded:
//! `/resolve` is public for verified domains, the owner decides on access requests, a grant reveals whether the platform exists, and the
//! secrets in invites and sign-in links identify their holder.

use super::test_app::CallerKind::{self, *};
use super::test_app::Kind::{self, *};

pub(super) struct Probe {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) body: &'static str,
    pub(super) it: Kind,
    pub(super) by: &'static [CallerKind],
}

const fn probe(method: &'static str, path: &'static str, body: &'static str, it: Kind, by: &'static [CallerKind]) -> Probe {
    Probe { method, path, body, it, by }
}

const fn get(path: &'static str, it: Kind, by: &'static [CallerKind]) -> Probe {
    probe("GET", path, "", it, by)
}

const READERS: &[CallerKind] = &[PlatformsKey, AgentsKey, PartnersKey];
/// With their reports, these callers create sessions of their own with any id, so only they can use the id.
const REPORTERS: &[CallerKind] = &[ReportersKey];
const KEYS: &[CallerKind] = &[OwnersKey, PlatformsKey, AgentsKey];
const ACTORS: &[CallerKind] = &[OwnersKey, PlatformsKey, AgentsKey, Member];
const PEOPLE: &[CallerKind] = &[Member, NonMember];
const EVERYBODY: &[CallerKind] = &[OwnersKey, PlatformsKey, AgentsKey, PartnersKey, Member, NonMember];

pub(super) const PROBES: &[Probe] = &[
    // Reads.
    get("/content-owners/summary?domain={it}", Domain, &[OwnersKey]),
    get("/content-owners/events?domain={it}&limit=1", Domain, &[OwnersKey]),
    get("/content-owners/events/{it}", Event, &[OwnersKey]),
    get("/content-owners/events/{it}?organization_id={own}", Event, PEOPLE),
    get("/content-owners/urls?domain={it}", Domain, &[OwnersKey]),
    get("/content-owners/corroboration?domain={it}", Domain, &[OwnersKey]),
    get("/content-owners/reconciliation?domain={it}", Domain, &[OwnersKey]),
    get("/content-owners/funnel?domain={it}&by=url", Domain, &[OwnersKey]),
    get("/content-owners/series?domain={it}&split=agent", Domain, &[OwnersKey]),
    get("/content-owners/crawlers?domain={it}", Domain, &[OwnersKey]),
    get("/content-owners/coverage?domain={it}", Domain, &[OwnersKey]),
    get("/content-owners/summary?domain=www.{it}", Registered, &[OwnersKey]),
    get("/content-owners/summary?delegated_from={it}", Organization, EVERYBODY),
    get("/content-owners/events?delegated_from={it}&offset=1", Organization, READERS),
    get("/content-owners/events/{it}?delegated_from={organization}", Event, READERS),
    get("/content-owners/urls?delegated_from={it}&since=2026-01-01", Organization, READERS),
    get("/content-owners/corroboration?delegated_from={it}", Organization, READERS),
    get("/content-owners/reconciliation?delegated_from={it}", Organization, READERS),
    get("/content-owners/funnel?delegated_from={it}", Organization, READERS),
    get("/content-owners/series?delegated_from={it}&by=hour", Organization, READERS),
    get("/content-owners/crawlers?delegated_from={it}", Organization, READERS),
    get("/content-owners/coverage?delegated_from={it}", Organization, READERS),
    get("/content-owners/summary?delegated_from={organization}&domain={it}", Domain, READERS),
    get("/content-owners/summary?seen_by={it}", Organization, EVERYBODY),
    get("/content-owners/events?seen_by={it}&limit=1", Organization, KEYS),
    get("/content-owners/events/{it}?seen_by={organization}", Event, KEYS),
    get("/content-owners/urls?seen_by={it}", Organization, KEYS),
    get("/content-owners/corroboration?seen_by={it}", Organization, KEYS),
    get("/content-owners/reconciliation?seen_by={it}", Organization, KEYS),
    get("/content-owners/funnel?seen_by={it}&by=url", Organization, KEYS),
    get("/content-owners/series?seen_by={it}", Organization, KEYS),
    get("/content-owners/crawlers?seen_by={it}", Organization, KEYS),
    get("/content-owners/coverage?seen_by={it}", Organization, KEYS),
    get("/content-owners/summary?seen_by={it}&delegated_from={it}", Organization, EVERYBODY),
    get("/content-owners/summary?organization_id={own}&seen_by={it}", Organization, PEOPLE),
    get("/content-owners/summary?organization_id={it}&seen_by={it}", Organization, PEOPLE),
    get("/agent/events?delegated_from={it}", Organization, READERS),
    get("/agent/events?domain={it}", Domain, READERS),
    get("/agent/summary?delegated_from={it}", Organization, READERS),
    get("/agent/series?domain={it}", Domain, READERS),
    get("/sessions/{it}/document", Session, EVERYBODY),
    get("/content-owners/summary?organization_id={it}", Organization, EVERYBODY),
    get("/content-owners/events?organization_id={it}&limit=1", Organization, PEOPLE),
    get("/content-owners/urls?organization_id={it}", Organization, PEOPLE),
    get("/content-owners/corroboration?organization_id={it}", Organization, PEOPLE),
    get("/content-owners/reconciliation?organization_id={it}", Organization, PEOPLE),
    get("/content-owners/funnel?organization_id={it}&by=url", Organization, PEOPLE),
    get("/content-owners/series?organization_id={it}", Organization, PEOPLE),
    get("/content-owners/crawlers?organization_id={it}", Organization, PEOPLE),
    get("/content-owners/coverage?organization_id={it}", Organization, PEOPLE),
    get("/content-owners/summary?organization_id={own}&domain={it}", Domain, PEOPLE),
    get("/content-owners/summary?organization_id={organization}&domain={it}", Domain, PEOPLE),
    get("/content-owners/summary?organization_id={own}&delegated_from={it}", Organization, PEOPLE),
    get("/agent/summary?organization_id={it}", Organization, PEOPLE),
    get("/agent/series?organization_id={it}", Organization, PEOPLE),
    get("/agent/events?organization_id={it}", Organization, PEOPLE),
    get("/sessions/{it}/document?organization_id={organization}", Session, EVERYBODY),
    get("/ctx/{it}", Token, EVERYBODY),
    get("/ctx/{it}", ExpiredToken, READERS),
    get("/resolve?domain={it}", Registered, EVERYBODY),
    get("/resolve?url=https://www.{it}/a", Registered, EVERYBODY),
    // Writes.
    probe("POST", "/sessions/end", r#"{"session_id":"{it}"}"#, Session, KEYS),
    probe("POST", "/click-tokens", r#"{"session_id":"{it}","content_url":"https://a.example/"}"#, Session, KEYS),
    probe("POST", "/sessions/bulk", r#"{"session_id":"{it}","events":[]}"#, Session, REPORTERS),
    probe("POST", "/sessions/start", r#"{"prior_session_ids":["{it}"]}"#, Session, REPORTERS),
    probe(
        "POST",
        "/events",
        r#"{"session_id":"{it}","events":[{"type":"content_cited","timestamp":"2026-11-01T10:00:00Z","content_url":"https://a.example/"}]}"#,
        Session,
        REPORTERS,
    ),
    probe(
        "POST",
        "/events",
        r#"{"events":[{"type":"content_engaged","timestamp":"2026-11-01T10:00:00Z","content_url":"https://a.example/","ctx_token":"{it}"}]}"#,
        ExpiredToken,
        READERS,
    ),
    probe(
        "POST",
        "/events",
        r#"{"events":[{"type":"content_retrieved","timestamp":"2026-11-01T10:00:00Z","source_role":"edge","content_url":"https://{it}/"}]}"#,
        Domain,
        &[OwnersKey],
    ),
    probe(
        "POST",
        "/events",
        r#"{"events":[{"type":"content_retrieved","timestamp":"2026-11-01T10:00:00Z","source_role":"edge","content_url":"https://{it}/"}]}"#,
        Registered,
        &[OwnersKey],
    ),
    // Identity API, with a key or session.
    probe("DELETE", "/api/v1/identity/api-keys/{it}", "", Key, ACTORS),
    probe("DELETE", "/api/v1/identity/analysts/{it}", "", Analyst, ACTORS),
    probe("DELETE", "/api/v1/identity/delegations/{it}", "", Delegation, ACTORS),
    probe("POST", "/api/v1/identity/delegation-requests/{it}/approve", "", Request, ACTORS),
    probe("POST", "/api/v1/identity/delegation-requests/{it}/deny", "", Request, ACTORS),
    probe("POST", "/api/v1/identity/delegation-requests", r#"{"domain":"{it}"}"#, Registered, READERS),
    probe("POST", "/api/v1/identity/delegation-requests/bulk", r#"[{"domain":"{it}"}]"#, Registered, READERS),
    probe("POST", "/api/v1/identity/domains", r#"{"domain":"{new}.{it}"}"#, Domain, &[OwnersKey, Member]),
    probe("POST", "/api/v1/identity/domains", r#"{"domain":"{new}.{it}"}"#, Registered, &[OwnersKey, Member]),
    probe("DELETE", "/api/v1/identity/domains/{it}", "", DomainId, ACTORS),
    probe("POST", "/api/v1/identity/domains/{it}/verify", "", DomainId, ACTORS),
    get("/api/v1/identity/drains/{it}", Drain, ACTORS),
    probe("DELETE", "/api/v1/identity/drains/{it}", "", Drain, ACTORS),
    get("/api/v1/identity/drains/{it}/health", Drain, ACTORS),
    probe("POST", "/api/v1/identity/drains/{it}/rotate", "", Drain, ACTORS),
    probe("POST", "/api/v1/identity/drains", r#"{"name":"a","provider":"ndjson","hosts":["{it}"]}"#, Domain, &[OwnersKey]),
    get("/api/v1/identity/manifests/{it}", Manifest, ACTORS),
    probe("DELETE", "/api/v1/identity/manifests/{it}", "", Manifest, ACTORS),
    probe("POST", "/api/v1/identity/manifests/{it}/refresh", "", Manifest, ACTORS),
    probe(
        "POST",
        "/api/v1/identity/manifests",
        r#"{"url":"https://{it}/.well-known/content-telemetry.json"}"#,
        Domain,
        &[OwnersKey],
    ),
    get("/api/v1/identity/webhooks/{it}", Webhook, ACTORS),
    probe("DELETE", "/api/v1/identity/webhooks/{it}", "", Webhook, ACTORS),
    probe("PATCH", "/api/v1/identity/webhooks/{it}", r#"{"disabled":true}"#, Webhook, ACTORS),
    probe("POST", "/api/v1/identity/webhooks/{it}/test", "", Webhook, ACTORS),
    probe("POST", "/api/v1/identity/webhooks/{it}/rotate-secret", "", Webhook, ACTORS),
    get("/api/v1/identity/webhooks/{it}/deliveries", Webhook, ACTORS),
    get("/api/v1/identity/webhooks/{it}/deliveries?status=pending&limit=1", Webhook, ACTORS),
    probe("POST", "/api/v1/identity/webhooks/{it}/deliveries/{domain_id}/redeliver", "", Webhook, ACTORS),
    get("/api/v1/identity/api-keys?organization_id={it}", Organization, PEOPLE),
    get("/api/v1/identity/audit?organization_id={it}", Organization, PEOPLE),
    get("/api/v1/identity/delegations?organization_id={it}", Organization, PEOPLE),
    get("/api/v1/identity/delegation-requests?organization_id={it}", Organization, PEOPLE),
    get("/api/v1/identity/domains?organization_id={it}", Organization, PEOPLE),
    get("/api/v1/identity/drains?organization_id={it}", Organization, PEOPLE),
    get("/api/v1/identity/manifests?organization_id={it}", Organization, PEOPLE),
    get("/api/v1/identity/webhooks?organization_id={it}", Organization, PEOPLE),
    get("/api/v1/identity/refused-reports?organization_id={it}", Organization, PEOPLE),
    get("/api/v1/identity/settings?organization_id={it}", Organization, PEOPLE),
    probe("POST", "/api/v1/identity/api-keys?organization_id={it}", "{}", Organization, PEOPLE),
    probe(
        "PATCH",
        "/api/v1/identity/settings?organization_id={it}",
        r#"{"visible_in_click_token_lookups":true}"#,
        Organization,
        PEOPLE,
    ),
    // Identity API, with a session only.
    get("/api/v1/identity/organizations/{it}", Organization, EVERYBODY),
    get("/api/v1/identity/organizations/{it}/members", Organization, EVERYBODY),
    get("/api/v1/identity/organizations/{it}/invites", Organization, EVERYBODY),
    probe(
        "POST",
        "/api/v1/identity/organizations/{it}/members",
        r#"{"email":"a@a.example","role":"owner"}"#,
        Organization,
        PEOPLE,
    ),
    probe("PATCH", "/api/v1/identity/organizations/{it}/members/{member}", r#"{"role":"member"}"#, Organization, PEOPLE),
    probe("DELETE", "/api/v1/identity/organizations/{it}/members/{member}", "", Organization, PEOPLE),
    probe("DELETE", "/api/v1/identity/organizations/{it}/invites/{invite}", "", Organization, PEOPLE),
    probe("PATCH", "/api/v1/identity/organizations/{own}/members/{it}", r#"{"role":"member"}"#, Membership, PEOPLE),
    probe("DELETE", "/api/v1/identity/organizations/{own}/members/{it}", "", Membership, PEOPLE),
    probe("DELETE", "/api/v1/identity/organizations/{own}/invites/{it}", "", Invite, PEOPLE),
    probe("DELETE", "/api/v1/identity/organizations/{organization}/members/{it}", "", Membership, PEOPLE),
    probe("DELETE", "/api/v1/identity/organizations/{organization}/invites/{it}", "", Invite, PEOPLE),
    // Identity API for operators and partners.
    probe("POST", "/api/v1/identity/operator/access-requests/{it}/approve", "{}", AccessRequest, EVERYBODY),
    probe("POST", "/api/v1/identity/operator/access-requests/{it}/reject", "{}", AccessRequest, EVERYBODY),
    get("/api/v1/identity/operator/webhooks/{it}", Webhook, EVERYBODY),
    get("/api/v1/identity/operator/webhooks/{it}/deliveries", Webhook, EVERYBODY),
    get("/api/v1/identity/operator/webhooks?organization_id={it}", Organization, EVERYBODY),
    probe("POST", "/api/v1/identity/partner/organizations/{it}/domains/{domain_id}/attest", "", Organization, EVERYBODY),
    probe("POST", "/api/v1/identity/partner/organizations/{organization}/domains/{it}/attest", "", DomainId, EVERYBODY),
    probe("POST", "/api/v1/identity/partner/organizations/{it}/invites", r#"{"email":"a@a.example"}"#, Organization, EVERYBODY),
];
