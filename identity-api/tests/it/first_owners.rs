//! Partners' invites for first owners, and invites by people who were removed in the meantime.

use crate::mailbox::Mailbox as _;
use crate::people::People as _;
use crate::people::{PROVISIONED, invites_of};
use crate::test_app::{Credentials, Identity, Requests as _, TestApp, TestResponse, UNKNOWN_ID};
use serde_json::{Value, json};

async fn invite_first(app: &TestApp, key: &str, org: &str, email: &str) -> TestResponse {
    app.post(Credentials::Key(key), &format!("{PROVISIONED}/{org}/invites"), &json!({"email": email})).await
}

#[tokio::test]
async fn partners_can_invite_again_until_an_owner_joins() {
    let app = Identity::open().await;
    let (key, other) = (app.partner("partner").await.1, app.partner("other").await.1);
    let hook = app.subscribe(&key, &["invite.claimed"]).await;
    let body = json!({"name": "Owner", "domain": "a.test", "admin_email": "tyop@a.test"});
    let provisioned = app.post(Credentials::Key(&key), PROVISIONED, &body).await.body;
    let org = provisioned["organization"]["id"].as_str().unwrap().to_owned();
    let (lost, tyop) = (app.token_of(&provisioned["invite"]).await, app.person("tyop@a.test").await);

    let absent = invite_first(&app, &key, UNKNOWN_ID, "ada@a.test").await;
    assert_eq!(absent.refusal(), (404, "not_found"));
    assert_eq!(invite_first(&app, &other, &org, "ada@a.test").await, absent, "another partner's organization");
    assert_eq!(invite_first(&app, &key, "x", "ada@a.test").await, absent);
    assert_eq!(invite_first(&app, &key, &org, "ada").await.refusal(), (422, "invalid_request"));

    let again = invite_first(&app, &key, &org, "Ada@A.test").await;
    assert_eq!((again.status, again.text("email"), again.text("role")), (201, "ada@a.test", "owner"));
    assert!(again.body["mailed_at"].is_string() && app.mails().last().unwrap().contains("To: ada@a.test\r\n"));
    assert_eq!(app.claim(&tyop, &lost).await.refusal(), (404, "not_found"), "the earlier invite is replaced");
    let trail = app.audited(org.parse().unwrap()).await;
    assert_eq!(trail[trail.len() - 2..], ["invite.withdrawn", "invite.created"]);
    let by_key = "SELECT count(*) FROM audit_log a JOIN api_keys k ON k.id = a.actor_id AND a.actor_kind = 'key' \
                  WHERE a.action = 'invite.created' AND a.detail = '{\"email\": \"ada@a.test\", \"role\": \"owner\"}'";
    assert_eq!(app.count(by_key).await, 1);

    let (ada, token) = (app.person("ada@a.test").await, app.token_of(&again.body).await);
    assert_eq!(app.claim(&ada, &token).await.status, 200);
    assert_eq!(app.outbox(&hook).await.len(), 1, "the partner is notified");
    assert_eq!(invite_first(&app, &key, &org, "eve@b.test").await.refusal(), (403, "forbidden"), "the organization is claimed");
    assert_eq!(app.get(ada.credentials(), &invites_of(&org)).await.body, json!([]));
}

#[tokio::test]
async fn removed_owners_cannot_use_their_own_invites() {
    let app = Identity::open().await;
    let ada = app.person("ada@a.test").await;
    for is_removed in [true, false] {
        let org = app.create_organization(&ada, "a.test").await.text("id").to_owned();
        let bob = app.joined(&ada, &org, "bob@a.test", "owner").await;
        let back_door = app.invite(&bob, &org, "bob@elsewhere.test", "owner").await.body;
        let hers = app.invite(&ada, &org, "cy@a.test", "member").await.body;
        let token = app.token_of(&back_door).await;
        let gone = if is_removed { app.remove(&ada, &org, &bob).await } else { app.set_role(&ada, &org, &bob, "member").await };
        assert!([200, 204].contains(&gone.status), "{}", gone.body);
        let same_bob = app.person("bob@elsewhere.test").await;
        assert_eq!(app.claim(&same_bob, &token).await.refusal(), (404, "not_found"), "removed: {is_removed}");
        assert_eq!(app.get(ada.credentials(), &invites_of(&org)).await.body, json!([hers]), "other invites stay open");
        let withdrawn: Vec<(Value, uuid::Uuid)> = sqlx::query_as(
            "SELECT detail, actor_id FROM audit_log WHERE action = 'invite.withdrawn' AND organization_id = $1::uuid",
        )
        .bind(org.parse::<uuid::Uuid>().unwrap())
        .fetch_all(&app.stores.pool)
        .await
        .unwrap();
        assert_eq!(withdrawn, [(json!({"of_member": bob.id}), ada.id.0)]);
    }
}
