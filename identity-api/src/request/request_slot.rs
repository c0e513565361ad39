//! Slots for requests by organization, or by person for requests without one: one tenant can't take the PostgreSQL connections
//! reserved for others (docs/api/http.md#shares). A person has at most half of the slots across all their organizations, and so
//! have the keys of all organizations that a person created and owns.
//!
//! A request has no slot while it waits for an external service: [`without`].

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use schemas::ids::{OrgId, UserId};
use schemas::problem::Code;
use service_kit::http::ApiError;
use service_kit::slots::{NoSlot, Pool, Slot, Slots};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Maximum concurrent requests; fewer than PostgreSQL connections per process, because looking up credentials needs the rest.
const REQUESTS_AT_ONCE: usize = 14;
/// Maximum concurrent requests of one [`Share`], across organizations.
const REQUESTS_OF_A_SHARE: usize = REQUESTS_AT_ONCE / 2;
const PATIENCE: Duration = Duration::from_secs(3);
/// Number of shares from which idle ones are removed.
const SWEEP_FROM: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Tenant {
    Organization(OrgId),
    Person(UserId),
}

/// People who are counted across all their organizations. Keys and sessions count separately, because others can have a founder's
/// keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Share {
    SessionsOf(UserId),
    KeysOf(UserId),
}

pub(crate) struct Shares {
    tenants: Arc<Slots<Tenant>>,
    people: Mutex<HashMap<Share, Arc<Semaphore>>>,
}

pub(crate) type RequestSlots = Arc<Shares>;

pub(crate) fn slots() -> RequestSlots {
    Arc::new(Shares { tenants: Slots::new(Pool::IdentityRequests, REQUESTS_AT_ONCE), people: Mutex::default() })
}

impl Shares {
    async fn wait_for_person(&self, person: Share, until: Instant) -> Result<OwnedSemaphorePermit, NoSlot> {
        match timeout_at(until, self.share_of(person).acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) | Err(_) => {
                self.tenants.note_credential_limit();
                Err(NoSlot::OwnShare)
            }
        }
    }

    fn share_of(&self, person: Share) -> Arc<Semaphore> {
        let mut people = self.people.lock().unwrap_or_else(PoisonError::into_inner);
        if people.len() >= SWEEP_FROM {
            people.retain(|_, share| Arc::strong_count(share) > 1);
        }
        Arc::clone(people.entry(person).or_insert_with(|| Arc::new(Semaphore::new(REQUESTS_OF_A_SHARE))))
    }
}

struct Held {
    slot: Slot<Tenant>,
    person: Option<(Share, OwnedSemaphorePermit)>,
}

tokio::task_local! {
    /// Slot of the request that this task serves.
    static HELD: Mutex<Option<Held>>;
}

/// Serves a request, and releases its slot after the response.
pub(crate) async fn hold(request: Request, next: Next) -> Response {
    HELD.scope(Mutex::default(), next.run(request)).await
}

/// Acquires a slot for a request within the person's share; a request has at most one.
pub(crate) async fn take(slots: &RequestSlots, tenant: Tenant, person: Option<Share>) -> Result<(), ApiError> {
    if change(|held| held.is_some())? {
        return Ok(());
    }
    let until = Instant::now() + PATIENCE;
    let person = match person {
        Some(person) => Some((person, slots.wait_for_person(person, until).await.map_err(no_slot)?)),
        None => None,
    };
    let slot = slots.tenants.wait(tenant, until.duration_since(Instant::now())).await.map_err(no_slot)?;
    change(|held| *held = Some(Held { slot, person }))
}

/// Runs slow work without the slot, and acquires the slot again afterwards.
pub(crate) async fn without<T>(slots: &RequestSlots, work: impl Future<Output = T>) -> Result<T, ApiError> {
    let whose = change(|held| held.take().map(|held| (held.slot.key(), held.person.map(|(person, _)| person))))?;
    let done = work.await;
    if let Some((tenant, person)) = whose {
        take(slots, tenant, person).await?;
    }
    Ok(done)
}

/// Releases the slot of a request that only has slow work left.
pub(crate) fn give_back() {
    // A request may have no slot.
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
        NoSlot::AllTaken => ApiError::unavailable(anyhow::anyhow!("{REQUESTS_AT_ONCE} requests are in progress")),
    }
}
