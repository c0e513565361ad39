//! Closings that run longer than a request may. A request that is sent again joins the one that runs.

use super::close::MonthClosed;
use chrono::{DateTime, TimeDelta, Utc};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use schemas::ids::OrgId;
use schemas::problem::Code;
use service_kit::http::ApiError;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long an outcome is available to its requester.
const KEPT: TimeDelta = TimeDelta::minutes(15);

/// Closings of an organization that run or wait.
const MOST: usize = 20;

type Outcome = Result<MonthClosed, ApiError>;

/// By organization and `K`.
pub(crate) struct Running<K>(Mutex<HashMap<(OrgId, K), Closing>>);

struct Closing {
    started: DateTime<Utc>,
    outcome: Shared<BoxFuture<'static, Outcome>>,
}

impl<K: Eq + Hash + Clone> Running<K> {
    pub(super) fn new() -> Self {
        Self(Mutex::default())
    }

    /// Starts a closing, or joins the one that runs. Returns `None` if it takes longer than `patience`; it then continues. Of the
    /// requests that receive a new statement, only one learns that it is new. Returns 429 if the organization has too many closings.
    pub(crate) async fn join(
        &self,
        key: (OrgId, K),
        (now, patience): (DateTime<Utc>, Duration),
        start: impl FnOnce() -> BoxFuture<'static, Outcome>,
    ) -> Option<Outcome> {
        let outcome = {
            let mut running = self.lock();
            running.retain(|_, closing| now - closing.started < KEPT);
            let is_busy = |((owner, _), closing): &(&(OrgId, K), &Closing)| *owner == key.0 && closing.outcome.peek().is_none();
            if !running.contains_key(&key) && running.iter().filter(is_busy).count() >= MOST {
                let detail = format!("{MOST} of your months are being closed. Try again when one of them is closed.");
                return Some(Err(ApiError::new(Code::TooManyRequests, detail).retry_after(Duration::from_mins(1))));
            }
            let closing = running.entry(key.clone()).or_insert_with(|| {
                let task = tokio::spawn(start());
                let outcome = task.map(|ended| ended.unwrap_or_else(|error| Err(ApiError::internal(error))));
                Closing { started: now, outcome: outcome.boxed().shared() }
            });
            closing.outcome.clone()
        };
        let outcome = tokio::time::timeout(patience, outcome).await.ok()?;
        let is_first = self.lock().remove(&key).is_some();
        Some(outcome.map(|closed| MonthClosed { is_new: closed.is_new && is_first, ..closed }))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(OrgId, K), Closing>> {
        // Each change is a single operation, so a panic leaves the map valid.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::ids::OrgId;
    use std::sync::Arc;
    use tokio::sync::Notify;
    use uuid::Uuid;

    const SOON: Duration = Duration::from_millis(20);

    fn of(organization: u128, key: u8) -> (OrgId, u8) {
        (OrgId(Uuid::from_u128(organization)), key)
    }

    #[tokio::test]
    async fn limits_the_closings_of_an_organization() {
        let (running, now) = (Running::new(), DateTime::from_timestamp_nanos(0));
        let join = async |organization, key| {
            let outcome: Option<Outcome> =
                running.join(of(organization, key), (now, Duration::ZERO), || futures::future::pending().boxed()).await;
            outcome.map(|outcome| outcome.err().map(|error| error.code()))
        };
        for key in 0..20 {
            assert_eq!(join(1, key).await, None);
        }
        assert_eq!(join(1, 20).await, Some(Some(Code::TooManyRequests)));
        assert_eq!((join(1, 19).await, join(2, 20).await), (None, None), "requests sent again, and other organizations");
    }

    #[tokio::test]
    async fn requests_join_a_close_in_progress() {
        let (running, go, now) = (Running::new(), Arc::new(Notify::new()), DateTime::from_timestamp_nanos(0));
        let slow = |code: Code| {
            let go = Arc::clone(&go);
            move || {
                async move {
                    go.notified().await;
                    Err(ApiError::new(code, ""))
                }
                .boxed()
            }
        };
        let join = async |key: u8, patience, code| {
            let outcome: Option<Outcome> = running.join(of(1, key), (now, patience), slow(code)).await;
            outcome.map(|outcome| outcome.err().map(|error| error.code()))
        };
        assert_eq!(join(1, SOON, Code::Conflict).await, None);
        assert_eq!(join(1, SOON, Code::NotFound).await, None, "it goes on");
        go.notify_one();
        let patient = Duration::from_secs(10);
        assert_eq!(join(1, patient, Code::NotFound).await, Some(Some(Code::Conflict)), "the first one's outcome");
        go.notify_one();
        assert_eq!(join(1, patient, Code::NotFound).await, Some(Some(Code::NotFound)), "a received outcome is forgotten");
        assert_eq!(join(2, SOON, Code::Conflict).await, None);
        let outcome = running.join(of(1, 2), (now + KEPT, SOON), slow(Code::NotFound)).await;
        assert!(outcome.is_none(), "an old closing is started again");
        go.notify_waiters();
        let outcome: Option<Outcome> = running.join(of(1, 2), (now + KEPT, patient), slow(Code::Conflict)).await;
        assert_eq!(outcome.and_then(Result::err).map(|error| error.code()), Some(Code::NotFound));
    }
}
