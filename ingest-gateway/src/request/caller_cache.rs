//! Caches callers and their hosts, so known keys still work while PostgreSQL is unavailable.

pub(crate) mod refused_reports;

use schemas::ids::OrgId;
use schemas::secrets::SecretHash;
use service_kit::auth::Caller;
use service_kit::clock::Clock;
use service_kit::http::ApiError;
use service_kit::identity_tables::{IdentityTables, OwnedSite};
use service_kit::stale_cache::StaleCache;

/// Stores when keys were last used for reporting. Between two processes, the later use wins.
pub(crate) const NOTE_KEY_USES: &str = "INSERT INTO key_uses_ingest (key_id, last_used_at) \
     SELECT key, now() - make_interval(secs => ago) FROM unnest($1::uuid[], $2::float8[]) AS used (key, ago) \
     ON CONFLICT (key_id) DO UPDATE SET last_used_at = greatest(key_uses_ingest.last_used_at, excluded.last_used_at)";

/// Caller lookups with a cache for keys and one for hosts.
pub(crate) struct CallerCache {
    directory: IdentityTables,
    keys: StaleCache<SecretHash, Caller>,
    sites: StaleCache<OrgId, Vec<OwnedSite>>,
}

impl CallerCache {
    pub(crate) fn new(directory: IdentityTables, clock: &Clock) -> Self {
        Self { directory, keys: StaleCache::new(clock.clone()), sites: StaleCache::new(clock.clone()) }
    }

    pub(crate) fn directory(&self) -> &IdentityTables {
        &self.directory
    }

    pub(crate) async fn find(&self, hash: &SecretHash) -> Result<Option<Caller>, ApiError> {
        self.keys.find(hash, || self.directory.find_key(hash)).await
    }

    pub(crate) async fn owned_sites(&self, org: OrgId) -> Result<Vec<OwnedSite>, ApiError> {
        let ask = || async { self.directory.owned_sites(org).await.map(Some) };
        self.sites.find(&org, ask).await.map(Option::unwrap_or_default)
    }
}
