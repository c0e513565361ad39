//! An endpoint's queue never exceeds its limit, even under concurrency (threat row V12). Further deliveries are logged as dropped, and can
//! be redelivered when there is room.

use crate::test_app::{DELEGATIONS, Identity, REQUESTS, Requests as _, TestApp, WEBHOOKS, until_served};
use futures::future::{join, join_all};
use reqwest::Method;
use serde_json::{Value, json};
use service_kit::testing::{Credentials, TestResponse, size};

const ROOM: i64 = 5;

/// Returns the numbers of pending and dropped deliveries.
async fn counted(app: &TestApp) -> (i64, i64) {
    let count =
        "SELECT count(*) FILTER (WHERE status = 'pending'), count(*) FILTER (WHERE status = 'dropped') FROM webhook_queue";
    sqlx::query_as(count).fetch_one(&app.stores.pool).await.unwrap()
}

async fn logged(app: &TestApp, owner: &str, hook: &TestResponse, status: &str) -> Vec<String> {
    let path = format!("{WEBHOOKS}/{}/deliveries?limit=1000&status={status}", hook.text("id"));
    let log = app.get(Credentials::Key(owner), &path).await;
    log.body.as_array().unwrap().iter().map(|delivery| delivery["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn forty_concurrent_changes_do_not_overfill_the_queue() {
    for _ in 0..size("TEST_ROUNDS", 2) {
        let app = Identity::open_with_backlog(5).await;
        let (_, owner) = app.owner_of("a.test").await;
        let hook = app.subscribe(&owner, &["delegation.created"]).await;
        let mut partners = Vec::new();
        for number in 0..40 {
            partners.push(app.platform(&format!("network {number}")).await.0);
        }
        let (here, key) = (&app, &owner);
        let grants = partners.into_iter().map(|partner| until_served(move || here.grant(key, partner)));
        assert!(join_all(grants).await.iter().all(|answer| answer.status == 201), "the change itself is never rejected");
        assert_eq!(counted(&app).await, (ROOM, 40 - ROOM));

        let dropped = logged(&app, &owner, &hook, "dropped").await;
        assert_eq!(dropped.len(), 35);
        let redeliver = &async |id: &str| {
            let path = format!("{WEBHOOKS}/{}/deliveries/{id}/redeliver", hook.text("id"));
            app.send(Method::POST, Credentials::Key(&owner), &path, "").await
        };
        assert_eq!(redeliver(&dropped[0]).await.refusal(), (409, "conflict"), "the queue is full");
        let waiting = logged(&app, &owner, &hook, "pending").await;
        assert_eq!(redeliver(&waiting[0]).await.status, 202, "a pending delivery needs no more room");
        let ended = "UPDATE webhook_queue SET status = 'delivered', ended_at = now() WHERE delivery_id = $1::uuid";
        sqlx::query(ended).bind(&waiting[0]).execute(&app.stores.pool).await.unwrap();
        let ordered = join_all(dropped.iter().map(|id| until_served(move || redeliver(id)))).await;
        assert_eq!(ordered.iter().filter(|answer| answer.status == 202).count(), 1, "one slot was free");
        assert_eq!(counted(&app).await.0, ROOM);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn full_queues_do_not_affect_other_endpoints() {
    let app = Identity::open_with_backlog(1).await;
    let (_, owner) = app.owner_of("a.test").await;
    let (_, other) = app.owner_of("b.test").await;
    let (full, roomy) =
        (app.subscribe(&owner, &["delegation.created"]).await, app.subscribe(&other, &["delegation.created"]).await);
    for name in ["one", "two"] {
        assert_eq!(app.grant(&owner, app.platform(name).await.0).await.status, 201);
    }
    assert_eq!(app.grant(&other, app.platform("three").await.0).await.status, 201);
    assert_eq!(logged(&app, &owner, &full, "dropped").await.len(), 1);
    assert_eq!(logged(&app, &other, &roomy, "pending").await.len(), 1);
}

/// On a deadlock, PostgreSQL aborts an item after a second, and its status is `error`. Repeats the race `TEST_ROUNDS` times, or often
/// enough to cause a deadlock if the outbox had no fixed order.
#[tokio::test(flavor = "multi_thread")]
async fn bulk_calls_in_opposite_order_do_not_deadlock() {
    const OWNERS: i64 = 12;
    let app = Identity::open_with_backlog(5).await;
    let mut there = Vec::new();
    for number in 0..OWNERS {
        let domain = format!("owner{number}.test");
        let (_, owner) = app.owner_of(&domain).await;
        app.subscribe(&owner, &["delegation_request.created"]).await;
        there.push(json!({"domain": domain}));
    }
    let back: Vec<&Value> = there.iter().rev().collect();
    let rounds = size("TEST_ROUNDS", 6);
    for round in 0..rounds {
        let (one, other) = (app.platform("one").await.1, app.platform("other").await.1);
        let (path, there, back) = (format!("{REQUESTS}/bulk"), json!(there), json!(back));
        let answers =
            join(app.post(Credentials::Key(&one), &path, &there), app.post(Credentials::Key(&other), &path, &back)).await;
        for (asked, answer) in [(&there, answers.0), (&back, answers.1)] {
            assert_eq!(answer.body["summary"]["created"], OWNERS, "round {round}: {}", answer.body);
            let results = answer.body["results"].as_array().unwrap();
            let domains: Vec<Value> = results.iter().map(|result| json!({"domain": result["domain"]})).collect();
            assert_eq!(&json!(domains), asked, "same order as in the call");
            assert!(
                results.iter().all(|result| result["request"]["domain"] == result["domain"]),
                "each result has its own request"
            );
        }
    }
    let told = 2 * OWNERS * i64::try_from(rounds).unwrap();
    let pending = told.min(ROOM * OWNERS);
    assert_eq!(counted(&app).await, (pending, told - pending));
}

/// A sender can use a hundredth of the queue, so it can't displace others' messages.
#[tokio::test]
async fn one_sender_can_fill_only_its_share_of_a_queue() {
    let app = Identity::open_with_backlog(200).await;
    let ((platform, key), (_, one), (_, other)) =
        (app.platform("platform").await, app.owner_of("a.test").await, app.owner_of("b.test").await);
    let theirs = app.subscribe(&key, &["delegation.created", "delegation.revoked"]).await;
    let own = app.subscribe(&one, &["delegation.created", "delegation.revoked"]).await;
    for owner in [&one, &other] {
        for _ in 0..3 {
            let granted = app.grant(owner, platform).await;
            assert_eq!(granted.status, 201, "the change itself is never rejected");
            assert_eq!(app.delete(Credentials::Key(owner), &format!("{DELEGATIONS}/{}", granted.text("id"))).await.status, 200);
        }
    }
    let counts = async |key: &str, hook: &TestResponse| {
        (logged(&app, key, hook, "pending").await.len(), logged(&app, key, hook, "dropped").await.len())
    };
    assert_eq!(counts(&key, &theirs).await, (4, 8), "two per sender");
    assert_eq!(counts(&one, &own).await, (6, 0), "own messages can use the whole queue");
    let dropped = logged(&app, &key, &theirs, "dropped").await;
    let path = format!("{WEBHOOKS}/{}/deliveries/{}/redeliver", theirs.text("id"), dropped[0]);
    assert_eq!(app.send(Method::POST, Credentials::Key(&key), &path, "").await.status, 202, "its owner can still test it");
}

#[tokio::test]
async fn unverified_senders_can_fill_only_half_of_a_queue() {
    let app = Identity::open_with_backlog(6).await;
    let (platform, key) = app.platform("platform").await;
    let hook = app.subscribe(&key, &["delegation.created"]).await;
    for number in 0..5 {
        let (_, unverified) = app.org(&format!("unverified {number}")).await;
        assert_eq!(app.grant(&unverified, platform).await.status, 201);
    }
    assert_eq!(counted(&app).await, (3, 2));
    for domain in ["a.test", "b.test", "c.test", "d.test"] {
        assert_eq!(app.grant(&app.owner_of(domain).await.1, platform).await.status, 201);
    }
    assert_eq!((counted(&app).await, logged(&app, &key, &hook, "pending").await.len()), ((6, 3), 6));
}
