//! The hosts in the `sites` table.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

/// The hosts, as 128-bit hashes with process secrets, so hosts don't collide and long names don't take more memory.
#[derive(Default)]
pub(super) struct Sites {
    secrets: [RandomState; 2],
    known: HashSet<[u64; 2]>,
}

impl Sites {
    pub(super) fn insert(&mut self, site: &str) {
        self.known.insert(self.hashes(site));
    }

    pub(super) fn contains(&self, site: &str) -> bool {
        self.known.contains(&self.hashes(site))
    }

    fn hashes(&self, site: &str) -> [u64; 2] {
        self.secrets.each_ref().map(|secret| secret.hash_one(site))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_only_inserted_hosts() {
        let mut sites = Sites::default();
        (0..10_000).for_each(|n| sites.insert(&format!("com.example{n}")));
        assert!((0..10_000).all(|n| sites.contains(&format!("com.example{n}"))));
        assert!((10_000..20_000).all(|n| !sites.contains(&format!("com.example{n}"))));
    }
}
