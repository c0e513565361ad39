//! Nonces of valid signatures, which every key may use once. They are stored in PostgreSQL, so the check is exact across gateways.

use super::Nonce;
use chrono::{DateTime, TimeDelta};
use service_kit::auth::Tenant;
use service_kit::clock::Clock;
use service_kit::hourly_deletion;
use service_kit::http::ApiError;
use service_kit::optional_postgres::OptionalPostgres;
use service_kit::slots::{Pool, Slots};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::task::AbortOnDropHandle;

/// Returns the request that used the nonce first: this one, unless an earlier one did.
const USE: &str = "INSERT INTO used_nonces (nonce_hash, request, expires_at) VALUES ($1, $2, $3) \
     ON CONFLICT (nonce_hash) DO UPDATE SET request = used_nonces.request RETURNING request = $2";
const DELETE: &str = "DELETE FROM used_nonces WHERE nonce_hash = ANY(array( \
     SELECT nonce_hash FROM used_nonces WHERE expires_at < $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED))";
/// How long a nonce is remembered after its signature has expired, because the gateways' clocks differ.
const KEEP: TimeDelta = TimeDelta::minutes(10);
/// Number of nonces stored at once, shared by tenants.
const AT_ONCE: usize = 8;
/// Maximum time to wait for a slot.
const PATIENCE: Duration = Duration::from_millis(500);

pub(super) struct UsedNonces {
    database: OptionalPostgres,
    slots: Arc<Slots<Tenant>>,
    _expiry: AbortOnDropHandle<()>,
}

impl UsedNonces {
    pub(super) fn start(database: OptionalPostgres, clock: Clock) -> Self {
        let pool = database.pool().clone();
        let expiry = hourly_deletion::hourly("used nonces", move || {
            let (pool, before) = (pool.clone(), clock.now() - KEEP);
            async move { hourly_deletion::delete_in_batches(&pool, DELETE, before).await }
        });
        Self { database, slots: Slots::new(Pool::Nonces, AT_ONCE), _expiry: expiry }
    }

    /// Uses a nonce for a request. Returns whether no other request used it before, or `None` if PostgreSQL is unavailable or the tenant
    /// stores as many nonces as it may.
    pub(super) async fn is_first_use(&self, tenant: Tenant, nonce: &Nonce, request: &[u8; 32]) -> Result<Option<bool>, ApiError> {
        let Ok(_slot) = self.slots.wait(tenant, PATIENCE).await else { return Ok(None) };
        let expires = DateTime::from_timestamp(nonce.expires, 0);
        let using = sqlx::query_scalar(USE).bind(nonce.hash.as_slice()).bind(request.as_slice()).bind(expires);
        self.database.query(using.fetch_one(self.database.pool())).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::ids::OrgId;
    use sqlx::PgPool;
    use uuid::Uuid;

    #[tokio::test]
    async fn a_tenant_uses_only_its_share_of_the_connections() {
        let [busy, other] = [1, 2].map(|number| Tenant::Organization(OrgId(Uuid::from_u128(number))));
        let database = OptionalPostgres::new(PgPool::connect_lazy("postgres://127.0.0.1:9/none").unwrap(), Clock::System);
        let nonces = UsedNonces::start(database, Clock::System);
        let _taken: Vec<_> = (0..AT_ONCE).map_while(|_| nonces.slots.take(busy, usize::MAX).ok()).collect();
        let nonce = Nonce { hash: [0; 32], expires: 0 };
        for (tenant, is_sent) in [(busy, false), (other, true)] {
            assert_eq!(nonces.is_first_use(tenant, &nonce, &[0; 32]).await.unwrap(), None);
            assert_eq!(nonces.database.is_unavailable(), is_sent, "{tenant:?}");
        }
    }
}
