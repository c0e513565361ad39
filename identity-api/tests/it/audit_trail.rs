//! The audit trail, as read by its organization.

use crate::people::People as _;
use crate::test_app::{Credentials, DELEGATIONS, Identified, Identity, KEYS, Requests as _, TestApp};
use chrono::DateTime;
use schemas::identity::{OrgType, Scope};
use schemas::ids::OrgId;
use serde_json::{Value, json};

const AUDIT: &str = "/api/v1/identity/audit";

pub(crate) trait AuditTrail: Identified {
    async fn trail_of(&self, key: &str, query: &str) -> Vec<Value> {
        let answered = self.app().get(Credentials::Key(key), &format!("{AUDIT}{query}")).await;
        assert_eq!(answered.status, 200, "{}", answered.body);
        answered.body.as_array().unwrap().clone()
    }
}

impl AuditTrail for TestApp {}

#[tokio::test]
async fn organizations_read_their_audit_trail_newest_first() {
    let app = Identity::open().await;
    let (ada, bob, org) = app.ada_and_bob("owner").await;
    let created =
        app.post(ada.credentials(), KEYS, &json!({"name": "first", "scopes": ["identity:read", "identity:write"]})).await;
    let key = created.text("key");
    app.post(Credentials::Key(key), KEYS, &json!({"name": "second", "scopes": ["identity:read"]})).await;
    app.post(bob.credentials(), KEYS, &json!({"name": "third"})).await;
    assert_eq!(app.remove(&ada, &org, &bob).await.status, 204);

    let all = app.trail_of(key, "").await;
    let at = |entry: &Value| DateTime::parse_from_rfc3339(entry["at"].as_str().unwrap()).unwrap();
    assert!(all.windows(2).all(|pair| at(&pair[0]) >= at(&pair[1])), "{all:?}");
    let newest: Vec<_> = all.iter().take(3).map(|entry| entry["action"].as_str().unwrap()).collect();
    assert!(newest.contains(&"member.removed"), "{newest:?}");
    let created_keys = app.trail_of(key, "?action=api_key.created").await;
    let makers: Vec<_> = created_keys.iter().map(|entry| (&entry["actor"]["kind"], &entry["actor"]["name"])).collect();
    let (user, by_key) = (json!("user"), json!("key"));
    let expected = [(&user, "bob@a.test"), (&by_key, "first"), (&user, "ada@a.test")].map(|(kind, name)| (kind, json!(name)));
    assert_eq!(makers, expected.iter().map(|(kind, name)| (*kind, name)).collect::<Vec<_>>(), "former members are named too");
    assert_eq!(created_keys[2]["object_id"], created.body["id"]);
    let members: Vec<&str> = created_keys[0].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(members, ["action", "actor", "at", "detail", "id", "object_id", "object_kind"]);

    // Reading it page by page returns the same entries.
    let mut paged = Vec::new();
    for offset in 0..all.len() {
        let page = app.trail_of(key, &format!("?limit=1&offset={offset}")).await;
        assert_eq!(page.len(), 1);
        paged.extend(page);
    }
    assert_eq!(paged, all);
    assert_eq!(app.trail_of(key, &format!("?offset={}", all.len())).await, Vec::<Value>::new());
    for wrong in ["limit=0", "limit=-1", "offset=-1", "limit=x", "limit=99999999999999999999"] {
        let refused = app.get(Credentials::Key(key), &format!("{AUDIT}?{wrong}")).await;
        assert_eq!(refused.refusal(), (400, "invalid_parameter"), "{wrong}");
    }
    for unknown in ["x", "%00", "' OR true --"] {
        assert_eq!(app.trail_of(key, &format!("?action={unknown}")).await, Vec::<Value>::new());
    }
}

#[tokio::test]
async fn s2_audit_trails_hide_actors_from_other_organizations() {
    let app = Identity::open().await;
    let (partner, partner_key) = app.platform("Planted Partner").await;
    app.trust(partner, true).await;
    let operator = app.operator("op@svc.test").await;
    let body = json!({"name": "Provisioned", "domain": "a.test", "attest": true, "admin_email": "sam@s.test"});
    let provisioned = app.post(Credentials::Key(&partner_key), crate::people::PROVISIONED, &body).await.body;
    let org = provisioned["organization"]["id"].as_str().unwrap();
    let key = app.seed().key(org.parse().unwrap(), OrgType::ContentOwner, &Scope::ALL).await;
    let trail = app.trail_of(&key, "").await;
    assert!(trail.len() >= 3, "{trail:?}");
    for entry in &trail {
        assert_eq!(entry["actor"], json!({"kind": "key", "id": null, "name": null}), "{entry}");
    }
    // For an operator's change, the trail shows only the kind of actor.
    let ada = app.person("ada@a.test").await;
    let asked = app.ask_for(&ada, crate::people::AGENT_REQUESTS, "Asked Agent").await;
    let approved = app.review(&operator, asked.text("id"), "approve").await;
    let agent = approved.text("approved_org_id").parse().unwrap();
    let key = app.seed().key(agent, OrgType::Agent, &Scope::ALL).await;
    let trail = app.trail_of(&key, "").await;
    assert!(!trail.is_empty());
    let text = json!(trail).to_string();
    assert!(!text.contains("op@svc.test") && text.contains("\"operator\""), "{text}");
    assert!(trail.iter().all(|entry| entry["actor"]["id"].is_null() || entry["actor"]["kind"] == "user"), "{text}");
}

#[tokio::test]
async fn audit_trails_do_not_name_the_new_owner_of_a_host() {
    let app = Identity::open().await;
    let (org, key) = app.org("held").await;
    let (eve, others) = app.create_owner("eve@e.test", "e.test").await;
    let bob = app.joined(&eve, &others, "bob@e.test", "owner").await;
    // Insert the entry of an organization that lost a host to another one.
    let lost = "INSERT INTO audit_log (at, actor_kind, actor_id, organization_id, action, object_kind, object_id, detail) \
                VALUES (now(), 'user', $1, $2, 'domain.lost', 'domain', gen_random_uuid(), '{}')";
    for rival in [&eve, &bob] {
        sqlx::query(lost).bind(rival.id.0).bind(org.0).execute(&app.stores.pool).await.unwrap();
    }
    let trail = app.trail_of(&key, "?action=domain.lost").await;
    assert_eq!(trail.len(), 2);
    for entry in trail {
        assert_eq!(entry["actor"], json!({"kind": "user", "id": null, "name": null}), "{entry}");
    }
}

/// Returns a trail's delegation actions, oldest first, with their detail and whether the actor is named.
async fn of_delegations(app: &TestApp, key: &str) -> Vec<(String, Value, bool)> {
    let mut found = app.trail_of(key, "").await;
    found.retain(|entry| entry["action"].as_str().unwrap().starts_with("delegation"));
    found.sort_by_key(|entry| entry["id"].as_str().unwrap().to_owned());
    let told = found.into_iter().map(|entry| {
        let mut detail = entry["detail"].clone();
        detail.as_object_mut().unwrap().remove("delegation_id");
        (entry["action"].as_str().unwrap().to_owned(), detail, entry["actor"]["id"].is_string())
    });
    told.collect()
}

#[tokio::test]
async fn s20_delegations_appear_in_both_audit_trails() {
    let app = Identity::open().await;
    let ((owner, key), (partner, partner_key)) = (app.owner_of("a.test").await, app.platform("partner").await);
    let filed = app.request_delegation(&partner_key, "a.test").await;
    assert_eq!(app.answer_request(&key, filed.text("id"), "deny").await.status, 204);
    let filed = app.request_delegation(&partner_key, "a.test").await;
    let granted = app.answer_request(&key, filed.text("id"), "approve").await;
    assert_eq!(app.delete(Credentials::Key(&key), &format!("{DELEGATIONS}/{}", granted.text("id"))).await.status, 200);

    let request = |name: &str, org| json!({name: org, "domain": "a.test", "scopes": ["telemetry:read"]});
    let delegation = |name: &str, org| json!({name: org, "scopes": ["telemetry:read"]});
    let expected = |request_names: &str, delegation_names: &str, org: OrgId, files: bool| {
        let of_request = request(request_names, org);
        let answered = json!({request_names: org});
        [
            ("delegation_request.created", of_request.clone(), files),
            ("delegation_request.denied", answered.clone(), !files),
            ("delegation_request.created", of_request, files),
            ("delegation.created", delegation(delegation_names, org), !files),
            ("delegation_request.approved", answered, !files),
            ("delegation.revoked", delegation(delegation_names, org), !files),
        ]
        .map(|(action, detail, is_named)| (action.to_owned(), detail, is_named))
    };
    let of_owner = expected("requester_org_id", "grantee_org_id", partner, false);
    let of_partner = expected("grantor_org_id", "grantor_org_id", owner, true);
    assert_eq!(of_delegations(&app, &key).await, of_owner);
    assert_eq!(of_delegations(&app, &partner_key).await, of_partner, "people and keys of the other side are not named");
}
