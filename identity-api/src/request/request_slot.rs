//! Request slots: one tenant can't use the PostgreSQL connections reserved for others, and keys can't use those of sessions
//! (docs/api/http.md#shares).
//!
//! A request has no slot while it waits for its body or an external service: [`without_slot`]. Its credential is looked up again
//! afterwards, because it may have been revoked in the meantime.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use schemas::ids::OrgId;
use schemas::problem::Code;
use schemas::secrets::SecretHash;
use service_kit::auth::Tenant;
use service_kit::clock::Clock;
use service_kit::http::ApiError;
use service_kit::identity_tables::IdentityTables;
use service_kit::slots::{NoSlot, Pool, Slot, Slots};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Maximum concurrent requests by keys and by sessions. Together fewer than a process's PostgreSQL connections, because looking up
/// credentials needs the rest.
const REQUESTS_BY_KEYS: usize = 10;
const REQUESTS_BY_SESSIONS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Clone)]
pub(crate) struct RequestSlots {
    keys: Arc<Slots<Tenant>>,
    sessions: Arc<Slots<Tenant>>,
    tables: IdentityTables,
    clock: Clock,
}

/// A request's credential.
#[derive(Clone, Copy)]
pub(crate) enum Presented {
    Key(SecretHash),
    /// The session, and the organization that the person acts for.
    Session(SecretHash, Option<OrgId>),
}

struct Held {
    slot: Slot<Tenant>,
    presented: Presented,
}

impl RequestSlots {
    pub(crate) fn new(tables: IdentityTables, clock: Clock) -> Self {
        let keys = Slots::new(Pool::IdentityRequests, REQUESTS_BY_KEYS);
        Self { keys, sessions: Slots::new(Pool::IdentitySessions, REQUESTS_BY_SESSIONS), tables, clock }
    }

    /// Returns 401 if the credential was revoked or has expired, and 403 if the person is no longer a member.
    async fn check(&self, presented: Presented) -> Result<(), ApiError> {
        match presented {
            Presented::Key(hash) => self.tables.find_key(&hash).await?.map(drop).ok_or_else(ApiError::unauthenticated),
            Presented::Session(hash, organization) => {
                let person = self.tables.find_user_session(&hash, self.clock.now()).await?;
                let person = person.ok_or_else(ApiError::unauthenticated)?;
                organization.map_or(Ok(()), |organization| person.member_of(organization).map(drop))
            }
        }
    }
}

tokio::task_local! {
    /// Slot of the request that this task serves.
    static HELD: Mutex<Option<Held>>;
}

/// Serves a request, and releases its slot after the response.
pub(crate) async fn hold(request: Request, next: Next) -> Response {
    HELD.scope(Mutex::default(), next.run(request)).await
}

/// Acquires a slot for a request; a request has at most one.
pub(crate) async fn acquire(slots: &RequestSlots, tenant: Tenant, presented: Presented) -> Result<(), ApiError> {
    if change(|held| held.is_some())? {
        return Ok(());
    }
    let pool = match presented {
        Presented::Key(_) => &slots.keys,
        Presented::Session(..) => &slots.sessions,
    };
    let slot = pool.wait(tenant, PATIENCE).await.map_err(no_slot)?;
    change(|held| *held = Some(Held { slot, presented }))
}

/// Runs slow work without the slot. Afterwards, acquires the slot again and checks the credential.
pub(crate) async fn without_slot<T>(slots: &RequestSlots, work: impl Future<Output = T>) -> Result<T, ApiError> {
    let before = change(|held| held.take().map(|held| (held.slot.key(), held.presented)))?;
    let done = work.await;
    if let Some((tenant, presented)) = before {
        acquire(slots, tenant, presented).await?;
        slots.check(presented).await?;
    }
    Ok(done)
}

/// Releases the slot of a request that has only slow work left.
pub(crate) fn release() {
    // A request may not have a slot.
    let _ = change(Option::take);
}

fn change<T>(change: impl FnOnce(&mut Option<Held>) -> T) -> Result<T, ApiError> {
    HELD.try_with(|held| change(&mut held.lock().unwrap_or_else(PoisonError::into_inner))).map_err(ApiError::internal)
}

fn no_slot(why: NoSlot) -> ApiError {
    match why {
        NoSlot::OwnShare => {
            let detail = "Too many of your requests are in progress. Try again when one finishes.";
            ApiError::new(Code::TooManyRequests, detail).retry_after(Duration::from_secs(1))
        }
        NoSlot::AllTaken => ApiError::unavailable(anyhow::anyhow!("all request slots are in use")),
    }
}
