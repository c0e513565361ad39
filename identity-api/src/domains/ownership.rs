//! Who owns a host from when to when, and which of its history an owner sees.
//!
//! - A host has at most one verified owner; a second one is refused while it has one (409), unless their proof weighs more
//!   (`contest`).
//! - Who owns it first sees all of its history. Whoever comes after another owner, of the host or of a host above it,
//!   sees what happens from their verification on (docs/api/reads.md#history-after-a-domain-changes-hands; R7).
//! - Who comes back to what they released sees again what they saw, when nobody else had it meanwhile.
//! - Who owns the host above keeps seeing what they saw when they verify the host beneath it too.
//! - What others owned beneath a host is cut out of its history by `service_kit::directory`.
//!
//! Must leave the last word to the database (the constraint `domains_one_owner_at_a_time`).

use super::Row;
use crate::access::prelude::*;
use schemas::identity::VerificationMethod;
use schemas::ids::DomainId;
use schemas::site::Site;

/// All changes of ownership go one after the other, so that each sees the one before it: they are seldom, and what a
/// host's history looks like depends on the hosts above it too.
const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtext('domains.ownership'))";

#[derive(Clone, Copy, Debug)]
pub(crate) enum Basis {
    /// A proof, which is looked at again then.
    Proof(VerificationMethod, DateTime<Utc>),
    /// Somebody's word, by the name of the method.
    Word(&'static str),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum TakeError {
    #[error("another organisation owns the domain")]
    Held,
    #[error(transparent)]
    Store(#[from] sqlx::Error),
}

const HELD: &str = "Another organization has verified this domain. Ask it to release the domain. A TXT record takes over only \
    a domain that a partner or operator verified, or whose own record is missing.";

impl From<TakeError> for ApiError {
    fn from(error: TakeError) -> Self {
        match error {
            TakeError::Held => Self::new(Code::Conflict, HELD),
            TakeError::Store(error) => error.into(),
        }
    }
}

/// Until the transaction ends, nobody else changes who owns what.
pub(super) async fn hold(transaction: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query(LOCK).execute(transaction).await.map(drop)
}

/// By which registration another organisation owns this very host now, if one does. It stays as it is until the transaction ends:
/// a look at a proof changes it without [`hold`].
pub(super) async fn holder(connection: &mut PgConnection, org: OrgId, site: &Site) -> Result<Option<Row>, sqlx::Error> {
    sqlx::query_as(
        "SELECT * FROM domains WHERE site = $1 AND organization_id <> $2 AND verified_at IS NOT NULL AND released_at IS NULL \
         FOR NO KEY UPDATE",
    )
    .bind(site.as_str())
    .bind(org.0)
    .fetch_optional(connection)
    .await
}

/// Makes a registration the owner of its host, on this basis: whoever vouches for a domain does it with this too.
/// `None` when it is gone, or was its owner already.
pub(crate) async fn take(
    transaction: &mut PgConnection,
    org: OrgId,
    id: DomainId,
    site: &Site,
    basis: Basis,
    now: DateTime<Utc>,
) -> Result<Option<Row>, TakeError> {
    sqlx::query(LOCK).execute(&mut *transaction).await?;
    // A clock that is behind the one that released the host must not make two owners of a moment.
    let released: Option<DateTime<Utc>> =
        sqlx::query_scalar("SELECT max(released_at) FROM domains WHERE site = $1 AND verified_at IS NOT NULL")
            .bind(site.as_str())
            .fetch_one(&mut *transaction)
            .await?;
    let verified_at = released.map_or(now, |released| released.max(now));
    let visible_from = visible_from(transaction, org, site, verified_at).await?;
    let (method, due_at) = match basis {
        Basis::Proof(method, due_at) => (method.as_str(), Some(due_at)),
        Basis::Word(method) => (method, None),
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
        sqlx::Error::Database(refusal) if refusal.constraint() == Some("domains_one_owner_at_a_time") => TakeError::Held,
        error => error.into(),
    })
}

/// Since when the events of a host that is being verified are this organisation's; `None` since ever.
async fn visible_from(
    transaction: &mut PgConnection,
    org: OrgId,
    site: &Site,
    verified_at: DateTime<Utc>,
) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    let line: Vec<String> = site.candidates().iter().map(|site| site.as_str().to_owned()).collect();
    // The nearest host above that somebody owns: when it is ours, we see this one's events already.
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
    // Until when others owned it or a host above it: for ever counts as until now.
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

/// Ends a registration, verified or not. `None` when there is none.
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
