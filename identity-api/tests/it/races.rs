//! Races of forty callers, decided by the database (S12; threat rows G3, G4, G6, G10, W4, W8).

use crate::test_app::{Credentials, DELEGATIONS, Identity, Requests as _, TestApp, TestResponse, WEBHOOKS, until_served};
use futures::FutureExt;
use futures::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Takes a few seconds in a debug build; `TEST_ROUNDS=1000` runs the 1,000 rounds of S12.
const USUAL_ROUNDS: usize = 12;
pub(crate) const PARALLEL: usize = 40;

/// Runs forty calls at once and counts their statuses.
pub(crate) async fn at_once<F, Fut>(app: &Arc<TestApp>, call: F) -> BTreeMap<u16, usize>
where
    F: Fn(Arc<TestApp>, usize) -> Fut,
    Fut: Future<Output = TestResponse> + Send + 'static,
{
    let call = &call;
    let calls = (0..PARALLEL).map(|number| until_served(move || tokio::spawn(call(Arc::clone(app), number)).map(Result::unwrap)));
    let mut statuses = BTreeMap::new();
    for answer in join_all(calls).await {
        *statuses.entry(answer.status).or_default() += 1;
    }
    statuses
}

/// Returns the number of rounds: `TEST_ROUNDS`, or `usual`.
pub(crate) fn rounds(usual: usize) -> usize {
    let given = std::env::var_os("TEST_ROUNDS").map(|rounds| rounds.to_string_lossy().parse().expect("TEST_ROUNDS is a number"));
    given.unwrap_or(usual)
}

#[tokio::test(flavor = "multi_thread")]
async fn g3_only_one_of_forty_grants_wins() {
    let app = Arc::new(Identity::open().await);
    let (_, owner) = app.org("owner").await;
    let (partner, _) = app.platform("partner").await;
    let hook = app.subscribe(&owner, &["delegation.created", "delegation.revoked"]).await;
    for round in 1..=rounds(USUAL_ROUNDS) {
        let granted = at_once(&app, |app, _| {
            let key = owner.clone();
            async move { app.grant(&key, partner).await }
        })
        .await;
        assert_eq!(granted, BTreeMap::from([(201, 1), (409, PARALLEL - 1)]), "round {round}");
        let active = app.get(Credentials::Key(&owner), DELEGATIONS).await.body;
        assert_eq!(active.as_array().unwrap().len(), 1, "round {round}");
        let path = format!("{DELEGATIONS}/{}", active[0]["id"].as_str().unwrap());
        let revoked = at_once(&app, |app, _| {
            let (key, path) = (owner.clone(), path.clone());
            async move { app.delete(Credentials::Key(&key), &path).await }
        })
        .await;
        assert_eq!(revoked, BTreeMap::from([(200, PARALLEL)]), "round {round}");
        assert_eq!(app.outbox(&hook).await.len(), 2 * round, "one event per change");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g10_only_one_of_forty_requests_is_created() {
    let app = Arc::new(Identity::open().await);
    let ((_, owner), (_, partner)) = (app.owner_of("a.test").await, app.platform("partner").await);
    let hook = app.subscribe(&owner, &["delegation_request.created"]).await;
    for round in 1..=rounds(USUAL_ROUNDS) {
        let filed = at_once(&app, |app, number| {
            let key = partner.clone();
            async move { app.request_delegation(&key, &format!("host{number}.a.test")).await }
        })
        .await;
        assert_eq!(filed, BTreeMap::from([(201, 1), (409, PARALLEL - 1)]), "round {round}");
        let sent = app.outbox(&hook).await;
        assert_eq!(sent.len(), round);
        let id = sent[round - 1]["data"]["delegation_request"]["id"].as_str().unwrap();
        assert_eq!(app.answer_request(&owner, id, "deny").await.status, 204, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn w4_forty_concurrent_calls_create_at_most_ten_endpoints() {
    let app = Arc::new(Identity::open().await);
    let (_, owner) = app.org("owner").await;
    for round in 0..rounds(USUAL_ROUNDS) {
        let created = at_once(&app, |app, _| {
            let key = owner.clone();
            async move { app.subscribe(&key, &["delegation.created"]).await }
        })
        .await;
        let listed = app.get(Credentials::Key(&owner), WEBHOOKS).await.body;
        let listed = listed.as_array().unwrap();
        assert_eq!(listed.len(), 10, "round {round}: {created:?}");
        let free = if round == 0 { 10 } else { 7 };
        assert_eq!(created, BTreeMap::from([(201, free), (409, PARALLEL - free)]), "round {round}");
        for endpoint in &listed[..7] {
            let path = format!("{WEBHOOKS}/{}", endpoint["id"].as_str().unwrap());
            assert_eq!(app.delete(Credentials::Key(&owner), &path).await.status, 204);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn w8_disabled_endpoints_get_no_new_messages() {
    let app = Arc::new(Identity::open().await);
    let (_, owner) = app.org("owner").await;
    for round in 0..rounds(USUAL_ROUNDS) {
        let hook = app.subscribe(&owner, &["delegation.created"]).await;
        let mut grants = JoinSet::new();
        for _ in 0..8 {
            let (app, key) = (Arc::clone(&app), owner.clone());
            let (partner, _) = app.platform("partner").await;
            grants.spawn(async move { until_served(|| app.grant(&key, partner)).await.status });
        }
        let path = format!("{WEBHOOKS}/{}", hook.text("id"));
        assert_eq!(app.delete(Credentials::Key(&owner), &path).await.status, 204);
        let written = app.outbox(&hook).await.len();
        while let Some(status) = grants.join_next().await {
            assert_eq!(status.unwrap(), 201);
        }
        assert_eq!(app.outbox(&hook).await.len(), written, "round {round}");
    }
}
