//! Delegations: grant, list, revoke (threat rows G1, G2, G4, G5, X29).

use crate::test_app::{Credentials, DELEGATIONS, Identity, REQUESTS, Requests as _, UNKNOWN_ID, manual_clock, sign_in};
use chrono::TimeDelta;
use identity_api::sign_in::SignInSettings;
use reqwest::Method;
use schemas::identity::OrgType;
use serde_json::json;

#[tokio::test]
async fn grants_lists_and_revokes_a_delegation() {
    let app = Identity::open().await;
    let ((owner, owner_key), (partner, partner_key)) = (app.org("Owner").await, app.platform("Partner").await);
    let granted = app.grant(&owner_key, partner).await;
    assert_eq!(granted.status, 201, "{}", granted.body);
    let expected = json!({
        "id": granted.text("id"), "grantor_org_id": owner, "grantee_org_id": partner, "scopes": ["telemetry:read"],
        "created_at": granted.text("created_at"), "revoked_at": null,
    });
    assert_eq!(granted.body, expected);

    let mut listed = expected.clone();
    listed["grantor_name"] = json!("Owner");
    listed["grantee_name"] = json!("Partner");
    for key in [&owner_key, &partner_key] {
        assert_eq!(app.get(Credentials::Key(key), DELEGATIONS).await.body, json!([listed]));
    }

    let path = format!("{DELEGATIONS}/{}", granted.text("id"));
    let revoked = app.delete(Credentials::Key(&owner_key), &path).await;
    assert_eq!(revoked.status, 200);
    assert!(revoked.text("revoked_at") >= granted.text("created_at"), "{}", revoked.body);
    assert_eq!(app.delete(Credentials::Key(&owner_key), &path).await, revoked, "repeating it changes nothing");
    for key in [&owner_key, &partner_key] {
        assert_eq!(app.get(Credentials::Key(key), DELEGATIONS).await.body, json!([]), "only active ones are listed");
    }
    assert_eq!(app.audited(owner).await, ["delegation.created", "delegation.revoked"], "one row per change");
    assert_eq!(app.grant(&owner_key, partner).await.status, 201, "it can be granted again");
}

#[tokio::test]
async fn g1_only_content_owners_can_delegate_reads() {
    let app = Identity::open().await;
    let (_, owner) = app.org("owner").await;
    let (platform, platform_key) = app.platform("platform").await;
    let (_, agent_key) = app.org_of("agent", OrgType::Agent).await;
    let (other, _) = app.platform("other").await;
    for key in [&platform_key, &agent_key] {
        assert_eq!(app.grant(key, other).await.refusal(), (403, "forbidden"));
    }
    let writing = json!({"grantee_org_id": platform, "scopes": ["telemetry:read", "telemetry:write"]});
    assert_eq!(app.post(Credentials::Key(&owner), DELEGATIONS, &writing).await.refusal(), (422, "invalid_request"));
    assert_eq!(app.count("SELECT count(*) FROM delegations").await, 0);
    let body = json!({"grantee_org_id": platform, "scopes": ["telemetry:read", "telemetry:read"]});
    let granted = app.post(Credentials::Key(&owner), DELEGATIONS, &body).await;
    assert_eq!((granted.status, &granted.body["scopes"]), (201, &json!(["telemetry:read"])));
}

#[tokio::test]
async fn g2_grantees_are_other_platforms_or_agents() {
    let app = Identity::open().await;
    let (owner, owner_key) = app.org("owner").await;
    let ((other, _), (agent, _)) = (app.org("other").await, app.org_of("agent", OrgType::Agent).await);
    for (grantee, expected) in [
        (json!(UNKNOWN_ID), (404, "not_found")),
        (json!(owner), (422, "invalid_request")),
        (json!(other), (422, "invalid_request")),
    ] {
        let body = json!({"grantee_org_id": grantee});
        assert_eq!(app.post(Credentials::Key(&owner_key), DELEGATIONS, &body).await.refusal(), expected, "{grantee}");
    }
    assert_eq!(app.count("SELECT count(*) FROM delegations").await, 0);
    assert_eq!(app.grant(&owner_key, agent).await.status, 201, "agents are accepted too");
}

#[tokio::test]
async fn g4_only_the_grantor_can_revoke() {
    let app = Identity::open().await;
    let ((owner, owner_key), (partner, partner_key)) = (app.org("owner").await, app.platform("partner").await);
    let (_, stranger) = app.org("stranger").await;
    let granted = app.grant(&owner_key, partner).await;
    let path = format!("{DELEGATIONS}/{}", granted.text("id"));
    assert_eq!(app.delete(Credentials::Key(&partner_key), &path).await.refusal(), (403, "forbidden"));
    assert_eq!(app.delete(Credentials::Key(&stranger), &path).await.refusal(), (404, "not_found"));
    assert_eq!(app.audited(owner).await, ["delegation.created"], "the delegation is still active");
    let urn = format!("{DELEGATIONS}/urn:uuid:{}", granted.text("id"));
    assert_eq!(app.delete(Credentials::Key(&owner_key), &urn).await.status, 200, "other spellings of an id are accepted");
}

#[tokio::test]
async fn g5_lists_contain_only_the_callers_delegations() {
    let app = Identity::open().await;
    let ((one, one_key), (two, two_key)) = (app.org("one").await, app.org("two").await);
    let ((partner, partner_key), (_, stranger)) = (app.platform("partner").await, app.platform("stranger").await);
    assert_eq!(app.grant(&one_key, partner).await.status, 201);
    assert_eq!(app.grant(&two_key, partner).await.status, 201);
    let grantors = async |key: &str, query: &str| {
        let listed = app.get(Credentials::Key(key), &format!("{DELEGATIONS}{query}")).await;
        assert_eq!(listed.status, 200, "{}", listed.body);
        listed.body.as_array().unwrap().iter().map(|row| row["grantor_org_id"].clone()).collect::<Vec<_>>()
    };
    let (one, two) = (json!(one), json!(two));
    for (key, query, expected) in [
        (&one_key, "", vec![one.clone()]),
        (&one_key, "?role=grantor", vec![one.clone()]),
        (&one_key, "?role=grantee", vec![]),
        (&partner_key, "", vec![one.clone(), two.clone()]),
        (&partner_key, "?role=grantee", vec![one.clone(), two.clone()]),
        (&partner_key, "?role=grantor", vec![]),
        (&stranger, "", vec![]),
    ] {
        assert_eq!(grantors(key, query).await, expected, "{query}");
    }
    for query in ["?role=", "?role=owner", "?role=Grantor", "?role=grantor&role=grantee", "?role=%00"] {
        let refused = app.get(Credentials::Key(&one_key), &format!("{DELEGATIONS}{query}")).await;
        assert_eq!(refused.refusal(), (400, "invalid_parameter"), "{query}");
    }
}

/// Two organizations can't flood each other with messages, rows and audit entries.
#[tokio::test]
async fn limits_delegations_per_pair_and_hour() {
    let clock = manual_clock();
    let app = Identity::open_for(clock.clone(), SignInSettings { delegations_per_pair: 2, ..sign_in() }).await;
    let ((_, owner), (platform, partner)) = (app.owner_of("a.test").await, app.platform("platform").await);
    for _ in 0..2 {
        let asked = app.request_delegation(&partner, "a.test").await;
        assert_eq!((asked.status, app.answer_request(&owner, asked.text("id"), "deny").await.status), (201, 204));
        let granted = app.grant(&owner, platform).await;
        let path = format!("{DELEGATIONS}/{}", granted.text("id"));
        assert_eq!((granted.status, app.delete(Credentials::Key(&owner), &path).await.status), (201, 200));
        clock.advance(TimeDelta::minutes(20));
    }
    assert_eq!(app.request_delegation(&partner, "a.test").await.refusal(), (429, "too_many_requests"));
    let bulk = app.post(Credentials::Key(&partner), &format!("{REQUESTS}/bulk"), &json!([{"domain": "a.test"}])).await;
    assert_eq!((bulk.status, &bulk.body["results"][0]["error"]["code"]), (200, &json!("too_many_requests")));
    let request = app.request(Method::POST, DELEGATIONS, Credentials::Key(&owner)).json(&json!({"grantee_org_id": platform}));
    let refused = request.send().await.unwrap();
    assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].to_str().unwrap()), (429, "1200"));
    let (other, _) = app.platform("other").await;
    assert_eq!(app.grant(&owner, other).await.status, 201, "another pair has its own limit");
    clock.advance(TimeDelta::minutes(20));
    assert_eq!((app.grant(&owner, platform).await.status, app.grant(&owner, platform).await.status), (201, 429));
}

#[tokio::test]
async fn approvals_count_against_the_pairs_limit() {
    let app = Identity::open_for(manual_clock(), SignInSettings { delegations_per_pair: 1, ..sign_in() }).await;
    let ((_, owner), (platform, partner)) = (app.owner_of("a.test").await, app.platform("platform").await);
    let granted = app.grant(&owner, platform).await;
    assert_eq!(app.delete(Credentials::Key(&owner), &format!("{DELEGATIONS}/{}", granted.text("id"))).await.status, 200);
    let asked = app.request_delegation(&partner, "a.test").await;
    assert_eq!(app.answer_request(&owner, asked.text("id"), "approve").await.refusal(), (429, "too_many_requests"));
}
