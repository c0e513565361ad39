//! Counts the reasons for rejected reports, per organization (docs/api/identity.md#rejected-reports). Counted in memory and stored in the
//! background.

use crate::State;
use axum::extract::{MatchedPath, Request, State as Shared};
use axum::middleware::Next;
use axum::response::Response;
use chrono::{DateTime, DurationRound, TimeDelta, Utc};
use schemas::ids::OrgId;
use schemas::problem::Code;
use service_kit::auth::RequestOrganization;
use service_kit::clock::Clock;
use service_kit::hourly_deletion;
use service_kit::http::{ApiError, RequestId};
use sqlx::PgPool;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

const PAUSE: Duration = Duration::from_secs(1);
/// Maximum reasons waiting to be stored, for all organizations. Further reasons are dropped.
const MAX_WAITING: usize = 20_000;
const KEEP: TimeDelta = TimeDelta::days(30);

const WRITE: &str = include_str!("refusals.sql");
const DELETE: &str = "DELETE FROM refused_reports WHERE ctid = ANY(array( \
    SELECT ctid FROM refused_reports WHERE hour < $1 LIMIT $2 FOR UPDATE SKIP LOCKED))";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Reason {
    organization: OrgId,
    hour: DateTime<Utc>,
    route: String,
    code: &'static str,
    field: String,
    rule: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Times {
    status: u16,
    requests: i64,
    last_at: DateTime<Utc>,
    last_request_id: String,
}

type Waiting = BTreeMap<Reason, Times>;

pub(crate) struct RefusedReports(Arc<Mutex<Waiting>>);

impl RefusedReports {
    /// Starts a background task that ends when the last handle is dropped.
    pub(crate) fn start(pool: PgPool) -> Self {
        let waiting = Arc::default();
        tokio::spawn(write(Arc::downgrade(&waiting), pool));
        Self(waiting)
    }

    /// Counts a rejected request once per rule that it broke.
    fn note(&self, organization: OrgId, route: &str, request_id: &str, error: &ApiError, now: DateTime<Utc>) {
        let rules: BTreeSet<_> = error.listed().iter().map(|fault| (fault.field.clone(), fault.code.clone())).collect();
        let rules = if rules.is_empty() { BTreeSet::from([Default::default()]) } else { rules };
        let hour = now.duration_trunc(TimeDelta::hours(1)).unwrap_or(now);
        let mut waiting = lock(&self.0);
        for (field, rule) in rules {
            let reason = Reason { organization, hour, route: route.to_owned(), code: error.code().as_str(), field, rule };
            let status = error.code().status();
            add(&mut waiting, reason, Times { status, requests: 1, last_at: now, last_request_id: request_id.to_owned() });
        }
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    // Every change is a single step, so the map is consistent even after a panic.
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

fn add(waiting: &mut Waiting, reason: Reason, times: Times) {
    if waiting.len() >= MAX_WAITING && !waiting.contains_key(&reason) {
        return;
    }
    match waiting.get_mut(&reason) {
        None => drop(waiting.insert(reason, times)),
        Some(known) if known.last_at <= times.last_at => *known = Times { requests: known.requests + times.requests, ..times },
        Some(known) => known.requests += times.requests,
    }
}

async fn write(waiting: Weak<Mutex<Waiting>>, pool: PgPool) {
    loop {
        tokio::time::sleep(PAUSE).await;
        let Some(waiting) = waiting.upgrade() else { return };
        let taken = std::mem::take(&mut *lock(&waiting));
        if taken.is_empty() {
            continue;
        }
        match write_down(&pool, &taken).await {
            Ok(()) => {}
            // Database errors are permanent, so a retry would fail too.
            Err(error @ sqlx::Error::Database(_)) => tracing::warn!(reasons = taken.len(), "failed to store rejections: {error}"),
            Err(error) => {
                tracing::debug!(reasons = taken.len(), "failed to store rejections, retrying later: {error}");
                let mut waiting = lock(&waiting);
                taken.into_iter().for_each(|(reason, times)| add(&mut waiting, reason, times));
            }
        }
    }
}

/// Writes rows in key order, so two processes that write the same rows can't deadlock.
async fn write_down(pool: &PgPool, taken: &Waiting) -> Result<(), sqlx::Error> {
    let reasons = || taken.keys();
    let times = || taken.values();
    sqlx::query(WRITE)
        .bind(reasons().map(|reason| reason.organization.0).collect::<Vec<Uuid>>())
        .bind(reasons().map(|reason| reason.hour).collect::<Vec<_>>())
        .bind(reasons().map(|reason| reason.route.as_str()).collect::<Vec<_>>())
        .bind(reasons().map(|reason| reason.code).collect::<Vec<_>>())
        .bind(reasons().map(|reason| reason.field.as_str()).collect::<Vec<_>>())
        .bind(reasons().map(|reason| reason.rule.as_str()).collect::<Vec<_>>())
        .bind(times().map(|times| i16::try_from(times.status).unwrap_or(i16::MAX)).collect::<Vec<_>>())
        .bind(times().map(|times| times.requests).collect::<Vec<_>>())
        .bind(times().map(|times| times.last_at).collect::<Vec<_>>())
        .bind(times().map(|times| times.last_request_id.as_str()).collect::<Vec<_>>())
        .execute(pool)
        .await
        .map(drop)
}

/// Middleware of the reporting routes. Counts rejections for known callers, except for this service's own errors.
pub(crate) async fn count_refused_reports(Shared(state): Shared<Arc<State>>, mut request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let request_id = request.extensions().get::<RequestId>().map(|id| id.0.clone()).unwrap_or_default();
    let caller = RequestOrganization::default();
    request.extensions_mut().insert(caller.clone());
    let response = next.run(request).await;
    if let Some(error) = response.extensions().get::<ApiError>()
        && let (Some(organization), Some(route)) = (caller.organization(), route)
        && error.code() != Code::Internal
        && error.code() != Code::Unavailable
    {
        state.refused_reports.note(organization, route.as_str(), &request_id, error, state.clock.now());
    }
    response
}

pub(crate) fn start_expiry(pool: PgPool, clock: Clock) -> AbortOnDropHandle<()> {
    hourly_deletion::hourly("old refusals", move || {
        let (pool, before) = (pool.clone(), clock.now() - KEEP);
        async move { hourly_deletion::delete_in_batches(&pool, DELETE, before).await }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::problem::Fault;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_790_000_000 + seconds, 0).unwrap()
    }

    fn silent() -> RefusedReports {
        RefusedReports(Arc::default())
    }

    fn fault(index: usize, field: &str) -> Fault {
        Fault { index: Some(index), field: field.to_owned(), code: "required".to_owned(), detail: "secret text".to_owned() }
    }

    const ORG: OrgId = OrgId(Uuid::nil());

    #[test]
    fn counts_a_request_once_per_broken_rule() {
        let refusals = silent();
        let broken = ApiError::faults(Code::InvalidEvent, vec![fault(0, "type"), fault(1, "type"), fault(1, "timestamp")]);
        refusals.note(ORG, "/events", "first", &broken, at(0));
        refusals.note(ORG, "/events", "second", &broken, at(1));
        refusals.note(ORG, "/events", "third", &ApiError::new(Code::Forbidden, "a host"), at(2));
        let waiting = lock(&refusals.0);
        let told: Vec<_> = waiting
            .iter()
            .map(|(reason, times)| (reason.code, reason.field.as_str(), times.requests, times.last_request_id.as_str()))
            .collect();
        let expected =
            [("forbidden", "", 1, "third"), ("invalid_event", "timestamp", 2, "second"), ("invalid_event", "type", 2, "second")];
        assert_eq!(told, expected);
        assert!(!format!("{waiting:?}").contains("secret text"), "details are not stored, because they may quote a value");
    }

    #[test]
    fn limits_queued_reasons_but_counts_known_ones() {
        let refusals = silent();
        let error = ApiError::new(Code::Forbidden, "");
        for org in 0..=MAX_WAITING as u128 {
            refusals.note(OrgId(Uuid::from_u128(org)), "/events", "", &error, at(0));
        }
        refusals.note(ORG, "/events", "", &error, at(1));
        let waiting = lock(&refusals.0);
        assert_eq!((waiting.len(), waiting.values().map(|times| times.requests).max()), (MAX_WAITING, Some(2)));
    }
}
