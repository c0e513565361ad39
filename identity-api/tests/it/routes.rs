//! Checks every route with every kind of credential (S3, X24).

use crate::test_app::{Credentials, Identity, Requests as _, UNKNOWN_ID};
use reqwest::Method;
use schemas::identity::{DrainProvider, OrgType, Scope};

/// Every route, with an empty object as the body and an unknown id if it takes one. `onboarding_routes` covers operators and partners.
pub(crate) const GOLDEN: [(&str, &str, [u16; 10]); 82] = [
    // none, unscoped key, identity:read, identity:write, revoked key, member, expired session, stranger's session,
    // identity:read and identity:write of a platform, and of an agent
    ("GET", "/api/v1/identity/analysts", [401, 403, 200, 200, 401, 200, 401, 403, 200, 200]),
    ("DELETE", "/api/v1/identity/analysts/{id}", [401, 403, 403, 404, 401, 404, 401, 403, 404, 404]),
    ("GET", "/api/v1/identity/api-keys", [401, 403, 200, 200, 401, 200, 401, 403, 200, 200]),
    ("POST", "/api/v1/identity/api-keys", [401, 403, 403, 403, 401, 201, 401, 403, 403, 403]),
    ("PATCH", "/api/v1/identity/api-keys/{id}", [401, 403, 403, 422, 401, 422, 401, 403, 422, 422]),
    ("DELETE", "/api/v1/identity/api-keys/{id}", [401, 403, 403, 404, 401, 404, 401, 403, 404, 404]),
    ("GET", "/api/v1/identity/audit", [401, 403, 200, 200, 401, 200, 401, 403, 200, 200]),
    ("GET", "/api/v1/identity/delegations", [401, 403, 200, 200, 401, 200, 401, 403, 200, 200]),
    ("POST", "/api/v1/identity/delegations", [401, 403, 403, 422, 401, 422, 401, 403, 403, 403]),
    ("DELETE", "/api/v1/identity/delegations/{id}", [401, 403, 403, 404, 401, 404, 401, 403, 404, 404]),
    ("GET", "/api/v1/identity/delegation-requests", [401, 403, 200, 200, 401, 200, 401, 403, 200, 200]),
    ("POST", "/api/v1/identity/delegation-requests", [401, 403, 403, 422, 401, 422, 401, 403, 422, 422]),
    ("POST", "/api/v1/identity/delegation-requests/bulk", [401, 403, 403, 400, 401, 400, 401, 403, 400, 400]),
    ("POST", "/api/v1/identity/delegation-requests/{id}/approve", [401, 403, 403, 404, 401, 404, 401, 403, 404, 404]),
    ("POST", "/api/v1/identity/delegation-requests/{id}/deny", [401, 403, 403, 404, 401, 404, 401, 403, 404, 404]),
    ("GET", "/api/v1/identity/domains", [401, 403, 200, 200, 401, 200, 401, 403, 403, 403]),
    ("POST", "/api/v1/identity/domains", [401, 403, 403, 422, 401, 422, 401, 403, 403, 403]),
    ("DELETE", "/api/v1/identity/domains/{id}", [401, 403, 403, 404, 401, 404, 401, 403, 403, 403]),
    ("POST", "/api/v1/identity/domains/{id}/verify", [401, 403, 403, 404, 401, 404, 401, 403, 403, 403]),
    ("GET", "/api/v1/identity/drains", [401, 403, 200, 200, 401, 200, 401, 403, 200, 200]),
    ("POST", "/api/v1/identity/drains", [401, 403, 403, 422, 401, 422, 401, 403, 422, 422]),
    ("GET", "/api/v1/identity/drains/{id}", [401, 403, 404, 404, 401, 404, 401, 403, 404, 404]),
    ("DELETE", "/api/v1/identity/drains/{id}", [401, 403, 403, 404, 401, 404, 401, 403, 404, 404]),
    ("POST", "/api/v1/identity/drains/{id}/rotate", [401, 403, 403, 404, 401, 404, 401, 403, 404, 404]),
    ("GET", "/api/v1/identity/drains/{id}/health", [401, 403, 404, 404, 401, 404, 401, 403, 404, 404]),
    ("GET", "/api/v1/identity/manifests", [401, 403, 200, 200, 401, 200, 401, 403, 200, 200]),
    ("POST", "/api/v1/identity/manifests", [401, 403, 403, 422, 401, 422, 401, 403, 422, 422]),
    ("GET", "/api/v1/identity/manifests/{id}", [401, 403, 404, 404, 401, 404, 401, 403, 404, 404]),
    ("DELETE", "/api/v1/identity/manifests/{id}", [401, 403, 403, 404, 401, 404, 401, 403, 404, 404]),
    ("POST", "/api/v1/identity/manifests/{id}/refresh", [401, 403, 403, 404, 401, 404, 401, 403, 404, 404]),
    ("GET", "/api/v1/identity/refused-reports", [401, 403, 200, 200, 401, 200, 401, 403, 200, 200]),
    ("GET", "/api/v1/identity/reconciliation-alert", [401, 403, 200, 200, 401, 200, 401, 403, 200, 200]),
    ("PUT", "/api/v1/identity/reconciliation-alert", [401, 403, 403, 200, 401, 200, 401, 403, 403, 403]),
    ("GET", "/api/v1/identity/saved-views", [401, 403, 200, 200, 401, 200, 401, 403, 200, 200]),
    ("POST", "/api/v1/identity/saved-views", [401, 403, 403, 422, 401, 422, 401, 403, 422, 422]),
    ("DELETE", "/api/v1/identity/saved-views/{id}", [401, 403, 403, 404, 401, 404, 401, 403, 404, 404]),
    ("GET", "/api/v1/identity/settings", [401, 403, 200, 200, 401, 200, 401, 403, 200, 200]),
    ("PATCH", "/api/v1/identity/settings", [401, 403, 403, 422, 401, 422, 401, 403, 422, 422]),
    ("GET", "/api/v1/identity/webhooks", [401, 403, 200, 200, 401, 200, 401, 403, 200, 200]),
    ("POST", "/api/v1/identity/webhooks", [401, 403, 403, 422, 401, 422, 401, 403, 422, 422]),
    ("GET", "/api/v1/identity/webhooks/{id}", [401, 403, 404, 404, 401, 404, 401, 403, 404, 404]),
    ("PATCH", "/api/v1/identity/webhooks/{id}", [401, 403, 403, 404, 401, 404, 401, 403, 404, 404]),
    ("DELETE", "/api/v1/identity/webhooks/{id}", [401, 403, 403, 404, 401, 404, 401, 403, 404, 404]),
    ("POST", "/api/v1/identity/webhooks/{id}/test", [401, 403, 403, 404, 401, 404, 401, 403, 404, 404]),
    ("POST", "/api/v1/identity/webhooks/{id}/rotate-secret", [401, 403, 403, 404, 401, 404, 401, 403, 404, 404]),
    ("GET", "/api/v1/identity/webhooks/{id}/deliveries", [401, 403, 404, 404, 401, 404, 401, 403, 404, 404]),
    (
        "POST",
        "/api/v1/identity/webhooks/{id}/deliveries/{delivery_id}/redeliver",
        [401, 403, 403, 404, 401, 404, 401, 403, 404, 404],
    ),
    ("GET", "/api/v1/identity/organizations", [401, 401, 401, 401, 401, 200, 401, 200, 401, 401]),
    ("POST", "/api/v1/identity/organizations", [401, 401, 401, 401, 401, 422, 401, 422, 401, 401]),
    ("GET", "/api/v1/identity/organizations/{id}", [401, 401, 401, 401, 401, 404, 401, 404, 401, 401]),
    ("GET", "/api/v1/identity/organizations/{id}/members", [401, 401, 401, 401, 401, 404, 401, 404, 401, 401]),
    ("POST", "/api/v1/identity/organizations/{id}/members", [401, 401, 401, 401, 401, 404, 401, 404, 401, 401]),
    ("PATCH", "/api/v1/identity/organizations/{id}/members/{user_id}", [401, 401, 401, 401, 401, 404, 401, 404, 401, 401]),
    ("DELETE", "/api/v1/identity/organizations/{id}/members/{user_id}", [401, 401, 401, 401, 401, 404, 401, 404, 401, 401]),
    ("GET", "/api/v1/identity/organizations/{id}/invites", [401, 401, 401, 401, 401, 404, 401, 404, 401, 401]),
    ("DELETE", "/api/v1/identity/organizations/{id}/invites/{invite_id}", [401, 401, 401, 401, 401, 404, 401, 404, 401, 401]),
    ("POST", "/api/v1/identity/invites/claim", [401, 401, 401, 401, 401, 422, 401, 422, 401, 401]),
    ("GET", "/api/v1/identity/platform-access-requests", [401, 401, 401, 401, 401, 200, 401, 200, 401, 401]),
    ("POST", "/api/v1/identity/platform-access-requests", [401, 401, 401, 401, 401, 422, 401, 422, 401, 401]),
    ("GET", "/api/v1/identity/agent-access-requests", [401, 401, 401, 401, 401, 200, 401, 200, 401, 401]),
    ("POST", "/api/v1/identity/agent-access-requests", [401, 401, 401, 401, 401, 422, 401, 422, 401, 401]),
    ("GET", "/api/v1/identity/operator/access-requests", [401, 401, 401, 401, 401, 403, 401, 403, 401, 401]),
    ("POST", "/api/v1/identity/operator/access-requests/{id}/approve", [401, 401, 401, 401, 401, 403, 401, 403, 401, 401]),
    ("POST", "/api/v1/identity/operator/access-requests/{id}/reject", [401, 401, 401, 401, 401, 403, 401, 403, 401, 401]),
    ("GET", "/api/v1/identity/operator/dead-letters", [401, 401, 401, 401, 401, 403, 401, 403, 401, 401]),
    ("POST", "/api/v1/identity/operator/dead-letters/{id}/retry", [401, 401, 401, 401, 401, 403, 401, 403, 401, 401]),
    ("GET", "/api/v1/identity/operator/organizations", [401, 401, 401, 401, 401, 403, 401, 403, 401, 401]),
    ("GET", "/api/v1/identity/operator/webhooks", [401, 401, 401, 401, 401, 403, 401, 403, 401, 401]),
    ("GET", "/api/v1/identity/operator/webhooks/{id}", [401, 401, 401, 401, 401, 403, 401, 403, 401, 401]),
    ("GET", "/api/v1/identity/operator/webhooks/{id}/deliveries", [401, 401, 401, 401, 401, 403, 401, 403, 401, 401]),
    ("POST", "/api/v1/identity/partner/organizations", [401, 403, 403, 403, 401, 401, 401, 401, 403, 403]),
    (
        "POST",
        "/api/v1/identity/partner/organizations/{id}/domains/{domain_id}/attest",
        [401, 403, 403, 403, 401, 401, 401, 401, 403, 403],
    ),
    ("POST", "/api/v1/identity/partner/organizations/{id}/invites", [401, 403, 403, 403, 401, 401, 401, 401, 403, 403]),
    ("GET", "/api/v1/identity/auth/magic-link", [400, 400, 400, 400, 400, 400, 400, 400, 400, 400]),
    ("POST", "/api/v1/identity/auth/magic-link", [422, 422, 422, 422, 422, 422, 422, 422, 422, 422]),
    ("POST", "/api/v1/identity/auth/magic-link/verify", [422, 422, 422, 422, 422, 422, 422, 422, 422, 422]),
    ("GET", "/api/v1/identity/auth/oidc", [200, 200, 200, 200, 200, 200, 200, 200, 200, 200]),
    ("GET", "/api/v1/identity/auth/oidc/{provider}", [404, 404, 404, 404, 404, 404, 404, 404, 404, 404]),
    ("GET", "/api/v1/identity/auth/oidc/{provider}/callback", [404, 404, 404, 404, 404, 404, 404, 404, 404, 404]),
    ("GET", "/api/v1/identity/auth/session", [401, 401, 401, 401, 401, 200, 401, 200, 401, 401]),
    // last of the routes that need a session, because it ends the sessions
    ("DELETE", "/api/v1/identity/auth/session", [401, 401, 401, 401, 401, 204, 401, 204, 401, 401]),
    ("PUT", "/api/v1/identity/webhooks/{id}", [405, 405, 405, 405, 405, 405, 405, 405, 405, 405]),
];

#[tokio::test]
async fn s3_every_route_matches_the_table_of_credentials() {
    let app = Identity::open().await;
    let (org, gone) = (app.seed().org("owner", OrgType::ContentOwner).await.id, app.org("gone").await);
    let key = async |scopes: &[Scope]| app.seed().key(org, OrgType::ContentOwner, scopes).await;
    let unscoped = key(&[Scope::TelemetryRead, Scope::TelemetryWrite]).await;
    let (reader, writer) = (key(&[Scope::IdentityRead]).await, key(&[Scope::IdentityWrite]).await);
    app.seed().revoke_keys(gone.0).await;
    let both = [Scope::IdentityRead, Scope::IdentityWrite];
    let of_type = async |org_type| {
        let org = app.seed().org("other", org_type).await.id;
        app.seed().key(org, org_type, &both).await
    };
    let (platform, agent) = (of_type(OrgType::Platform).await, of_type(OrgType::Agent).await);
    let (member, stranger) = (app.session("member@a.test", &[org]).await, app.session("stranger@a.test", &[]).await);
    let expired = app.session("late@a.test", &[org]).await;
    sqlx::query("UPDATE user_sessions SET expires_at = now() FROM users u WHERE u.id = user_id AND u.email = 'late@a.test'")
        .execute(&app.stores.pool)
        .await
        .unwrap();
    let credentials = [
        Credentials::Nothing,
        Credentials::Key(&unscoped),
        Credentials::Key(&reader),
        Credentials::Key(&writer),
        Credentials::Key(&gone.1),
        Credentials::Session(&member),
        Credentials::Session(&expired),
        Credentials::Session(&stranger),
        Credentials::Key(&platform),
        Credentials::Key(&agent),
    ];
    let mut wrong = Vec::new();
    for (method, route, expected) in GOLDEN {
        let mut found = Vec::new();
        for shows in credentials {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            found.push(app.send(method, shows, &of_nothing(route), "{}").await.status);
        }
        if found != expected {
            wrong.push(format!("{method} {route} {found:?}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new(), "responses that differ from the table");
}

/// Expects the statuses of a key without this service's scopes.
#[tokio::test]
async fn rejects_drain_keys_on_every_route() {
    let app = Identity::open().await;
    for org_type in [OrgType::ContentOwner, OrgType::Platform, OrgType::Agent] {
        let org = app.seed().org("owner", org_type).await.id;
        for provider in DrainProvider::ALL {
            let (_, key) = app.seed().drain(org, org_type, provider).await;
            for (method, route, expected) in GOLDEN {
                let method = Method::from_bytes(method.as_bytes()).unwrap();
                let answer = app.send(method.clone(), Credentials::Key(&key), &of_nothing(route), "{}").await;
                assert_eq!(answer.status, expected[1], "{method} {route}: {}", answer.body);
                if answer.status == 403 {
                    assert_eq!(answer.refusal(), (403, "missing_scope"), "{method} {route}");
                }
            }
        }
    }
}

/// Returns a route with an unknown id in every placeholder.
fn of_nothing(route: &str) -> String {
    route.split('/').map(|name| if name.starts_with('{') { UNKNOWN_ID } else { name }).collect::<Vec<_>>().join("/")
}

pub(crate) fn registered() -> Vec<(&'static str, &'static str)> {
    let mut routes = Vec::new();
    for registration in include_str!("../../src/routes.rs").split(".route(").skip(1) {
        let registration = registration.split(".with_state").next().unwrap();
        let path = registration.split('"').nth(1).unwrap();
        for (method, call) in [("GET", "get("), ("POST", "post("), ("PATCH", "patch("), ("PUT", "put("), ("DELETE", "delete(")] {
            routes.extend(registration.contains(call).then_some((method, path)));
        }
    }
    routes
}

#[test]
fn s3_fails_if_a_route_is_missing_from_the_table() {
    let table: Vec<_> =
        GOLDEN.iter().filter(|(.., answers)| answers[0] != 405).map(|(method, path, _)| (*method, *path)).collect();
    assert_eq!(registered(), table, "add the new route to GOLDEN, with the status for each credential");
}
