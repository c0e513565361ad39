//! The delivery log, redelivery, and secret rotation (threat row W5). The tests write the results that stream-workers would write;
//! stream-workers' own tests cover the real ones.

use crate::test_app::{Credentials, Identity, Requests as _, TestApp, TestResponse, UNKNOWN_ID, WEBHOOKS};
use reqwest::Method;
use schemas::ids::OrgId;
use serde_json::{Value, json};
use uuid::Uuid;

/// An owner with an endpoint and three deliveries, oldest first.
struct DeliveryFixture {
    app: TestApp,
    org: OrgId,
    owner: String,
    hook: TestResponse,
    ids: Vec<String>,
}

impl DeliveryFixture {
    async fn thrice() -> Self {
        let app = Identity::open_with_manual_clock().await;
        let (org, owner) = app.owner_of("a.test").await;
        let hook = app.subscribe(&owner, &["delegation.created"]).await;
        for name in ["one", "two", "three"] {
            let (partner, _) = app.platform(name).await;
            assert_eq!(app.grant(&owner, partner).await.status, 201);
            app.clock.advance(chrono::TimeDelta::seconds(1));
        }
        let ids = app.outbox(&hook).await.iter().map(|body| body["id"].as_str().unwrap().to_owned()).collect();
        Self { app, org, owner, hook, ids }
    }

    fn path(&self, rest: &str) -> String {
        format!("{WEBHOOKS}/{}{rest}", self.hook.text("id"))
    }

    async fn list(&self, query: &str) -> TestResponse {
        self.app.get(Credentials::Key(&self.owner), &self.path(&format!("/deliveries{query}"))).await
    }

    async fn listed(&self, query: &str) -> Vec<String> {
        let answer = self.list(query).await;
        answer.body.as_array().unwrap().iter().map(|delivery| delivery["id"].as_str().unwrap().to_owned()).collect()
    }

    async fn redeliver(&self, key: &str, id: &str) -> TestResponse {
        let path = self.path(&format!("/deliveries/{id}/redeliver"));
        self.app.send(Method::POST, Credentials::Key(key), &path, "").await
    }

    /// Stores a result, as stream-workers does.
    async fn ends(&self, id: &str, set: &'static str) {
        let written = sqlx::query(sqlx::AssertSqlSafe(format!("UPDATE webhook_queue SET {set} WHERE delivery_id = $1")))
            .bind(id.parse::<Uuid>().unwrap())
            .execute(&self.app.stores.pool)
            .await
            .unwrap();
        assert_eq!(written.rows_affected(), 1);
    }
}

const DEAD: &str = "status = 'dead_letter', attempts = 8, ended_at = now(), last_attempt_at = '2026-11-01T10:00:00Z', \
                    last_outcome = 'bad_status', last_status_code = 503, last_duration_ms = 12";
const DELIVERED: &str = "status = 'delivered', attempts = 1, ended_at = now(), last_attempt_at = '2026-11-01T10:00:00Z', \
                         last_outcome = 'delivered', last_status_code = 204, last_duration_ms = 3";

#[tokio::test]
async fn lists_deliveries_newest_first_with_status() {
    let told = DeliveryFixture::thrice().await;
    told.ends(&told.ids[0], DEAD).await;
    told.ends(&told.ids[1], DELIVERED).await;
    let all = told.list("").await;
    assert_eq!(all.status, 200);
    let [newest, middle, oldest] = all.body.as_array().unwrap().as_slice() else { panic!("{}", all.body) };
    assert_eq!((newest["id"].as_str(), newest["status"].as_str()), (Some(told.ids[2].as_str()), Some("pending")));
    assert!(newest["next_attempt_at"].is_string() && newest["last_attempt"].is_null() && newest["attempts"] == 0, "{newest}");
    assert_eq!(middle["status"], "delivered");
    let expected = json!({
        "id": told.ids[0], "event_type": "delegation.created", "status": "dead_letter", "attempts": 8,
        "created_at": oldest["created_at"], "next_attempt_at": null,
        "last_attempt": {"at": "2026-11-01T10:00:00.000Z", "outcome": "bad_status", "status_code": 503, "duration_ms": 12},
    });
    assert_eq!(*oldest, expected);
    for (query, expected) in [
        ("?status=dead_letter", vec![0]),
        ("?status=delivered", vec![1]),
        ("?status=pending", vec![2]),
        ("?status=dropped", vec![]),
        ("?limit=2", vec![2, 1]),
        ("?limit=2&offset=2", vec![0]),
        ("?limit=5000", vec![2, 1, 0]),
        ("?offset=9", vec![]),
    ] {
        let expected: Vec<&String> = expected.into_iter().map(|index: usize| &told.ids[index]).collect();
        assert_eq!(told.listed(query).await.iter().collect::<Vec<_>>(), expected, "{query}");
    }
    for query in
        ["?status=dead", "?status=", "?limit=0", "?limit=-1", "?limit=x", "?offset=-1", "?status=pending&status=delivered"]
    {
        assert_eq!(told.list(query).await.refusal(), (400, "invalid_parameter"), "{query}");
    }
    assert_eq!(told.app.delete(Credentials::Key(&told.owner), &told.path("")).await.status, 204);
    assert_eq!(told.listed("?status=dropped").await, [told.ids[2].clone()], "pending deliveries are dropped immediately");
    assert_eq!(told.listed("?status=pending").await, Vec::<String>::new());
    assert!(told.list("?status=dropped").await.body[0]["next_attempt_at"].is_null());
}

#[tokio::test]
async fn shows_each_endpoints_latest_attempt() {
    let told = DeliveryFixture::thrice().await;
    let other = told.app.subscribe(&told.owner, &["delegation.revoked"]).await;
    let latest = async || {
        let path = told.path("");
        let (listed, shown) = (
            told.app.get(Credentials::Key(&told.owner), WEBHOOKS).await,
            told.app.get(Credentials::Key(&told.owner), &path).await,
        );
        assert_eq!(listed.body[0], shown.body);
        assert_eq!((&listed.body[1]["id"], &listed.body[1]["last_attempt"]), (&other.body["id"], &Value::Null));
        shown.body["last_attempt"].clone()
    };
    assert_eq!(latest().await, Value::Null, "no attempt yet");
    told.ends(&told.ids[2], DELIVERED).await;
    assert_eq!(latest().await["outcome"], "delivered");
    const LATER: &str = "attempts = 1, last_attempt_at = '2026-11-01T10:00:01Z', last_outcome = 'bad_status', \
                         last_status_code = 503, last_duration_ms = 12";
    told.ends(&told.ids[0], LATER).await;
    let expected = json!({"at": "2026-11-01T10:00:01.000Z", "outcome": "bad_status", "status_code": 503, "duration_ms": 12});
    assert_eq!(latest().await, expected, "even if it belongs to the oldest delivery");
    let disabled = told.app.send(Method::PATCH, Credentials::Key(&told.owner), &told.path(""), r#"{"disabled": true}"#).await;
    assert_eq!((disabled.status, &disabled.body["last_attempt"]), (200, &expected), "{}", disabled.body);
}

#[tokio::test]
async fn redelivery_restarts_the_retry_schedule() {
    let told = DeliveryFixture::thrice().await;
    told.ends(&told.ids[0], DEAD).await;
    told.ends(&told.ids[1], DELIVERED).await;
    told.ends(&told.ids[2], "attempts = 5, due_at = now() + interval '12 hours', lease = gen_random_uuid()").await;
    let bodies = told.app.outbox(&told.hook).await;
    for id in &told.ids {
        let ordered = told.redeliver(&told.owner, id).await;
        assert_eq!(
            (ordered.status, ordered.text("id"), ordered.text("status")),
            (202, id.as_str(), "pending"),
            "{}",
            ordered.body
        );
        assert_eq!(ordered.body["attempts"], 0);
    }
    let due =
        "SELECT count(*) FROM webhook_queue WHERE status = 'pending' AND due_at <= now() AND lease IS NULL AND attempts = 0";
    assert_eq!(told.app.count(due).await, 3);
    assert_eq!(told.app.outbox(&told.hook).await, bodies, "ids and bodies are unchanged");
    let ordered = told.app.audited(told.org).await.into_iter().filter(|action| action == "webhook.redelivery_ordered");
    assert_eq!((ordered.count(), told.app.count("SELECT count(*) FROM webhook_redeliveries").await), (3, 3));

    assert_eq!(told.redeliver(&told.owner, UNKNOWN_ID).await.refusal(), (404, "not_found"));
    let other = told.app.subscribe(&told.owner, &["delegation.created"]).await;
    let elsewhere = format!("{WEBHOOKS}/{}/deliveries/{}/redeliver", other.text("id"), told.ids[0]);
    let answer = told.app.send(Method::POST, Credentials::Key(&told.owner), &elsewhere, "").await;
    assert_eq!(answer.refusal(), (404, "not_found"), "deliveries belong to one endpoint");
    assert_eq!(told.app.delete(Credentials::Key(&told.owner), &told.path("")).await.status, 204);
    assert_eq!(told.redeliver(&told.owner, &told.ids[0]).await.refusal(), (409, "conflict"));
    assert_eq!(told.app.count("SELECT count(*) FROM webhook_redeliveries").await, 3);
}

#[tokio::test]
async fn shows_a_rotated_secret_once() {
    let told = DeliveryFixture::thrice().await;
    let sealed = async || -> Vec<u8> {
        sqlx::query_scalar("SELECT secret_sealed FROM webhook_endpoints").fetch_one(&told.app.stores.pool).await.unwrap()
    };
    let before = sealed().await;
    let rotated = told.app.send(Method::POST, Credentials::Key(&told.owner), &told.path("/rotate-secret"), "").await;
    assert_eq!(rotated.status, 200, "{}", rotated.body);
    let secret = rotated.text("secret").to_owned();
    assert!(secret.starts_with("whsec_") && secret != told.hook.text("secret"));
    let mut rest = rotated.body.clone();
    rest["secret"] = told.hook.body["secret"].clone();
    assert_eq!(rest, told.hook.body, "nothing else changed");
    let after = sealed().await;
    assert_ne!(before, after);
    let id: Uuid = told.hook.text("id").parse().unwrap();
    assert_eq!(told.app.sealer.open(&after, id.as_bytes()).unwrap(), secret);
    for later in [told.app.get(Credentials::Key(&told.owner), &told.path("")).await, told.list("").await] {
        assert!(!later.body.to_string().contains(&secret[6..]), "{}", later.body);
    }
    let trail: Vec<String> =
        sqlx::query_scalar("SELECT t::text FROM audit_log t").fetch_all(&told.app.stores.pool).await.unwrap();
    assert!(
        trail.iter().any(|row| row.contains("webhook.secret_rotated")) && trail.iter().all(|row| !row.contains(&secret[6..]))
    );

    assert_eq!(told.app.delete(Credentials::Key(&told.owner), &told.path("")).await.status, 204);
    let refused = told.app.send(Method::POST, Credentials::Key(&told.owner), &told.path("/rotate-secret"), "").await;
    assert_eq!((refused.refusal(), sealed().await == after), ((409, "conflict"), true));
}
