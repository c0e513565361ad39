//! Slots for requests: one tenant can't take the PostgreSQL connections reserved for others (docs/api/http.md#shares).
//!
//! A request has no slot while it waits for an external service: [`without`].

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use schemas::problem::Code;
use service_kit::auth::Tenant;
use service_kit::http::ApiError;
use service_kit::slots::{NoSlot, Pool, Slot, Slots};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Maximum concurrent requests; fewer than PostgreSQL connections per process, because looking up credentials needs the rest.
const REQUESTS_AT_ONCE: usize = 14;
const PATIENCE: Duration = Duration::from_secs(3);

pub(crate) type RequestSlots = Arc<Slots<Tenant>>;

pub(crate) fn slots() -> RequestSlots {
    Slots::new(Pool::IdentityRequests, REQUESTS_AT_ONCE)
}

tokio::task_local! {
    /// Slot of the request that this task serves.
    static HELD: Mutex<Option<Slot<Tenant>>>;
}

/// Serves a request, and releases its slot after the response.
pub(crate) async fn hold(request: Request, next: Next) -> Response {
    HELD.scope(Mutex::default(), next.run(request)).await
}

/// Acquires a slot for a request; a request has at most one.
pub(crate) async fn acquire(slots: &RequestSlots, tenant: Tenant) -> Result<(), ApiError> {
    if change(|held| held.is_some())? {
        return Ok(());
    }
    let slot = slots.wait(tenant, PATIENCE).await.map_err(no_slot)?;
    change(|held| *held = Some(slot))
}

/// Runs slow work without the slot, and acquires the slot again afterwards.
pub(crate) async fn without_slot<T>(slots: &RequestSlots, work: impl Future<Output = T>) -> Result<T, ApiError> {
    let tenant = change(|held| held.take().map(|slot| slot.key()))?;
    let done = work.await;
    if let Some(tenant) = tenant {
        acquire(slots, tenant).await?;
    }
    Ok(done)
}

/// Releases the slot of a request that only has slow work left.
pub(crate) fn release() {
    // A request may have no slot.
    let _ = change(Option::take);
}

fn change<T>(change: impl FnOnce(&mut Option<Slot<Tenant>>) -> T) -> Result<T, ApiError> {
    HELD.try_with(|held| change(&mut held.lock().unwrap_or_else(PoisonError::into_inner))).map_err(ApiError::internal)
}

fn no_slot(why: NoSlot) -> ApiError {
    match why {
        NoSlot::OwnShare => {
            let detail = "Too many of your requests are in progress. Try again when one finishes.";
            ApiError::new(Code::TooManyRequests, detail).retry_after(Duration::from_secs(1))
        }
        NoSlot::AllTaken => ApiError::unavailable(anyhow::anyhow!("{REQUESTS_AT_ONCE} requests are in progress")),
    }
}
