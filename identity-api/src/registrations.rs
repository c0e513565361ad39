//! Domains in the rows of their organisation: registered, recorded as verified by who may say so, released.
//!
//! Must not verify by looking at the domain: that is `domains`. Must leave it to the database that a host has one
//! verified owner at a time.

use crate::audit::{self, Author, Change};
use chrono::{DateTime, Utc};
use schemas::identity::RegisteredDomain;
use schemas::ids::{DomainId, OrgId};
use schemas::problem::Code;
use schemas::site::Site;
use serde_json::json;
use service_kit::http::ApiError;
use sqlx::PgConnection;
use uuid::Uuid;

/// The constraint that gives a host to one organisation at a time.
const ONE_OWNER: &str = "domains_one_owner_at_a_time";

#[derive(sqlx::FromRow)]
struct Row {
    id: Uuid,
    organization_id: Uuid,
    domain: String,
    site: String,
    verification_method: Option<String>,
    created_at: DateTime<Utc>,
    verified_at: Option<DateTime<Utc>>,
    released_at: Option<DateTime<Utc>>,
}

impl From<Row> for RegisteredDomain {
    fn from(row: Row) -> Self {
        Self {
            id: DomainId(row.id),
            organization_id: OrgId(row.organization_id),
            domain: row.domain,
            verified: row.verified_at.is_some() && row.released_at.is_none(),
            verification_method: row.verification_method,
            created_at: row.created_at,
            verified_at: row.verified_at,
        }
    }
}

/// On whose word a domain counts as verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Voucher {
    /// A trusted partner's, for an owner it provisioned.
    Partner,
    /// An operator's.
    Operator,
}

impl Voucher {
    fn method(self) -> &'static str {
        match self {
            Self::Partner => "attested",
            Self::Operator => "operator",
        }
    }
}

fn not_found() -> ApiError {
    ApiError::new(Code::NotFound, "There is no such domain.")
}

pub(crate) fn owned_by_another() -> ApiError {
    ApiError::new(Code::Conflict, "Another organisation has verified this domain.")
}

/// Registers a domain, unverified.
pub(crate) async fn register(
    transaction: &mut PgConnection,
    author: Author,
    org: OrgId,
    site: &Site,
    now: DateTime<Utc>,
) -> Result<RegisteredDomain, ApiError> {
    let row: Option<Row> = sqlx::query_as(
        "INSERT INTO domains (organization_id, domain, site, created_at) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (organization_id, site) WHERE released_at IS NULL DO NOTHING RETURNING *",
    )
    .bind(org.0)
    .bind(site.domain())
    .bind(site.as_str())
    .bind(now)
    .fetch_optional(&mut *transaction)
    .await?;
    let row = row.ok_or_else(|| ApiError::new(Code::Conflict, "The organisation has registered this domain."))?;
    let detail = json!({"domain": row.domain});
    let change = Change { action: "domain.registered", object_kind: "domain", object_id: row.id, detail };
    audit::record_by(transaction, author, Some(org), now, change).await?;
    Ok(row.into())
}

/// Records a registered domain as verified on somebody's word; one that is verified already stays as it is. A partner
/// cannot carve a host out of what somebody else has verified; an operator can, as the holder of the DNS name could.
pub(crate) async fn vouch(
    transaction: &mut PgConnection,
    author: Author,
    id: DomainId,
    voucher: Voucher,
    now: DateTime<Utc>,
) -> Result<RegisteredDomain, ApiError> {
    let row = locked(transaction, id).await?;
    if row.verified_at.is_some() {
        return Ok(row.into());
    }
    if voucher == Voucher::Partner && is_anothers(transaction, OrgId(row.organization_id), &Site::from_stored(&row.site)).await? {
        return Err(owned_by_another());
    }
    // Who comes after an earlier owner sees only what is reported from now on.
    let verified = sqlx::query_as::<_, Row>(
        "UPDATE domains d SET verified_at = $2, verification_method = $3, visible_from = CASE WHEN EXISTS ( \
             SELECT 1 FROM domains e WHERE e.site = d.site AND e.organization_id <> d.organization_id AND e.verified_at IS NOT NULL \
         ) THEN $2 END WHERE d.id = $1 RETURNING d.*",
    )
    .bind(id.0)
    .bind(now)
    .bind(voucher.method())
    .fetch_one(&mut *transaction)
    .await;
    let row = verified.map_err(|error| match error.as_database_error().and_then(|refusal| refusal.constraint()) {
        Some(ONE_OWNER) => owned_by_another(),
        _ => error.into(),
    })?;
    let detail = json!({"domain": row.domain, "method": voucher.method()});
    let change = Change { action: "domain.verified", object_kind: "domain", object_id: row.id, detail };
    audit::record_by(transaction, author, Some(OrgId(row.organization_id)), now, change).await?;
    Ok(row.into())
}

/// Takes a domain from its organisation; what it saw of it, it sees no more.
pub(crate) async fn release(
    transaction: &mut PgConnection,
    author: Author,
    id: DomainId,
    now: DateTime<Utc>,
) -> Result<RegisteredDomain, ApiError> {
    locked(transaction, id).await?;
    // Never before it was verified, or the interval of its ownership would be none.
    let row: Row =
        sqlx::query_as("UPDATE domains SET released_at = greatest($2, verified_at, created_at) WHERE id = $1 RETURNING *")
            .bind(id.0)
            .bind(now)
            .fetch_one(&mut *transaction)
            .await?;
    let detail = json!({"domain": row.domain});
    let change = Change { action: "domain.released", object_kind: "domain", object_id: row.id, detail };
    audit::record_by(transaction, author, Some(OrgId(row.organization_id)), now, change).await?;
    Ok(row.into())
}

/// Whether somebody other than `org` has verified a host or a parent of it.
pub(crate) async fn is_anothers(connection: &mut PgConnection, org: OrgId, site: &Site) -> Result<bool, sqlx::Error> {
    let candidates: Vec<String> = site.candidates().iter().map(|site| site.as_str().to_owned()).collect();
    let owner: Option<Uuid> = sqlx::query_scalar(
        "SELECT organization_id FROM domains WHERE site = ANY($1) AND verified_at IS NOT NULL AND released_at IS NULL \
         ORDER BY length(site) DESC LIMIT 1",
    )
    .bind(candidates)
    .fetch_optional(connection)
    .await?;
    Ok(owner.is_some_and(|owner| owner != org.0))
}

/// Registered domains of organisations, oldest first.
pub(crate) async fn of(connection: &mut PgConnection, orgs: &[Uuid]) -> Result<Vec<RegisteredDomain>, sqlx::Error> {
    let rows: Vec<Row> =
        sqlx::query_as("SELECT * FROM domains WHERE organization_id = ANY($1) AND released_at IS NULL ORDER BY created_at, id")
            .bind(orgs)
            .fetch_all(connection)
            .await?;
    Ok(rows.into_iter().map(RegisteredDomain::from).collect())
}

async fn locked(transaction: &mut PgConnection, id: DomainId) -> Result<Row, ApiError> {
    let row: Option<Row> = sqlx::query_as("SELECT * FROM domains WHERE id = $1 AND released_at IS NULL FOR NO KEY UPDATE")
        .bind(id.0)
        .fetch_optional(transaction)
        .await?;
    row.ok_or_else(not_found)
}
