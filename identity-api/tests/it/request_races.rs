//! Forty concurrent calls for one request: approvals, denials, late approvals, grants and further requests for the pair. Exactly one
//! wins (S12, G6).

use crate::races::{PARALLEL, at_once, rounds as rounds_of};
use crate::test_app::{Credentials, DELEGATIONS, Identity, Requests as _, TestApp, TestResponse, sign_in};
use chrono::TimeDelta;
use schemas::identity::REQUEST_LIFETIME;
use schemas::ids::OrgId;
use service_kit::clock::Clock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Duration of the test, unless `TEST_ROUNDS` is set or 1,000 rounds are done.
const TIME: Duration = Duration::from_secs(30);
const MOST_ROUNDS: usize = 1_000;

#[derive(Clone, Copy, Debug)]
enum Against {
    Approval,
    Denial,
    Expiry,
    Grant,
    Request,
}

const ALL: [Against; 5] = [Against::Approval, Against::Denial, Against::Expiry, Against::Grant, Against::Request];

/// Two processes. For the second, the request has expired.
struct Sides {
    in_time: Arc<TestApp>,
    late: Arc<TestApp>,
}

#[derive(Clone)]
struct Case {
    against: Against,
    late: Arc<TestApp>,
    owner: String,
    partner: OrgId,
    partner_key: String,
    id: String,
}

impl Case {
    /// Every other caller approves. The remaining callers do what the approval races against.
    async fn answer(self, app: Arc<TestApp>, number: usize) -> TestResponse {
        match (number % 2, self.against) {
            (1, Against::Denial) => app.answer_request(&self.owner, &self.id, "deny").await,
            (1, Against::Expiry) => self.late.answer_request(&self.owner, &self.id, "approve").await,
            (1, Against::Grant) => app.grant(&self.owner, self.partner).await,
            (1, Against::Request) => app.request_delegation(&self.partner_key, "www.a.test").await,
            _ => app.answer_request(&self.owner, &self.id, "approve").await,
        }
    }

    /// Checks that exactly one caller won and that the others got a reason.
    fn check(&self, answered: &BTreeMap<u16, usize>) {
        let of = |status| answered.get(&status).copied().unwrap_or(0);
        assert_eq!(of(201) + of(204), 1, "{:?}: {answered:?}", self.against);
        assert!(of(204) == 0 || matches!(self.against, Against::Denial), "{:?}: {answered:?}", self.against);
        assert_eq!(of(201) + of(204) + of(409) + of(410), PARALLEL, "{:?}: {answered:?}", self.against);
        assert!(of(410) == 0 || matches!(self.against, Against::Expiry), "{:?}: {answered:?}", self.against);
    }
}

async fn round(sides: &Sides, owner: &str, against: Against) {
    let app = &sides.in_time;
    let (partner, partner_key) = app.platform("partner").await;
    let hook = app.subscribe(&partner_key, &["delegation.created"]).await;
    let id = app.request_delegation(&partner_key, "a.test").await.text("id").to_owned();
    let (late, owner) = (Arc::clone(&sides.late), owner.to_owned());
    let case = Case { against, late, owner, partner, partner_key: partner_key.clone(), id };
    let answered = at_once(app, |app, number| case.clone().answer(app, number)).await;
    case.check(&answered);
    let granted = answered.get(&201).copied().unwrap_or(0);
    let delegations = app.get(Credentials::Key(&partner_key), DELEGATIONS).await.body;
    assert_eq!(delegations.as_array().unwrap().len(), granted, "{against:?}: {answered:?}");
    assert_eq!(app.outbox(&hook).await.len(), granted, "{against:?}: one event per delegation");
    let trail: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM audit_log a JOIN delegation_requests r ON r.id = a.object_id AND r.grantor_org_id = a.organization_id \
             WHERE r.id = $1 AND a.action <> 'delegation_request.created'",
    )
    .bind(case.id.parse::<uuid::Uuid>().unwrap())
    .fetch_one(&app.stores.pool)
    .await
    .unwrap();
    // A grant doesn't resolve the request, which stays pending.
    let at_most = if matches!(against, Against::Grant) { 0..=1 } else { 1..=1 };
    assert!(at_most.contains(&trail), "{against:?}: {trail} answers in the audit trail");
}

#[tokio::test(flavor = "multi_thread")]
async fn g6_only_one_of_forty_conflicting_answers_wins() {
    let now = Clock::System.now();
    let app = Identity::open_for(Clock::manual(now), sign_in()).await;
    let late = Identity::beside(&app, Clock::manual(now + REQUEST_LIFETIME + TimeDelta::seconds(1))).await;
    let sides = Sides { in_time: Arc::new(app), late: Arc::new(late) };
    let (_, owner) = sides.in_time.owner_of("a.test").await;
    let (begun, mut rounds) = (Instant::now(), 0);
    let given = rounds_of(0);
    let goes_on = |rounds| match given {
        0 => rounds < MOST_ROUNDS && (rounds < ALL.len() || begun.elapsed() < TIME),
        given => rounds < given,
    };
    while goes_on(rounds) {
        let against = ALL[rounds % ALL.len()];
        round(&sides, &owner, against).await;
        rounds += 1;
    }
    println!("{rounds} rounds of {PARALLEL}");
}
