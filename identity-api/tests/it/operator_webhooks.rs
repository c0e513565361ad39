//! Webhook endpoints and deliveries as operators see them. The tests write the results that stream-workers would write; end-to-end tests
//! cover the real ones.

use crate::audit_trail::AuditTrail as _;
use crate::operators::assert_sorts;
use crate::people::People as _;
use crate::test_app::{Credentials, Identified, Identity, Requests as _, TestApp, TestResponse, UNKNOWN_ID, WEBHOOKS};
use crate::webhook_endpoint_states::EndpointStates as _;
use chrono::TimeDelta;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

const ALL: &str = "/api/v1/identity/operator/webhooks";
const FAILED: &str = "attempts = 1, last_attempt_at = '2026-11-01T10:00:00Z', last_outcome = 'bad_status', \
                      last_status_code = 500, last_duration_ms = 12";
const REFUSED: &str = "status = 'dead_letter', ended_at = now(), attempts = 8, last_attempt_at = '2026-11-01T11:00:00Z', \
                       last_outcome = 'unreachable', last_duration_ms = 3";
const TAKEN: &str = "status = 'delivered', ended_at = now(), attempts = 1, last_attempt_at = '2026-11-01T12:00:00Z', \
                     last_outcome = 'delivered', last_status_code = 204, last_duration_ms = 2";

pub(crate) trait WebhookReads: Identified {
    async fn hook(&self, key: &str, url: &str) -> TestResponse {
        let created =
            self.app().post(Credentials::Key(key), WEBHOOKS, &json!({"url": url, "event_types": ["invite.claimed"]})).await;
        assert_eq!(created.status, 201, "{}", created.body);
        created
    }

    /// Sends a test event and stores a result, as stream-workers does.
    async fn attempted(&self, key: &str, hook: &TestResponse, set: &'static str) -> String {
        let sent = self.app().test_webhook(key, hook).await;
        assert_eq!(sent.status, 202, "{}", sent.body);
        let written = sqlx::query(sqlx::AssertSqlSafe(format!("UPDATE webhook_queue SET {set} WHERE delivery_id = $1")))
            .bind(sent.text("id").parse::<Uuid>().unwrap())
            .execute(&self.app().stores.pool)
            .await
            .unwrap();
        assert_eq!(written.rows_affected(), 1);
        sent.text("id").to_owned()
    }

    async fn listed(&self, shows: Credentials<'_>, path: &str) -> Vec<Value> {
        let listed = self.app().get(shows, path).await;
        assert_eq!(listed.status, 200, "{path}: {}", listed.body);
        listed.body.as_array().unwrap().clone()
    }

    /// Returns operators' reads in the trail of the key's organization, oldest first.
    async fn looked_at(&self, key: &str) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let trail = self.app().trail_of(key, "").await;
        let of_operators = trail.iter().rev().filter(|entry| entry["actor"]["kind"] == "operator");
        of_operators
            .map(|entry| {
                let nobody = json!({"kind": "operator", "id": null, "name": null});
                assert_eq!((&entry["actor"], &entry["object_kind"]), (&nobody, &json!("webhook_endpoint")));
                (text(&entry["action"]), text(&entry["object_id"]))
            })
            .collect()
    }
}

impl WebhookReads for TestApp {}

fn webhook_path(hook: &TestResponse, rest: &str) -> String {
    format!("{ALL}/{}{rest}", hook.text("id"))
}

fn ids(listed: &[Value]) -> Vec<&str> {
    listed.iter().map(|one| one["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn operators_list_and_filter_all_endpoints() {
    let app = Identity::open_with_manual_clock().await;
    let operator = app.operator("op@svc.test").await;
    assert_eq!(app.listed(operator.credentials(), ALL).await, Vec::<Value>::new());
    let ((org, owner), (other, stranger)) = (app.org("First Publisher").await, app.org("Second Publisher").await);
    let mut hooks = Vec::new();
    for (key, url) in [
        (&owner, "https://fails.a.test/in/here"),
        (&owner, "https://works.a.test/"),
        (&stranger, "https://refuses.b.test/in"),
        (&stranger, "https://new.b.test/in"),
    ] {
        hooks.push(app.hook(key, url).await);
        app.clock.advance(TimeDelta::seconds(1));
    }
    let [fails, works, refuses, new] = hooks.as_slice() else { panic!("four endpoints") };
    app.attempted(&owner, fails, FAILED).await;
    assert_eq!(app.test_webhook(&owner, fails).await.status, 202);
    app.attempted(&owner, works, FAILED).await;
    app.attempted(&owner, works, TAKEN).await;
    app.attempted(&stranger, refuses, REFUSED).await;

    let all = app.listed(operator.credentials(), ALL).await;
    assert_eq!(ids(&all), [new, refuses, works, fails].map(|hook| hook.text("id")), "newest first");
    let expected = json!({
        "id": fails.text("id"), "organization_id": org, "organization_name": "First Publisher",
        "host": "fails.a.test", "event_types": ["invite.claimed"],
        "created_at": fails.body["created_at"], "disabled_at": null, "deleted_at": null, "disabled_by": null,
        "is_failing": true, "waiting": 2,
        "last_attempt": {"at": "2026-11-01T10:00:00.000Z", "outcome": "bad_status", "status_code": 500, "duration_ms": 12},
    });
    assert_eq!(all[3], expected);
    let stands = |one: &Value| (one["is_failing"].clone(), one["waiting"].clone(), one["last_attempt"]["outcome"].clone());
    assert_eq!(stands(&all[2]), (json!(false), json!(1), json!("delivered")), "the latest attempt counts");
    assert_eq!(stands(&all[1]), (json!(true), json!(0), json!("unreachable")));
    assert_eq!(stands(&all[0]), (json!(false), json!(0), Value::Null), "an endpoint without attempts isn't failing");
    for (query, expected) in [
        ("?failing=true".to_owned(), vec![refuses, fails]),
        ("?failing=false".to_owned(), vec![new, works]),
        (format!("?organization_id={other}"), vec![new, refuses]),
        (format!("?organization_id={other}&failing=true"), vec![refuses]),
        (format!("?organization_id={UNKNOWN_ID}"), vec![]),
        ("?limit=1&offset=2".to_owned(), vec![works]),
        ("?failing=true&limit=1&offset=1".to_owned(), vec![fails]),
    ] {
        let listed = app.listed(operator.credentials(), &format!("{ALL}{query}")).await;
        assert_eq!(ids(&listed), expected.iter().map(|hook| hook.text("id")).collect::<Vec<_>>(), "{query}");
    }
    for query in ["?failing=yes", "?limit=0", "?offset=-1", "?organization_id=x", "?failing=true&failing=false"] {
        let refused = app.get(operator.credentials(), &format!("{ALL}{query}")).await;
        assert_eq!(refused.refusal(), (400, "invalid_parameter"), "{query}");
    }
    for hook in &hooks {
        let shown = app.get(operator.credentials(), &webhook_path(hook, "")).await;
        assert!(shown.status == 200 && all.contains(&shown.body), "{}", shown.body);
    }
}

#[tokio::test]
async fn operators_sort_endpoints() {
    let app = Identity::open_with_manual_clock().await;
    let operator = app.operator("op@svc.test").await;
    let ((_, owner), (_, stranger)) = (app.org("b publisher").await, app.org("A Publisher").await);
    for (key, url, attempts) in [
        (&owner, "https://c.a.test/", vec![FAILED, FAILED]),
        (&stranger, "https://a.b.test:443/in", vec![TAKEN]),
        (&owner, "https://b.a.test?x", vec![]),
        (&stranger, "https://a.b.test/", vec![REFUSED]),
    ] {
        let hook = app.hook(key, url).await;
        for attempt in attempts {
            app.attempted(key, &hook, attempt).await;
        }
        app.clock.advance(TimeDelta::seconds(1));
    }
    let value = |one: &Value, member: &str| match (member, &one[member]) {
        ("last_attempt", attempt) => attempt["at"].as_str().unwrap_or_default().to_owned(),
        (_, Value::String(text)) => text.to_lowercase(),
        (_, other) => format!("{other:0>9}"),
    };
    assert_sorts(&app, (&operator, ALL), &["host", "organization_name", "created_at", "last_attempt", "waiting"], value).await;
    let failing = app.listed(operator.credentials(), &format!("{ALL}?failing=true&sort=host")).await;
    let hosts: Vec<&Value> = failing.iter().map(|one| &one["host"]).collect();
    assert_eq!(hosts, ["a.b.test", "c.a.test"], "also with a filter");
}

#[tokio::test]
async fn operators_can_find_deleted_endpoints_only_by_id() {
    let app = Identity::open().await;
    let operator = app.operator("op@svc.test").await;
    let (org, owner) = app.org("owner").await;
    let hook = app.hook(&owner, "https://hooks.a.test/in").await;
    app.attempted(&owner, &hook, FAILED).await;
    let stands = async || {
        let shown = app.get(operator.credentials(), &webhook_path(&hook, "")).await.body;
        ["disabled_by", "is_failing", "waiting"].map(|name| shown[name].clone())
    };
    assert_eq!(stands().await, [Value::Null, json!(true), json!(1)]);
    app.switch(&owner, &hook, true).await;
    assert_eq!(
        stands().await,
        [json!("key"), json!(false), json!(0)],
        "a disabled endpoint isn't failing and has no pending deliveries"
    );
    let dropped = app.listed(operator.credentials(), &webhook_path(&hook, "/deliveries")).await;
    assert_eq!((&dropped[0]["status"], &dropped[0]["next_attempt_at"]), (&json!("dropped"), &Value::Null));
    app.switch(&owner, &hook, false).await;
    assert_eq!(stands().await, [Value::Null, json!(true), json!(0)]);
    let member = app.session("member@a.test", &[org]).await;
    let path = format!("{WEBHOOKS}/{}", hook.text("id"));
    let body = r#"{"disabled": true}"#;
    assert_eq!(app.send(Method::PATCH, Credentials::Session(&member), &path, body).await.status, 200);
    assert_eq!(stands().await[0], "user");
    assert_eq!(app.listed(operator.credentials(), ALL).await.len(), 1, "disabled endpoints are listed");
    assert_eq!(app.delete(Credentials::Key(&owner), &path).await.status, 204);
    assert_eq!(app.listed(operator.credentials(), ALL).await, Vec::<Value>::new());
    let deleted = app.get(operator.credentials(), &webhook_path(&hook, "")).await;
    assert!(deleted.status == 200 && deleted.body["deleted_at"].is_string(), "{}", deleted.body);
    assert_eq!(deleted.body["disabled_by"], "key", "the last actor is shown");
    assert_eq!(app.listed(operator.credentials(), &webhook_path(&hook, "/deliveries")).await.len(), 1, "its log remains");
}

#[tokio::test]
async fn operators_see_the_same_delivery_log_as_owners() {
    let app = Identity::open_with_manual_clock().await;
    let operator = app.operator("op@svc.test").await;
    let (_, owner) = app.org("owner").await;
    let hook = app.hook(&owner, "https://hooks.a.test/in").await;
    let mut sent = Vec::new();
    for set in [REFUSED, FAILED, TAKEN] {
        sent.push(app.attempted(&owner, &hook, set).await);
        app.clock.advance(TimeDelta::seconds(1));
    }
    let own = format!("{WEBHOOKS}/{}/deliveries", hook.text("id"));
    for query in ["", "?status=pending", "?status=dead_letter", "?status=dropped", "?limit=1", "?limit=2&offset=1", "?offset=9"] {
        let (theirs, shown) = (
            app.listed(Credentials::Key(&owner), &format!("{own}{query}")).await,
            app.listed(operator.credentials(), &webhook_path(&hook, &format!("/deliveries{query}"))).await,
        );
        assert_eq!(theirs, shown, "{query}");
    }
    let all = app.listed(operator.credentials(), &webhook_path(&hook, "/deliveries")).await;
    assert_eq!(ids(&all), [&sent[2], &sent[1], &sent[0]].map(String::as_str));
    for query in ["?status=dead", "?limit=0"] {
        let refused = app.get(operator.credentials(), &webhook_path(&hook, &format!("/deliveries{query}"))).await;
        assert_eq!(refused.refusal(), (400, "invalid_parameter"), "{query}");
    }
}

/// Puts a marker into the secret, the payload, and every part of the URL except its host.
#[tokio::test]
async fn operators_do_not_see_secrets_payloads_or_url_paths() {
    const MARK: &str = "pl4nted";
    let app = Identity::open().await;
    let operator = app.operator("op@svc.test").await;
    let (_, owner) = app.org("owner").await;
    let hook = app.hook(&owner, &format!("https://hooks.a.test/services/{MARK}?token={MARK}&{MARK}=1")).await;
    let delivery = app.attempted(&owner, &hook, FAILED).await;
    let (hook_id, delivery): (Uuid, Uuid) = (hook.text("id").parse().unwrap(), delivery.parse().unwrap());
    // Written directly to the table, because the API rejects such a URL but another build may have accepted it.
    let url = format!("https://{MARK}:{MARK}@hooks.a.test/services/{MARK}?token={MARK}#{MARK}");
    let sealed = app.sealer.seal(&format!("whsec_{MARK}"), hook_id.as_bytes()).unwrap();
    for set in [
        sqlx::query("UPDATE webhook_endpoints SET url = $2, secret_sealed = $3 WHERE id = $1")
            .bind(hook_id)
            .bind(url)
            .bind(&sealed),
        sqlx::query("UPDATE webhook_deliveries SET body = $2 WHERE id = $1").bind(delivery).bind(format!("{{\"{MARK}\":1}}")),
    ] {
        set.execute(&app.stores.pool).await.unwrap();
    }
    let owners = app.get(Credentials::Key(&owner), WEBHOOKS).await.body;
    assert!(owners.to_string().contains(MARK), "the owner sees the full URL: {owners}");
    let secret = &hook.text("secret")["whsec_".len()..];
    let sealed = sealed.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    for path in [ALL.to_owned(), format!("{ALL}?sort=host"), webhook_path(&hook, ""), webhook_path(&hook, "/deliveries")] {
        let answered = app.get(operator.credentials(), &path).await;
        let text = answered.body.to_string();
        assert!(answered.status == 200 && text.contains(&hook_id.to_string()) != path.ends_with("/deliveries"), "{text}");
        for planted in [MARK, secret, "whsec_", &sealed[..16], "services", "token", "secret", "body", "data"] {
            assert!(!text.contains(planted), "{path}: {planted} in {text}");
        }
    }
    let trail = app.trail_of(&owner, "?action=webhook.read").await;
    assert_eq!((trail.len(), &trail[0]["detail"]), (1, &json!({})));
}

#[tokio::test]
async fn w6_only_operators_see_other_organizations_endpoints() {
    let app = Identity::open().await;
    let (org, owner) = app.org("owner").await;
    let hook = app.hook(&owner, "https://hooks.a.test/in").await;
    app.attempted(&owner, &hook, FAILED).await;
    let member = app.session("member@a.test", &[org]).await;
    let operator = app.operator("op@svc.test").await;
    let Credentials::Session(operators) = operator.credentials() else { panic!("people have a session") };
    for path in
        [ALL.to_owned(), webhook_path(&hook, ""), webhook_path(&hook, "/deliveries"), format!("{ALL}?organization_id={org}")]
    {
        for (shows, refusal) in [
            (Credentials::Session(&member), (403, "forbidden")),
            (Credentials::Key(&owner), (401, "unauthenticated")),
            (Credentials::Both(&owner, operators), (401, "unauthenticated")),
        ] {
            let refused = app.get(shows, &path).await;
            assert_eq!(refused.refusal(), refusal, "{path}: {}", refused.body);
            assert!(!refused.body.to_string().contains("hooks.a.test"), "{path}");
        }
    }
    assert_eq!(app.looked_at(&owner).await, [], "no read is recorded");
    for rest in ["", "/deliveries"] {
        assert_eq!(app.get(operator.credentials(), &format!("{ALL}/{UNKNOWN_ID}{rest}")).await.refusal(), (404, "not_found"));
    }
    assert_eq!(app.count("SELECT count(*) FROM audit_log WHERE actor_kind = 'operator'").await, 0);
    for method in [Method::POST, Method::PATCH, Method::DELETE] {
        assert_eq!(
            app.send(method, operator.credentials(), &webhook_path(&hook, ""), "{}").await.status,
            405,
            "operators can only read"
        );
    }
}

#[tokio::test]
async fn audits_operator_reads_once_a_day() {
    let app = Identity::open_with_manual_clock().await;
    let (operator, second) = (app.operator("op@svc.test").await, app.operator("two@svc.test").await);
    let ((_, owner), (_, other)) = (app.org("owner").await, app.org("other").await);
    let (first, next) = (app.hook(&owner, "https://one.a.test/").await, app.hook(&owner, "https://two.a.test/").await);
    let others = app.hook(&other, "https://hooks.b.test/").await;
    let entry = |action: &str, hook: &TestResponse| (action.to_owned(), hook.text("id").to_owned());
    let look = async |path: &str| app.listed(operator.credentials(), path).await;

    // Records only what is returned. The other organization's endpoint is on another page.
    look(&format!("{ALL}?limit=2&offset=1")).await;
    let mut expected = vec![entry("webhook.read", &first), entry("webhook.read", &next)];
    let sorted = |mut entries: Vec<(String, String)>| {
        entries.sort();
        entries
    };
    assert_eq!(sorted(app.looked_at(&owner).await), sorted(expected.clone()));
    assert_eq!(app.looked_at(&other).await, []);
    look(ALL).await;
    assert_eq!(app.looked_at(&other).await, [entry("webhook.read", &others)], "each trail has its own endpoints");
    app.get(operator.credentials(), &webhook_path(&first, "")).await;
    assert_eq!(app.looked_at(&owner).await.len(), 2, "once a day");

    look(&webhook_path(&first, "/deliveries")).await;
    look(&webhook_path(&first, "/deliveries?status=dropped")).await;
    expected.push(entry("webhook.deliveries_read", &first));
    assert_eq!(sorted(app.looked_at(&owner).await), sorted(expected.clone()), "the log counts separately");
    app.listed(second.credentials(), &webhook_path(&first, "/deliveries")).await;
    expected.push(entry("webhook.deliveries_read", &first));
    assert_eq!(sorted(app.looked_at(&owner).await), sorted(expected.clone()), "operators count separately");
    let who = "SELECT count(DISTINCT actor_id) FROM audit_log WHERE action = 'webhook.deliveries_read'";
    assert_eq!(app.count(who).await, 2);

    app.clock.advance(TimeDelta::hours(25));
    let operator = app.back(&operator).await;
    app.listed(operator.credentials(), &webhook_path(&first, "/deliveries")).await;
    expected.push(entry("webhook.deliveries_read", &first));
    assert_eq!(sorted(app.looked_at(&owner).await), sorted(expected), "the next day");
}
