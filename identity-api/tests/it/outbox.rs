//! Changes and their webhook messages are atomic (threat row W7; docs/api/webhooks.md#retries).

use crate::people::PROVISIONED;
use crate::people::People as _;
use crate::test_app::{Credentials, DELEGATIONS, Identity, Requests as _, TestApp, TestResponse};
use serde_json::{Value, json};
use sqlx::PgPool;

const EVERYTHING: [&str; 4] = ["delegation.created", "delegation.revoked", "delegation_request.created", "invite.claimed"];

fn types(sent: &[Value]) -> Vec<&str> {
    sent.iter().map(|body| body["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn w7_messages_go_only_to_subscribers() {
    let app = Identity::open_with_manual_clock().await;
    let ((owner, owner_key), (partner, partner_key)) = (app.owner_of("a.test").await, app.platform("partner").await);
    let (_, stranger) = app.org("stranger").await;
    let owners = app.subscribe(&owner_key, &EVERYTHING).await;
    let second = app.subscribe(&owner_key, &["delegation.revoked"]).await;
    let partners = app.subscribe(&partner_key, &EVERYTHING).await;
    let strangers = app.subscribe(&stranger, &EVERYTHING).await;

    let filed = app.request_delegation(&partner_key, "a.test").await;
    let approved = app.answer_request(&owner_key, filed.text("id"), "approve").await;
    let path = format!("{DELEGATIONS}/{}", approved.text("id"));
    let revoked = app.delete(Credentials::Key(&owner_key), &path).await;
    assert_eq!(app.delete(Credentials::Key(&owner_key), &path).await.status, 200);
    let granted = app.grant(&owner_key, partner).await;
    assert_eq!(app.grant(&owner_key, partner).await.status, 409);

    let to_owner = app.outbox(&owners).await;
    assert_eq!(
        types(&to_owner),
        ["delegation_request.created", "delegation.created", "delegation.revoked", "delegation.created"]
    );
    let to_partner = app.outbox(&partners).await;
    assert_eq!(types(&to_partner), ["delegation.created", "delegation.revoked", "delegation.created"]);
    assert_eq!(types(&app.outbox(&second).await), ["delegation.revoked"]);
    assert_eq!(app.outbox(&strangers).await, Vec::<Value>::new());

    let told = |id: &TestResponse| json!({"id": id.text("id"), "grantor_org_id": owner, "grantee_org_id": partner, "scopes": ["telemetry:read"]});
    let mut told_of_end = told(&approved);
    told_of_end["revoked_at"] = revoked.body["revoked_at"].clone();
    for (body, data) in to_partner.iter().zip([told(&approved), told_of_end, told(&granted)]) {
        assert_eq!(body["data"], json!({"delegation": data}));
        assert_eq!(body["created_at"], app.now_text());
        assert_eq!(body.as_object().unwrap().len(), 4, "id, type, created_at, data: {body}");
    }
    assert_eq!(to_owner[0]["data"], json!({"delegation_request": filed.body}));
    assert_eq!(ids_that_differ(&app.stores.pool).await, 0, "row and body have the same id");
}

async fn ids_that_differ(pool: &PgPool) -> i64 {
    let sql = "SELECT count(*) FROM webhook_deliveries d JOIN webhook_endpoints e ON e.id = d.endpoint_id \
               WHERE d.id::text <> d.body::jsonb ->> 'id' OR d.event_type <> d.body::jsonb ->> 'type' \
               OR d.organization_id <> e.organization_id";
    sqlx::query_scalar(sql).fetch_one(pool).await.unwrap()
}

#[tokio::test]
async fn changes_and_their_messages_are_atomic() {
    let app = Identity::open().await;
    let ((_, owner), (partner, partner_key)) = (app.owner_of("a.test").await, app.platform("partner").await);
    let (other, _) = app.platform("other").await;
    let hook = app.subscribe(&owner, &EVERYTHING).await;
    let granted = app.grant(&owner, other).await;
    let filed = app.request_delegation(&partner_key, "a.test").await;
    app.trust(partner, true).await;
    assert_eq!(app.subscribe(&partner_key, &["invite.claimed"]).await.status, 201);
    let body = json!({"name": "Owner", "domain": "b.test", "admin_email": "ada@b.test"});
    let provisioned = app.post(Credentials::Key(&partner_key), PROVISIONED, &body).await;
    let (ada, token) = (app.person("ada@b.test").await, app.token_of(&provisioned.body["invite"]).await);
    let before = snapshot(&app).await;
    for table in ["webhook_deliveries", "audit_log"] {
        let refuse = format!(
            "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$; \
             CREATE TRIGGER refuse BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION refuse()"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(refuse)).execute(&app.stores.pool).await.unwrap();
        for failed in [
            app.grant(&owner, partner).await,
            app.answer_request(&owner, filed.text("id"), "approve").await,
            app.delete(Credentials::Key(&owner), &format!("{DELEGATIONS}/{}", granted.text("id"))).await,
            app.claim(&ada, &token).await,
        ] {
            assert_eq!(failed.refusal(), (500, "internal"), "{table}");
        }
        assert_eq!(snapshot(&app).await, before, "no change and no message: {table}");
        let allow = format!("DROP TRIGGER refuse ON {table}");
        sqlx::raw_sql(sqlx::AssertSqlSafe(allow)).execute(&app.stores.pool).await.unwrap();
    }
    assert_eq!(app.answer_request(&owner, filed.text("id"), "approve").await.status, 201, "the same request succeeds now");
    assert_eq!(app.claim(&ada, &token).await.status, 200, "so does the claim");
    assert_eq!(app.outbox(&hook).await.len(), 3);
}

/// Returns everything that the rejected changes could have left behind.
async fn snapshot(app: &TestApp) -> (Vec<String>, Vec<String>, [i64; 3]) {
    let rows = async |sql: &'static str| -> Vec<String> { sqlx::query_scalar(sql).fetch_all(&app.stores.pool).await.unwrap() };
    (
        rows("SELECT d::text FROM delegations d ORDER BY id").await,
        rows("SELECT r::text FROM delegation_requests r ORDER BY id").await,
        [
            app.count("SELECT count(*) FROM webhook_deliveries").await,
            app.count("SELECT count(*) FROM audit_log").await,
            app.count("SELECT count(*) FROM memberships").await,
        ],
    )
}
