//! Success messages for forms: a form redirects to a page with `done` in its address, and the page shows the message.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;

/// Query parameter with the name of a message.
const FIELD: &str = "done=";

/// A form's route, its message's name, and the message. A route with a choice ends with the chosen value.
const MESSAGES: [(&str, &str, &str); 27] = [
    ("/domains", "domain-added", "Domain added. Next, verify it."),
    ("/domains/{id}/verify", "domain-verified", "Domain verified."),
    ("/domains/{id}/release", "domain-released", "Domain released."),
    ("/drains/{id}/delete", "drain-deleted", "Log drain deleted."),
    ("/keys/{id}/revoke", "key-revoked", "Key revoked."),
    ("/partners", "access-requested", "Request sent. The domain\u{2019}s owner has 30 days to approve it."),
    ("/partners/requests/{id}/approve", "access-granted", "Access granted."),
    ("/partners/requests/{id}/deny", "access-denied", "Request denied."),
    ("/partners/{id}/revoke", "access-revoked", "Access revoked."),
    ("/webhooks/{id}/test", "test-sent", "Test sent. Its result appears below in a few seconds."),
    ("/webhooks/{id}/disable", "endpoint-disabled", "Endpoint disabled."),
    ("/webhooks/{id}/enable", "endpoint-enabled", "Endpoint enabled."),
    ("/webhooks/{id}/delete", "endpoint-deleted", "Endpoint deleted."),
    ("/webhooks/{id}/deliveries/{delivery}/redeliver", "resent", "The delivery will be sent again in a few seconds."),
    ("/members", "invite-sent", "Invite sent."),
    ("/members/{id}/role", "role-changed", "Role changed."),
    ("/members/{id}/remove", "member-removed", "Member removed."),
    ("/members/invites/{id}/withdraw", "invite-withdrawn", "Invite withdrawn."),
    ("/statements", "month-closed", "This is the latest statement of the month."),
    ("/views", "view-saved", "View saved."),
    ("/views/{id}/delete", "view-deleted", "View deleted."),
    ("/settings", "settings-saved", "Settings saved."),
    ("/console/organizations", "organization-created", "Organization created. Next, verify its domain."),
    ("/console/requests", "request-sent", "Request sent. We\u{2019}ll email you the decision."),
    ("/console/operator/requests/{id}/approve", "request-approved", "Request approved."),
    ("/console/operator/requests/{id}/reject", "request-rejected", "Request rejected."),
    (
        "/console/operator/dead-letters/{id}/retry",
        "dead-letter-retried",
        "Retry requested. Reload the page in a few seconds to see the result.",
    ),
];

/// Returns the message that a query names.
pub(crate) fn message(query: &str) -> Option<&'static str> {
    let name = query.split('&').find_map(|pair| pair.strip_prefix(FIELD))?;
    MESSAGES.iter().find(|(_, known, _)| *known == name).map(|(.., message)| *message)
}

/// Adds a form's message to its redirect's address. `route` is the form's route, and `path` the request's path.
pub(crate) fn add_to_redirect(route: &str, path: &str, mut response: Response) -> Response {
    let route = route.replace("/console/o/{organization}", "");
    let chosen = path.rsplit('/').next().unwrap_or_default();
    let route = route.replace("{answer}", chosen).replace("{verdict}", chosen);
    let found = MESSAGES.iter().find(|(of, ..)| *of == route).filter(|_| response.status() == StatusCode::SEE_OTHER);
    let to = response.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
    if let Some((to, (_, name, _))) = to.filter(|to| to.starts_with("/console/")).zip(found) {
        let sign = if to.contains('?') { '&' } else { '?' };
        if let Ok(to) = HeaderValue::try_from(format!("{to}{sign}{FIELD}{name}")) {
            response.headers_mut().insert(header::LOCATION, to);
        }
    }
    response
}
