//! Which Fastly services may send their logs here: what Fastly asks before it sends (docs/api/drains.md#handshakes).
//!
//! Must tell the digest of a service's id and nothing else of it, and must not ask the database for every stranger who asks.

use crate::State;
use axum::extract::State as Shared;
use data_encoding::HEXLOWER;
use service_kit::http::ApiError;
use service_kit::stale_cache::StaleCache;
use sha2::{Digest, Sha256};
use sqlx::PgPool;
use std::sync::Arc;

const FIND: &str = "SELECT DISTINCT fastly_service_id FROM drains WHERE provider = 'fastly' AND deleted_at IS NULL ORDER BY 1";

/// The answer, remembered for a moment.
pub(super) type KnownChallenge = StaleCache<(), String>;

/// Which services those who made drains have named; every one while some have not.
pub(crate) async fn fastly_challenge(Shared(state): Shared<Arc<State>>) -> Result<String, ApiError> {
    let drains = &state.drains;
    Ok(drains.challenge.find(&(), || find(&drains.pool)).await?.unwrap_or_default())
}

async fn find(pool: &PgPool) -> Result<Option<String>, sqlx::Error> {
    let services: Vec<Option<String>> = sqlx::query_scalar(FIND).fetch_all(pool).await?;
    Ok(Some(answer(&services)))
}

/// A digest a line. A service that nobody has named may send too while no drain names one, or one names none: its key says who
/// it is.
fn answer(services: &[Option<String>]) -> String {
    let mut lines = String::new();
    for service in services.iter().flatten() {
        lines.push_str(&HEXLOWER.encode(&Sha256::digest(service)));
        lines.push('\n');
    }
    if lines.is_empty() || services.contains(&None) {
        lines.push_str("*\n");
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_may_send_while_a_drain_names_none() {
        let named = |id: &str| Some(id.to_owned());
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n";
        assert_eq!(answer(&[]), "*\n");
        assert_eq!(answer(&[None]), "*\n");
        assert_eq!(answer(&[named("abc")]), digest);
        assert_eq!(answer(&[named("abc"), None]), format!("{digest}*\n"));
        assert_eq!(answer(&[named("abc"), named("b")]).lines().count(), 2);
    }
}
