//! How many bodies of drains are read at a time: of everybody, and by each organisation's share of that ([`OrganizationShares`]).
//!
//! A place is taken before the body arrives, for as long as its sender takes: without shares one slow sender would have them all.
//!
//! Must give every place back, however a body ends.

use schemas::ids::OrgId;
use service_kit::organization_shares::{NoPlace, OrganizationShares};
use std::sync::{Arc, Mutex, PoisonError};

/// The bodies that are read.
pub(super) struct DrainLimiter(Mutex<OrganizationShares>);

/// A body that is read, until it is dropped.
pub(super) struct DrainPermit {
    limiter: Arc<DrainLimiter>,
    organization: OrgId,
}

impl DrainLimiter {
    pub(super) fn new(at_once: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(OrganizationShares::new(at_once))))
    }

    pub(super) fn begin(self: &Arc<Self>, organization: OrgId) -> Result<DrainPermit, NoPlace> {
        let mut shares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shares.take(organization, usize::MAX)?;
        Ok(DrainPermit { limiter: Arc::clone(self), organization })
    }
}

impl Drop for DrainPermit {
    fn drop(&mut self) {
        self.limiter.0.lock().unwrap_or_else(PoisonError::into_inner).give_back(self.organization);
    }
}
