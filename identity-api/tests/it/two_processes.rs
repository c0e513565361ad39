//! Revocations take effect in every process (S4). The processes share only the database.

use crate::domains::register;
use crate::test_app::{Credentials, Identity, KEYS, Requests as _, SETTINGS, UNKNOWN_ID, WEBHOOKS};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Number of attempts. S4 and X23 require that every attempt fails.
const TRIES: usize = 1_000;

#[tokio::test(flavor = "multi_thread")]
async fn x23_revoked_keys_fail_in_every_process() {
    let one = Identity::open().await;
    let two = Identity::beside(&one, one.clock.clone()).await;
    let (_, owner) = one.org("owner").await;
    let mut successes = 0;
    for number in 0..TRIES {
        let created = one.create(Credentials::Key(&owner), &json!({"scopes": ["identity:write"]})).await.body;
        let (id, key) = (created["id"].as_str().unwrap(), created["key"].as_str().unwrap());
        assert_eq!(two.get(Credentials::Key(key), SETTINGS).await.status, 200, "try {number}");
        assert_eq!(one.revoke(Credentials::Key(&owner), id).await.status, 200);
        let shows = Credentials::Key(key);
        let after = match number % 4 {
            0 => two.get(shows, KEYS).await,
            1 => two.get(shows, WEBHOOKS).await,
            2 => two.create(shows, &json!({})).await,
            _ => two.delete(shows, &format!("{WEBHOOKS}/{UNKNOWN_ID}")).await,
        };
        successes += usize::from(after.refusal() != (401, "unauthenticated"));
    }
    assert_eq!(successes, 0, "of {TRIES}");
}

/// Uses the key constantly. No request that starts after the revocation's response succeeds.
#[tokio::test(flavor = "multi_thread")]
async fn s4_keys_in_use_stop_working_when_revoked() {
    let one = Identity::open().await;
    let two = Arc::new(Identity::beside(&one, one.clock.clone()).await);
    let (_, owner) = one.org("owner").await;
    for round in 0..20 {
        let created = one.create(Credentials::Key(&owner), &json!({"scopes": ["identity:read"]})).await.body;
        let (id, key) = (created["id"].as_str().unwrap().to_owned(), created["key"].as_str().unwrap().to_owned());
        let stop = Arc::new(AtomicBool::new(false));
        let users: Vec<_> = (0..4)
            .map(|_| {
                let (two, key, stop) = (Arc::clone(&two), key.clone(), Arc::clone(&stop));
                tokio::spawn(async move {
                    let mut answered = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        let started = Instant::now();
                        answered.push((started, two.get(Credentials::Key(&key), KEYS).await.status));
                    }
                    answered
                })
            })
            .collect();
        while two.get(Credentials::Key(&key), KEYS).await.status != 200 {}
        assert_eq!(one.revoke(Credentials::Key(&owner), &id).await.status, 200);
        let revoked = Instant::now();
        while two.get(Credentials::Key(&key), KEYS).await.status == 200 {}
        stop.store(true, Ordering::Relaxed);
        for user in users {
            let late = user.await.unwrap().into_iter().filter(|(started, status)| *started > revoked && *status != 401).count();
            assert_eq!(late, 0, "round {round}");
        }
    }
}

#[tokio::test]
async fn released_domains_are_available_in_every_process() {
    let one = Identity::open().await;
    let two = Identity::beside(&one, one.clock.clone()).await;
    let (owner, key) = one.owner_of("a.test").await;
    let (_, platform) = one.platform("platform").await;
    assert_eq!(two.request_delegation(&platform, "a.test").await.status, 201);
    let domains = two.get(Credentials::Key(&key), crate::test_app::DOMAINS).await;
    assert_eq!(domains.body[0]["organization_id"], json!(owner));
    assert_eq!(
        crate::domains::release(&one, &key, &service_kit::testing::TestResponse { body: domains.body[0].clone(), ..domains })
            .await,
        204
    );
    assert_eq!(two.request_delegation(&platform, "www.a.test").await.refusal(), (404, "not_found"), "the domain has no owner");
    assert_eq!(register(&two, &key, "a.test").await.status, 201, "it can be registered again");
}
