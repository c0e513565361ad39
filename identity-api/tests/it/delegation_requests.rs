//! Delegation requests: create, approve, deny (threat rows G6 to G9, X29).

use crate::mailbox::Mailbox as _;
use crate::people::People as _;
use crate::test_app::{DELEGATIONS, Identity, REQUESTS, Requests as _};
use chrono::TimeDelta;
use schemas::identity::{OrgType, REQUEST_LIFETIME};
use schemas::instant;
use serde_json::json;
use service_kit::testing::{Credentials, eventually};

#[tokio::test]
async fn creates_lists_and_approves_a_request() {
    let app = Identity::open_with_manual_clock().await;
    let ((owner, owner_key), (partner, partner_key)) = (app.owner_of("a.test").await, app.platform("Partner").await);
    let filed = app.request_delegation(&partner_key, "www.A.test.").await;
    assert_eq!(filed.status, 201, "{}", filed.body);
    let now = app.clock.now();
    let expected = json!({
        "id": filed.text("id"), "requester_org_id": partner, "requester_name": "Partner", "grantor_org_id": owner,
        "grantor_name": "a.test", "domain": "a.test", "scopes": ["telemetry:read"], "status": "pending",
        "created_at": app.now_text(), "expires_at": instant::text(now + REQUEST_LIFETIME), "resolved_at": null, "delegation_id": null,
    });
    assert_eq!(filed.body, expected);
    for (key, role) in [(&owner_key, "grantor"), (&partner_key, "grantee")] {
        for query in [String::new(), format!("?role={role}")] {
            assert_eq!(app.get(Credentials::Key(key), &format!("{REQUESTS}{query}")).await.body, json!([expected]), "{role}");
        }
        let other_role = if role == "grantor" { "grantee" } else { "grantor" };
        assert_eq!(app.get(Credentials::Key(key), &format!("{REQUESTS}?role={other_role}")).await.body, json!([]), "{role}");
    }
    assert_eq!(app.get(Credentials::Key(&owner_key), &format!("{REQUESTS}?role=x")).await.refusal(), (400, "invalid_parameter"));

    let approved = app.answer_request(&owner_key, filed.text("id"), "approve").await;
    assert_eq!(approved.status, 201, "{}", approved.body);
    assert_eq!((&approved.body["grantor_org_id"], &approved.body["grantee_org_id"]), (&json!(owner), &json!(partner)));
    let delegations = app.get(Credentials::Key(&partner_key), DELEGATIONS).await.body;
    assert_eq!(delegations[0]["id"], approved.body["id"], "the delegation is active");
    for key in [&owner_key, &partner_key] {
        assert_eq!(app.get(Credentials::Key(key), REQUESTS).await.body, json!([]), "only pending ones are listed");
    }
    assert_eq!(app.request_delegation(&partner_key, "a.test").await.refusal(), (409, "conflict"), "the delegation exists");
    for side in [owner, partner] {
        assert_eq!(app.audited(side).await, ["delegation_request.created", "delegation.created", "delegation_request.approved"]);
    }
    let path = format!("{DELEGATIONS}/{}", approved.text("id"));
    assert_eq!(app.delete(Credentials::Key(&owner_key), &path).await.status, 200);
    assert_eq!(app.request_delegation(&partner_key, "a.test").await.status, 201, "possible again after a revocation");
}

#[tokio::test]
async fn emails_to_owners_omit_the_requesters_name() {
    let app = Identity::open().await;
    let ((owner, _), (_, partner)) = (app.owner_of("a.test").await, app.platform("Bargain").await);
    let (_, second) = app.platform("second").await;
    app.session("ada@a.test", &[owner]).await;
    app.person("plain@a.test").await;
    app.seed().join("plain@a.test", owner).await;
    let told = async |count: usize| {
        let mails = async || (app.mails().len() >= count).then(|| app.mails());
        let mails = eventually(&format!("{count} mails"), mails).await;
        assert!(mails.iter().all(|mail| mail.contains("To: ada@a.test\r\n") && mail.contains(&owner.to_string())), "{mails:?}");
        assert!(mails.iter().all(|mail| !mail.contains("Bargain") && !mail.contains("your-account-is-locked")), "{mails:?}");
        assert_eq!(mails.len(), count, "{mails:?}");
    };
    assert_eq!(app.request_delegation(&partner, "your-account-is-locked.a.test").await.status, 201);
    told(1).await;
    assert_eq!(app.request_delegation(&partner, "a.test").await.status, 409);
    let both = json!([{"domain": "a.test"}, {"domain": "a.test"}, {"domain": "nobody.test"}]);
    let filed = app.post(Credentials::Key(&second), &format!("{REQUESTS}/bulk"), &both).await;
    assert_eq!(filed.body["summary"]["created"], 1, "{}", filed.body);
    told(2).await;
}

#[tokio::test]
async fn denied_requests_can_be_filed_again() {
    let app = Identity::open().await;
    let ((owner, owner_key), (_, partner)) = (app.owner_of("a.test").await, app.platform("partner").await);
    let filed = app.request_delegation(&partner, "a.test").await;
    assert_eq!(app.request_delegation(&partner, "www.a.test").await.refusal(), (409, "conflict"), "one pending request per pair");
    let denied = app.answer_request(&owner_key, filed.text("id"), "deny").await;
    assert_eq!((denied.status, denied.body), (204, serde_json::Value::Null));
    for verb in ["approve", "deny"] {
        assert_eq!(app.answer_request(&owner_key, filed.text("id"), verb).await.refusal(), (409, "conflict"), "{verb}");
    }
    assert_eq!(app.count("SELECT count(*) FROM delegations").await, 0);
    assert_eq!(app.request_delegation(&partner, "a.test").await.status, 201);
    let expected = ["delegation_request.created", "delegation_request.denied", "delegation_request.created"];
    assert_eq!(app.audited(owner).await, expected);
}

#[tokio::test]
async fn granting_conflicts_with_a_pending_request() {
    let app = Identity::open().await;
    let ((_, owner), (partner, partner_key)) = (app.owner_of("a.test").await, app.platform("partner").await);
    let filed = app.request_delegation(&partner_key, "a.test").await;
    assert_eq!(app.grant(&owner, partner).await.status, 201, "the owner can grant without a request");
    let refused = app.answer_request(&owner, filed.text("id"), "approve").await;
    assert_eq!(refused.refusal(), (409, "conflict"), "the delegation exists already");
    assert_eq!(app.count("SELECT count(*) FROM delegations").await, 1);
    assert_eq!(
        app.count("SELECT count(*) FROM delegation_requests WHERE status = 'pending'").await,
        1,
        "the request is still pending"
    );
    assert_eq!(app.answer_request(&owner, filed.text("id"), "deny").await.status, 204);
}

#[tokio::test]
async fn g7_expired_requests_return_410_resolved_ones_409() {
    let app = Identity::open_with_manual_clock().await;
    let ((_, owner), (_, partner)) = (app.owner_of("a.test").await, app.platform("partner").await);
    let (_, prompt) = app.platform("prompt").await;
    let resolved = app.request_delegation(&prompt, "a.test").await;
    let filed = app.request_delegation(&partner, "a.test").await;
    app.clock.advance(REQUEST_LIFETIME - TimeDelta::microseconds(1));
    assert_eq!(
        app.get(Credentials::Key(&owner), REQUESTS).await.body.as_array().unwrap().len(),
        2,
        "still pending just before expiry"
    );
    assert_eq!(app.answer_request(&owner, resolved.text("id"), "approve").await.status, 201);
    app.clock.advance(TimeDelta::microseconds(1));
    assert_eq!(app.get(Credentials::Key(&owner), REQUESTS).await.body, json!([]));
    for verb in ["approve", "deny", "approve"] {
        assert_eq!(app.answer_request(&owner, filed.text("id"), verb).await.refusal(), (410, "expired"), "{verb}");
        assert_eq!(app.answer_request(&owner, resolved.text("id"), verb).await.refusal(), (409, "conflict"), "{verb}");
    }
    let again = app.request_delegation(&partner, "a.test").await;
    assert_eq!(again.status, 201, "an expired request doesn't block a new one: {}", again.body);
    assert_eq!(
        app.answer_request(&owner, filed.text("id"), "approve").await.refusal(),
        (410, "expired"),
        "the expired request stays expired"
    );
    assert_eq!(app.answer_request(&owner, again.text("id"), "approve").await.status, 201);
}

#[tokio::test]
async fn g8_only_the_grantor_can_resolve_a_request() {
    let app = Identity::open().await;
    let ((_, owner), (_, partner)) = (app.owner_of("a.test").await, app.platform("partner").await);
    let (_, stranger) = app.owner_of("b.test").await;
    let filed = app.request_delegation(&partner, "a.test").await;
    for verb in ["approve", "deny"] {
        assert_eq!(app.answer_request(&partner, filed.text("id"), verb).await.refusal(), (403, "forbidden"), "{verb}");
        assert_eq!(app.answer_request(&stranger, filed.text("id"), verb).await.refusal(), (404, "not_found"), "{verb}");
    }
    assert_eq!(app.answer_request(&owner, filed.text("id"), "approve").await.status, 201);
}

#[tokio::test]
async fn g9_accepts_every_spelling_of_the_domain() {
    let app = Identity::open().await;
    let ((owner, owner_key), (_, partner)) = (app.owner_of("xn--bcher-kva.test").await, app.platform("partner").await);
    let (registered, _) = app.org("registered").await;
    sqlx::query("INSERT INTO domains (organization_id, domain, site) VALUES ($1, 'b.test', 'test.b')")
        .bind(registered.0)
        .execute(&app.stores.pool)
        .await
        .unwrap();
    for spelling in ["bücher.test", "BÜCHER.TEST.", "xn--bcher-kva.test", " https://deep.www.bücher.test:8443/x "] {
        let filed = app.request_delegation(&partner, spelling).await;
        assert_eq!((filed.status, &filed.body["grantor_org_id"]), (201, &json!(owner)), "{spelling}: {}", filed.body);
        assert_eq!(
            app.request_delegation(&owner_key, spelling).await.refusal(),
            (422, "invalid_request"),
            "own domain: {spelling}"
        );
        assert_eq!(app.answer_request(&owner_key, filed.text("id"), "deny").await.status, 204);
    }
    for nobodys in ["b.test", "notbücher.test", "bücher.test.evil.test", "c.test"] {
        assert_eq!(app.request_delegation(&partner, nobodys).await.refusal(), (404, "not_found"), "{nobodys}");
    }
    let (_, agent) = app.org_of("agent", OrgType::Agent).await;
    assert_eq!(app.request_delegation(&agent, "bücher.test").await.status, 201, "agents can request too");
}
