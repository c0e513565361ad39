//! Domains of organisations.
//!
//! Must leave it to the database that a host has one verified owner at a time.

use chrono::{DateTime, Utc};
use schemas::ids::OrgId;
use schemas::site::Site;
use sqlx::PgPool;

/// Records a domain as verified by an operator; a domain that is verified already stays as it is. Fails when
/// another organisation owns the host.
pub async fn ensure_verified(pool: &PgPool, org: OrgId, site: &Site, now: DateTime<Utc>) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO domains (organization_id, domain, site, verification_method, verified_at) VALUES ($1, $2, $3, 'operator', $4) \
         ON CONFLICT (organization_id, site) WHERE released_at IS NULL \
         DO UPDATE SET verified_at = coalesce(domains.verified_at, excluded.verified_at)",
    )
    .bind(org.0)
    .bind(site.domain())
    .bind(site.as_str())
    .bind(now)
    .execute(pool)
    .await?;
    Ok(())
}
