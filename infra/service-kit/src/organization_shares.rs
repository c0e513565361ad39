//! A bounded number of places that organisations share: none has more of them than are left free for everybody else.
//!
//! One that takes all it can leaves half of them, the next one a quarter, and so on (docs/api/http.md#shares).
//!
//! Must not wait: who gets no place is told so at once, and why.

use schemas::ids::OrgId;
use std::collections::HashMap;

/// The places of one kind of work.
#[derive(Debug)]
pub struct OrganizationShares {
    places: usize,
    taken: usize,
    of_organization: HashMap<OrgId, usize>,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// The organisation has its share.
    OfItsOwn,
    /// All are taken.
    AtAll,
}

impl OrganizationShares {
    /// So many places.
    pub fn new(places: usize) -> Self {
        Self { places, taken: 0, of_organization: HashMap::new() }
    }

    /// Takes a place for an organisation that may have `most` at a time, whatever is free.
    pub fn take(&mut self, organization: OrgId, most: usize) -> Result<(), NoPlace> {
        let own = self.of_organization.get(&organization).copied().unwrap_or(0);
        let free = self.places.saturating_sub(self.taken);
        if own >= most || (own >= free && free > 0) {
            return Err(NoPlace::OfItsOwn);
        }
        if free == 0 {
            return Err(NoPlace::AtAll);
        }
        self.taken += 1;
        self.of_organization.insert(organization, own + 1);
        Ok(())
    }

    /// Gives one back that was taken. Who has none any more is not remembered.
    pub fn give_back(&mut self, organization: OrgId) {
        self.taken -= 1;
        match self.of_organization.get_mut(&organization) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(self.of_organization.remove(&organization)),
        }
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// How many organisations have one.
    pub fn organizations(&self) -> usize {
        self.of_organization.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn org(number: u128) -> OrgId {
        OrgId(Uuid::from_u128(number))
    }

    /// How many an organisation gets that takes all it can.
    fn take_all(shares: &mut OrganizationShares, number: u128) -> usize {
        (0..1_000).take_while(|_| shares.take(org(number), usize::MAX).is_ok()).count()
    }

    #[test]
    fn a15_each_organisation_that_takes_all_it_can_leaves_as_much_as_it_has_until_none_is_left() {
        let mut shares = OrganizationShares::new(96);
        let taken: Vec<_> = (1..=8).map(|number| take_all(&mut shares, number)).collect();
        assert_eq!(taken, [48, 24, 12, 6, 3, 2, 1, 0]);
        assert_eq!((shares.taken(), shares.organizations()), (96, 7));
        assert_eq!(shares.take(org(8), usize::MAX), Err(NoPlace::AtAll), "to who has none");
        (0..24).for_each(|_| shares.give_back(org(2)));
        assert_eq!(shares.take(org(1), usize::MAX), Err(NoPlace::OfItsOwn));
        assert_eq!(take_all(&mut shares, 8), 12, "what is given back is shared again");
    }

    #[test]
    fn an_organisation_has_no_more_places_than_it_may_have_at_a_time() {
        let mut shares = OrganizationShares::new(96);
        assert_eq!((0..10).filter(|_| shares.take(org(1), 3).is_ok()).count(), 3);
        assert_eq!(shares.take(org(1), 3), Err(NoPlace::OfItsOwn));
        assert_eq!(shares.take(org(2), 3), Ok(()));
        (0..3).for_each(|_| shares.give_back(org(1)));
        shares.give_back(org(2));
        assert_eq!((shares.taken(), shares.organizations()), (0, 0), "nothing is remembered of who has none");
    }

    #[test]
    fn where_there_are_no_places_nobody_has_one() {
        assert_eq!(OrganizationShares::new(0).take(org(1), usize::MAX), Err(NoPlace::AtAll));
    }
}
