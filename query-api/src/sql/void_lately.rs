//! Whose plain answers were void lately: the next few reads of such an owner go to the exact statement at once, so that an
//! owner with a lasting odd retrieval does not pay for both statements on every read.
//!
//! Must not decide what is answered: what is forgotten or wrong here costs time, either statement is exact.

use schemas::ids::OrgId;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Reads that go to the exact statement before the plain one is tried again. Most odd retrievals are repeats that merge
/// within seconds, and the exact statement costs about three plain ones.
const SPARED: u32 = 8;

/// Owners, each with how many reads are still to be spared the plain statement. As small as there are such owners.
#[derive(Debug, Default)]
pub(super) struct VoidLately(Mutex<HashMap<OrgId, u32>>);

impl VoidLately {
    /// Whether the plain statement is to be tried for this owner; counts the read when it is not.
    pub(super) fn is_plain_worth_it(&self, owner: OrgId) -> bool {
        let mut owners = self.owners();
        let Some(left) = owners.get_mut(&owner) else { return true };
        *left -= 1;
        if *left == 0 {
            owners.remove(&owner);
        }
        false
    }

    /// A plain answer was void.
    pub(super) fn was_void(&self, owner: OrgId) {
        self.owners().insert(owner, SPARED);
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<OrgId, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn after_a_void_answer_the_plain_statement_is_left_out_for_a_while_and_for_that_owner_alone() {
        let (odd, other) = (OrgId(Uuid::from_u128(1)), OrgId(Uuid::from_u128(2)));
        let void_lately = VoidLately::default();
        assert!(void_lately.is_plain_worth_it(odd));
        void_lately.was_void(odd);
        let spared = (0..100).take_while(|_| !void_lately.is_plain_worth_it(odd)).count();
        assert_eq!(spared, SPARED as usize);
        assert!(void_lately.is_plain_worth_it(odd) && void_lately.is_plain_worth_it(other));
    }
}
