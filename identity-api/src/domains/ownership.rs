//! Periods in which organizations own a host, and which part of its history an owner sees.
//!
//! - A host has at most one verified owner. Verifying it again returns 409 while it has one, unless the new verification takes precedence
//!   (`takeover`).
//! - The first owner sees the full history. A later owner of the host, or of a host below one with an earlier owner, sees events
//!   from their verification on (docs/api/reads.md#history-after-a-domain-changes-hands; R7).
//! - An owner that returns sees its earlier history again, if there was no other owner in between.
//! - The owner of the parent host keeps its view when it verifies the subdomain too.
//! - `service_kit::identity_tables` removes the periods in which others owned a subdomain.
//!
//! The database enforces this (constraint `domains_one_owner_at_a_time`).

use super::Row;
use crate::access::prelude::*;
use schemas::identity::VerificationMethod;
use schemas::ids::DomainId;
use schemas::site::Site;

/// Serializes all ownership changes. They are rare, and a host's history also depends on its parent hosts.
const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtext('domains.ownership'))";

#[derive(Clone, Copy, Debug)]
pub(crate) enum Basis {
    /// A verification, and the time of its next check.
    Token(VerificationMethod, DateTime<Utc>),
    /// An attestation, with its method.
    Attestation(&'static str),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum OwnershipError {
    #[error("another organization owns the domain")]
    OwnedByAnother,
    #[error(transparent)]
    Store(#[from] sqlx::Error),
}

const OWNED_BY_ANOTHER: &str = "Another organization has verified this domain. Ask it to release the domain. A TXT record takes over \
    a domain only if a partner or operator attested it, or if its owner's record is missing.";

impl From<OwnershipError> for ApiError {
    fn from(error: OwnershipError) -> Self {
        match error {
            OwnershipError::OwnedByAnother => Self::new(Code::Conflict, OWNED_BY_ANOTHER),
            OwnershipError::Store(error) => error.into(),
        }
    }
}

/// Locks the ownership of all hosts until the transaction ends.
pub(super) async fn lock(transaction: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query(LOCK).execute(transaction).await.map(drop)
}

/// Returns the registration by which another organization owns this exact host. Locks the row, because `recheck` changes it without
/// [`lock`].
pub(super) async fn current_owner(connection: &mut PgConnection, org: OrgId, site: &Site) -> Result<Option<Row>, sqlx::Error> {
    sqlx::query_as(
        "SELECT * FROM domains WHERE site = $1 AND organization_id <> $2 AND verified_at IS NOT NULL AND released_at IS NULL \
         FOR NO KEY UPDATE",
    )
    .bind(site.as_str())
    .bind(org.0)
    .fetch_optional(connection)
    .await
}

/// Makes a registration the owner of its host, for verified and attested domains alike. Returns `None` if it no longer exists or
/// already owned the host.
pub(crate) async fn assign(
    transaction: &mut PgConnection,
    org: OrgId,
    id: DomainId,
    site: &Site,
    basis: Basis,
    now: DateTime<Utc>,
) -> Result<Option<Row>, OwnershipError> {
    sqlx::query(LOCK).execute(&mut *transaction).await?;
    // If this clock is behind the clock that released the host, use the later time, so that periods don't overlap.
    let released: Option<DateTime<Utc>> =
        sqlx::query_scalar("SELECT max(released_at) FROM domains WHERE site = $1 AND verified_at IS NOT NULL")
            .bind(site.as_str())
            .fetch_one(&mut *transaction)
            .await?;
    let verified_at = released.map_or(now, |released| released.max(now));
    let visible_from = visible_from(transaction, org, site, verified_at).await?;
    let (method, due_at) = match basis {
        Basis::Token(method, due_at) => (method.as_str(), Some(due_at)),
        Basis::Attestation(method) => (method, None),
    };
    let taken = sqlx::query_as(
        "UPDATE domains SET verified_at = $3, visible_from = $4, verification_method = $5, \
             proof_due_at = $6, proved_at = CASE WHEN $6::timestamptz IS NOT NULL THEN $3 END \
         WHERE id = $1 AND organization_id = $2 AND verified_at IS NULL AND released_at IS NULL RETURNING *",
    )
    .bind(id.0)
    .bind(org.0)
    .bind(verified_at)
    .bind(visible_from)
    .bind(method)
    .bind(due_at)
    .fetch_optional(transaction)
    .await;
    taken.map_err(|error| match error {
        sqlx::Error::Database(refusal) if refusal.constraint() == Some("domains_one_owner_at_a_time") => {
            OwnershipError::OwnedByAnother
        }
        error => error.into(),
    })
}

/// Returns the time from which the organization sees events of the host it is verifying; `None` means always.
async fn visible_from(
    transaction: &mut PgConnection,
    org: OrgId,
    site: &Site,
    verified_at: DateTime<Utc>,
) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    let line: Vec<String> = site.candidates().iter().map(|site| site.as_str().to_owned()).collect();
    // If the organization owns the nearest verified parent host, it already sees these events.
    let above: Option<(String, bool, Option<DateTime<Utc>>)> = sqlx::query_as(
        "SELECT site, organization_id = $2, visible_from FROM domains \
         WHERE site = ANY($1) AND verified_at IS NOT NULL AND released_at IS NULL ORDER BY length(site) DESC LIMIT 1",
    )
    .bind(&line)
    .bind(org.0)
    .fetch_optional(&mut *transaction)
    .await?;
    if let Some((above, true, visible_from)) = above {
        let left: Option<DateTime<Utc>> = sqlx::query_scalar(
            "SELECT max(released_at) FROM domains WHERE site = ANY($1) AND length(site) > length($3) \
             AND organization_id <> $2 AND verified_at IS NOT NULL",
        )
        .bind(&line)
        .bind(org.0)
        .bind(above)
        .fetch_one(transaction)
        .await?;
        return Ok(visible_from.max(left));
    }
    // The time when the last other owner of the host or a parent left, or the current time if it hasn't left.
    let others_until: Option<DateTime<Utc>> = sqlx::query_scalar(
        "SELECT max(coalesce(released_at, $3)) FROM domains WHERE site = ANY($1) AND organization_id <> $2 AND verified_at IS NOT NULL",
    )
    .bind(&line)
    .bind(org.0)
    .bind(verified_at)
    .fetch_one(&mut *transaction)
    .await?;
    let Some(others_until) = others_until else { return Ok(None) };
    let before: Option<(Option<DateTime<Utc>>, DateTime<Utc>)> = sqlx::query_as(
        "SELECT visible_from, released_at FROM domains WHERE site = $1 AND organization_id = $2 \
         AND verified_at IS NOT NULL AND released_at IS NOT NULL ORDER BY released_at DESC LIMIT 1",
    )
    .bind(site.as_str())
    .bind(org.0)
    .fetch_optional(transaction)
    .await?;
    Ok(before.filter(|(_, released)| others_until <= *released).map_or(Some(verified_at), |(visible_from, _)| visible_from))
}

/// Ends a registration, verified or not. Returns `None` if it is missing.
pub(crate) async fn release(
    transaction: &mut PgConnection,
    org: OrgId,
    id: DomainId,
    now: DateTime<Utc>,
) -> Result<Option<Row>, sqlx::Error> {
    sqlx::query(LOCK).execute(&mut *transaction).await?;
    sqlx::query_as(
        "UPDATE domains SET released_at = greatest($3, verified_at) \
         WHERE id = $1 AND organization_id = $2 AND released_at IS NULL RETURNING *",
    )
    .bind(id.0)
    .bind(org.0)
    .bind(now)
    .fetch_optional(transaction)
    .await
}
