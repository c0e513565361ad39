//! S12: forty callers at once, and the database decides (threat rows G3, G4, G6, G10, W4, W8).

use crate::test_app::{Answer, DELEGATIONS, Shows, TestApp, WEBHOOKS, until_served};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinSet;

/// S12 asks for 1,000 rounds, which `TEST_ROUNDS=1000` runs; these many take some seconds in a debug build.
const USUAL_ROUNDS: usize = 12;
pub(crate) const PARALLEL: usize = 40;

/// Forty calls at once; how many got which status.
pub(crate) async fn at_once<F, Fut>(app: &Arc<TestApp>, call: F) -> BTreeMap<u16, usize>
where
    F: Fn(Arc<TestApp>, usize) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Answer> + Send + 'static,
{
    let (mut calls, call) = (JoinSet::new(), Arc::new(call));
    for number in 0..PARALLEL {
        let (app, call) = (Arc::clone(app), Arc::clone(&call));
        calls.spawn(async move { until_served(|| call(Arc::clone(&app), number)).await });
    }
    let mut statuses = BTreeMap::new();
    while let Some(answer) = calls.join_next().await {
        *statuses.entry(answer.unwrap().status).or_default() += 1;
    }
    statuses
}

/// How often a race is run: `TEST_ROUNDS`, else what is usual.
pub(crate) fn rounds(usual: usize) -> usize {
    let given = std::env::var_os("TEST_ROUNDS").map(|rounds| rounds.to_string_lossy().parse().expect("TEST_ROUNDS is a number"));
    given.unwrap_or(usual)
}

fn of<const N: usize>(statuses: [(u16, usize); N]) -> BTreeMap<u16, usize> {
    statuses.into()
}

#[tokio::test(flavor = "multi_thread")]
async fn g3_s12_of_forty_parallel_grants_one_wins() {
    let app = Arc::new(TestApp::open().await);
    let (_, owner) = app.org("owner").await;
    let (partner, _) = app.platform("partner").await;
    let hook = app.subscribe(&owner, &["delegation.created", "delegation.revoked"]).await;
    for round in 1..=rounds(USUAL_ROUNDS) {
        let key = owner.clone();
        let granted = at_once(&app, move |app, _| {
            let key = key.clone();
            async move { app.grant(&key, partner).await }
        })
        .await;
        assert_eq!(granted, of([(201, 1), (409, PARALLEL - 1)]), "round {round}");
        let active = app.get(Shows::Key(&owner), DELEGATIONS).await.body;
        assert_eq!(active.as_array().unwrap().len(), 1, "round {round}");
        let (key, path) = (owner.clone(), format!("{DELEGATIONS}/{}", active[0]["id"].as_str().unwrap()));
        let revoked = at_once(&app, move |app, _| {
            let (key, path) = (key.clone(), path.clone());
            async move { app.delete(Shows::Key(&key), &path).await }
        })
        .await;
        assert_eq!(revoked, of([(200, PARALLEL)]), "round {round}");
        assert_eq!(app.outbox(&hook).await.len(), 2 * round, "one event for one change");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g10_s12_of_forty_requests_of_a_pair_one_is_filed() {
    let app = Arc::new(TestApp::open().await);
    let ((_, owner), (_, partner)) = (app.owner_of("a.test").await, app.platform("partner").await);
    let hook = app.subscribe(&owner, &["delegation_request.created"]).await;
    for round in 1..=rounds(USUAL_ROUNDS) {
        let key = partner.clone();
        let filed = at_once(&app, move |app, number| {
            let key = key.clone();
            async move { app.ask(&key, &format!("host{number}.a.test")).await }
        })
        .await;
        assert_eq!(filed, of([(201, 1), (409, PARALLEL - 1)]), "round {round}");
        let sent = app.outbox(&hook).await;
        assert_eq!(sent.len(), round);
        let id = sent[round - 1]["data"]["delegation_request"]["id"].as_str().unwrap();
        assert_eq!(app.answer_request(&owner, id, "deny").await.status, 204, "round {round}");
    }
}

/// Approvals, denials, grants unasked and further requests for one pair.
#[tokio::test(flavor = "multi_thread")]
async fn s12_of_every_answer_to_a_request_one_wins() {
    let app = Arc::new(TestApp::open().await);
    let (_, owner) = app.owner_of("a.test").await;
    for round in 0..rounds(USUAL_ROUNDS) {
        let (partner, partner_key) = app.platform("partner").await;
        let hook = app.subscribe(&partner_key, &["delegation.created"]).await;
        let id = app.ask(&partner_key, "a.test").await.text("id").to_owned();
        let (with_grants, key, asker) = (round % 2 == 0, owner.clone(), partner_key.clone());
        let answered = at_once(&app, move |app, number| {
            let (id, key, asker) = (id.clone(), key.clone(), asker.clone());
            async move {
                match number % 4 {
                    0 => app.answer_request(&key, &id, "approve").await,
                    1 => app.answer_request(&key, &id, "deny").await,
                    2 if with_grants => app.grant(&key, partner).await,
                    2 => app.answer_request(&key, &id, "approve").await,
                    _ => app.ask(&asker, "www.a.test").await,
                }
            }
        })
        .await;
        let known = [201, 204, 409];
        assert!(answered.keys().all(|status| known.contains(status)), "round {round}: {answered:?}");
        let active = app.get(Shows::Key(&partner_key), DELEGATIONS).await.body.as_array().unwrap().len();
        assert!(active <= 1, "round {round}");
        assert_eq!(app.outbox(&hook).await.len(), active, "one event for one delegation, round {round}");
        let answers = "SELECT count(*) FROM delegation_requests r WHERE status IN ('approved', 'denied') \
                       AND NOT EXISTS (SELECT 1 FROM audit_log a WHERE a.object_id = r.id AND a.action = 'delegation_request.' || r.status)";
        assert_eq!(app.count(answers).await, 0, "what is answered is in the trail, round {round}");
        let approved_without = "SELECT count(*) FROM audit_log a JOIN delegation_requests r ON r.id = a.object_id AND r.grantor_org_id = a.organization_id \
                                WHERE action IN ('delegation_request.approved', 'delegation_request.denied') \
                                GROUP BY object_id ORDER BY 1 DESC LIMIT 1";
        let most_answers: Option<i64> = sqlx::query_scalar(approved_without).fetch_optional(&app.stores.pool).await.unwrap();
        assert!(most_answers.is_none_or(|most| most == 1), "a request is answered once, round {round}");
        // A request filed after a denial may be pending; one beside a delegation only if that was granted unasked.
        let both = "SELECT count(*) FROM delegation_requests r JOIN delegations d ON d.grantor_org_id = r.grantor_org_id \
                    AND d.grantee_org_id = r.requester_org_id AND d.revoked_at IS NULL \
                    WHERE r.status = 'pending' AND r.created_at > d.created_at";
        assert_eq!(app.count(both).await, 0, "nobody asks for what is there, round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn w4_s12_at_most_ten_endpoints_are_active() {
    let app = Arc::new(TestApp::open().await);
    let (_, owner) = app.org("owner").await;
    for round in 0..rounds(USUAL_ROUNDS) {
        let key = owner.clone();
        let created = at_once(&app, move |app, _| {
            let key = key.clone();
            async move { app.subscribe(&key, &["delegation.created"]).await }
        })
        .await;
        let listed = app.get(Shows::Key(&owner), WEBHOOKS).await.body;
        let listed = listed.as_array().unwrap();
        assert_eq!(listed.len(), 10, "round {round}: {created:?}");
        let free = if round == 0 { 10 } else { 7 };
        assert_eq!(created, of([(201, free), (409, PARALLEL - free)]), "round {round}");
        for endpoint in &listed[..7] {
            let path = format!("{WEBHOOKS}/{}", endpoint["id"].as_str().unwrap());
            assert_eq!(app.delete(Shows::Key(&owner), &path).await.status, 204);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn w8_after_an_endpoint_is_disabled_nothing_is_written_for_it() {
    let app = Arc::new(TestApp::open().await);
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
        assert_eq!(app.delete(Shows::Key(&owner), &path).await.status, 204);
        let written = app.outbox(&hook).await.len();
        while let Some(status) = grants.join_next().await {
            assert_eq!(status.unwrap(), 201);
        }
        assert_eq!(app.outbox(&hook).await.len(), written, "round {round}");
    }
}
