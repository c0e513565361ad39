//! Bytes in the spill by organization. An earlier process's entries are not attributed to any organization.

use schemas::ids::OrgId;
use std::collections::HashMap;

#[derive(Clone, Debug, Default)]
pub(super) struct UsageByOrganization(HashMap<OrgId, u64>);

impl UsageByOrganization {
    pub(super) fn bytes_of(&self, org: OrgId) -> u64 {
        self.0.get(&org).copied().unwrap_or(0)
    }

    pub(super) fn add(&mut self, org: OrgId, bytes: u64) {
        *self.0.entry(org).or_default() += bytes;
    }

    pub(super) fn add_all(&mut self, others: &Self) {
        others.0.iter().for_each(|(org, bytes)| self.add(*org, *bytes));
    }

    /// Subtracts bytes, and removes organizations whose count drops to 0.
    pub(super) fn subtract_all(&mut self, others: &Self) {
        for (org, bytes) in &others.0 {
            let left = self.bytes_of(*org).saturating_sub(*bytes);
            match left {
                0 => drop(self.0.remove(org)),
                _ => drop(self.0.insert(*org, left)),
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
