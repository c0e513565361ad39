//! Credentials of operators and partners, and keys next to sessions, on every route (S3).

use crate::people::People as _;
use crate::routes::registered;
use crate::test_app::{Credentials, Identity, Requests as _, UNKNOWN_ID};
use reqwest::Method;

/// The routes, each with an empty object as the body and an unknown id if it takes one.
const GOLDEN: [(&str, &str, [u16; 4]); 26] = [
    // operator's session, trusted partner's key, untrusted one's key with the scope, that key beside the operator's session
    ("GET", "organizations", [200, 401, 401, 401]),
    ("POST", "organizations", [422, 401, 401, 401]),
    ("GET", "organizations/{}", [404, 401, 401, 401]),
    ("GET", "organizations/{}/members", [404, 401, 401, 401]),
    ("POST", "organizations/{}/members", [404, 401, 401, 401]),
    ("PATCH", "organizations/{}/members/{}", [404, 401, 401, 401]),
    ("DELETE", "organizations/{}/members/{}", [404, 401, 401, 401]),
    ("GET", "organizations/{}/invites", [404, 401, 401, 401]),
    ("DELETE", "organizations/{}/invites/{}", [404, 401, 401, 401]),
    ("POST", "invites/claim", [422, 401, 401, 401]),
    ("GET", "platform-access-requests", [200, 401, 401, 401]),
    ("POST", "platform-access-requests", [422, 401, 401, 401]),
    ("GET", "agent-access-requests", [200, 401, 401, 401]),
    ("POST", "agent-access-requests", [422, 401, 401, 401]),
    ("GET", "operator/access-requests", [200, 401, 401, 401]),
    ("POST", "operator/access-requests/{}/approve", [404, 401, 401, 401]),
    ("POST", "operator/access-requests/{}/reject", [404, 401, 401, 401]),
    ("GET", "operator/dead-letters", [200, 401, 401, 401]),
    ("POST", "operator/dead-letters/{}/retry", [404, 401, 401, 401]),
    ("GET", "operator/organizations", [200, 401, 401, 401]),
    ("GET", "operator/webhooks", [200, 401, 401, 401]),
    ("GET", "operator/webhooks/{}", [404, 401, 401, 401]),
    ("GET", "operator/webhooks/{}/deliveries", [404, 401, 401, 401]),
    ("POST", "partner/organizations", [401, 422, 403, 403]),
    ("POST", "partner/organizations/{}/domains/{}/attest", [401, 404, 403, 403]),
    ("POST", "partner/organizations/{}/invites", [401, 422, 403, 403]),
];

#[tokio::test]
async fn operator_and_partner_routes_match_the_table() {
    let app = Identity::open().await;
    let operator = app.operator("op@svc.test").await;
    let ((partner, trusted), (_, untrusted)) = (app.platform("partner").await, app.platform("untrusted").await);
    app.trust(partner, true).await;
    let Credentials::Session(session) = operator.credentials() else { panic!("people have a session") };
    let credentials = [
        operator.credentials(),
        Credentials::Key(&trusted),
        Credentials::Key(&untrusted),
        Credentials::Both(&untrusted, session),
    ];
    for (method, route, expected) in GOLDEN {
        let mut found = Vec::new();
        for shows in credentials {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let path = format!("/api/v1/identity/{}", route.replace("{}", UNKNOWN_ID));
            found.push(app.send(method, shows, &path, "{}").await.status);
        }
        assert_eq!(found, expected, "{method} {route}");
    }
}

#[test]
fn operator_and_partner_routes_are_all_in_the_table() {
    let mut found = 0;
    for (method, path) in registered() {
        let path = path.trim_start_matches("/api/v1/identity/");
        if !path.starts_with("operator/") && !path.starts_with("partner/") {
            continue;
        }
        let route = path.split('/').map(|name| if name.starts_with('{') { "{}" } else { name }).collect::<Vec<_>>().join("/");
        let is_listed = GOLDEN.iter().any(|(listed, path, _)| (*listed, *path) == (method, route.as_str()));
        assert!(is_listed, "add {method} {route} to GOLDEN, with the status for each credential");
        found += 1;
    }
    assert!(found >= 6, "routes in the crate: {found}");
}
