//! Memory for request bodies, from their headers until they are processed: slots of 1 KiB, shared by tenants (docs/api/http.md#shares).

use super::overloaded;
use schemas::problem::Code;
use service_kit::auth::Tenant;
use service_kit::http::ApiError;
use service_kit::slots::{NoSlot, Pool, Slot, Slots};
use std::sync::Arc;
use std::time::Duration;

const KIB: usize = 1024;

pub(crate) struct BodyMemory(Arc<Slots<Tenant>>);

#[derive(Debug)]
pub(crate) struct BodyReservation(Slot<Tenant>);

impl BodyMemory {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Slots::new(Pool::Bodies, bytes / KIB))
    }

    pub(crate) fn reserve(&self, tenant: Tenant) -> Result<BodyReservation, NoSlot> {
        self.0.take(tenant, usize::MAX).map(BodyReservation)
    }
}

impl BodyReservation {
    pub(crate) fn tenant(&self) -> Tenant {
        self.0.key()
    }

    /// Reserves `bytes` for the whole body.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), NoSlot> {
        self.0.grow_to(bytes.div_ceil(KIB))
    }
}

/// Returns 429 for a tenant that used its share, otherwise 503.
pub(crate) fn out_of_memory_error(why: NoSlot) -> ApiError {
    match why {
        NoSlot::OwnShare => {
            let detail = "The organization, with others of its owner, sends too much data at the same time. Try again when a request finishes.";
            ApiError::new(Code::TooManyRequests, detail).retry_after(Duration::from_secs(1))
        }
        NoSlot::AllTaken => overloaded(),
    }
}
