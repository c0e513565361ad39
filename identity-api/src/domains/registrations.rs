//! Database operations on domains: register, verify, attest, delete.

use super::ownership::Basis;
use super::{Row, not_found, ownership};
use crate::access::prelude::*;
use crate::request::bodies::rule_broken;
use schemas::identity::{Domain, OrgType};
use schemas::ids::DomainId;
use schemas::site::{Site, SiteError};
use std::collections::HashMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attester {
    Partner,
    Operator,
}

impl Attester {
    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Partner => "attested",
            Self::Operator => "operator",
        }
    }
}

pub(crate) fn owned_by_another() -> ApiError {
    ApiError::new(Code::Conflict, "Another organization has verified this domain.")
}

/// Registers a content owner's domain, unverified.
pub(crate) async fn register(
    transaction: &mut PgConnection,
    author: Author,
    org: OrgId,
    site: &Site,
    now: DateTime<Utc>,
) -> Result<Domain, ApiError> {
    if organization_rows::type_of(&mut *transaction, org).await? != Some(OrgType::ContentOwner) {
        return Err(rule_broken("domain", "only content owners can have domains"));
    }
    let registered = insert(transaction, author, org, site, now).await?;
    registered.ok_or_else(|| ApiError::new(Code::Conflict, "The organization has already added this domain."))
}

/// Returns the new registration, or `None` if the organization has already registered the domain.
pub(super) async fn insert(
    transaction: &mut PgConnection,
    author: Author,
    org: OrgId,
    site: &Site,
    now: DateTime<Utc>,
) -> Result<Option<Domain>, sqlx::Error> {
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
    let Some(row) = row else { return Ok(None) };
    let detail = json!({"domain": row.domain});
    let change = Change { action: "domain.registered", object_kind: "domain", object_id: row.id, detail };
    audit::record_by(transaction, author, Some(org), now, change).await?;
    Ok(Some(row.into()))
}

/// Marks a registered domain as verified by attestation. An already verified domain stays unchanged. A partner can't take a subdomain of
/// another organization's verified domain; an operator can, and so can whoever controls the DNS name.
pub(crate) async fn attest(
    transaction: &mut PgConnection,
    author: Author,
    id: DomainId,
    voucher: Attester,
    now: DateTime<Utc>,
) -> Result<Domain, ApiError> {
    ownership::lock(transaction).await?;
    let row = registered(transaction, id).await?;
    if row.verified_at.is_some() {
        return Ok(row.into());
    }
    let (org, site) = (OrgId(row.organization_id), Site::from_domain(&row.domain).map_err(unreadable)?);
    if voucher == Attester::Partner && is_owned_by_another(transaction, org, &site).await? {
        return Err(owned_by_another());
    }
    let taken = ownership::assign(transaction, org, id, &site, Basis::Attestation(voucher.method()), now).await?;
    let row = taken.ok_or_else(not_found)?;
    let detail = json!({"domain": row.domain, "method": voucher.method()});
    let change = Change { action: "domain.verified", object_kind: "domain", object_id: row.id, detail };
    audit::record_by(transaction, author, Some(org), now, change).await?;
    Ok(row.into())
}

/// Marks a domain as verified by an operator, and registers it if necessary. An already verified domain stays unchanged. Fails if another
/// organization owns the host.
pub async fn ensure_verified(pool: &PgPool, org: OrgId, site: &Site, now: DateTime<Utc>) -> anyhow::Result<()> {
    ensure(pool, org, site, now).await.map_err(|refusal| anyhow::anyhow!(refusal.one_line()))
}

async fn ensure(pool: &PgPool, org: OrgId, site: &Site, now: DateTime<Utc>) -> Result<(), ApiError> {
    let mut transaction = pool.begin().await?;
    insert(&mut transaction, Author::System, org, site, now).await?;
    let id: Uuid = sqlx::query_scalar("SELECT id FROM domains WHERE organization_id = $1 AND site = $2 AND released_at IS NULL")
        .bind(org.0)
        .bind(site.as_str())
        .fetch_one(&mut *transaction)
        .await?;
    attest(&mut transaction, Author::System, DomainId(id), Attester::Operator, now).await?;
    transaction.commit().await?;
    Ok(())
}

fn unreadable(why: SiteError) -> ApiError {
    ApiError::internal(anyhow::anyhow!("a stored domain is invalid: {why}"))
}

pub(crate) async fn release(
    transaction: &mut PgConnection,
    author: Author,
    id: DomainId,
    now: DateTime<Utc>,
) -> Result<Domain, ApiError> {
    let org = OrgId(registered(transaction, id).await?.organization_id);
    let row = end(transaction, author, org, id, now).await?.ok_or_else(not_found)?;
    Ok(Domain { verified: false, ..row.into() })
}

/// Ends a registration of this organization. Returns `None` if it is missing.
pub(super) async fn end(
    transaction: &mut PgConnection,
    author: Author,
    org: OrgId,
    id: DomainId,
    now: DateTime<Utc>,
) -> Result<Option<Row>, sqlx::Error> {
    let Some(row) = ownership::release(transaction, org, id, now).await? else { return Ok(None) };
    let detail = json!({"domain": row.domain, "was_verified": row.verified_at.is_some()});
    let change = Change { action: "domain.released", object_kind: "domain", object_id: row.id, detail };
    audit::record_by(transaction, author, Some(org), now, change).await?;
    Ok(Some(row))
}

/// Returns whether an organization other than `org` has verified the host or one of its parents.
pub(crate) async fn is_owned_by_another(connection: &mut PgConnection, org: OrgId, site: &Site) -> Result<bool, sqlx::Error> {
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

#[derive(sqlx::FromRow)]
struct CountedRow {
    #[sqlx(flatten)]
    row: Row,
    domain_count: i64,
}

/// One organization's registered domains, possibly truncated, and their total.
#[derive(Default)]
pub(crate) struct Registered {
    pub(crate) domains: Vec<Domain>,
    pub(crate) count: i64,
}

/// Returns registered domains by organization: all, or at most `most` of each. Each organization's oldest one is always included; verified
/// ones come next. Organizations without domains are missing.
pub(crate) async fn by_organization(
    connection: &mut PgConnection,
    orgs: &[Uuid],
    most: Option<i64>,
) -> Result<HashMap<OrgId, Registered>, sqlx::Error> {
    let rows: Vec<CountedRow> =
        sqlx::query_as(include_str!("of_organizations.sql")).bind(orgs).bind(most).fetch_all(connection).await?;
    let mut registered: HashMap<OrgId, Registered> = HashMap::new();
    for CountedRow { row, domain_count } in rows {
        let of_organization = registered.entry(OrgId(row.organization_id)).or_default();
        of_organization.domains.push(row.into());
        of_organization.count = domain_count;
    }
    Ok(registered)
}

async fn registered(connection: &mut PgConnection, id: DomainId) -> Result<Row, ApiError> {
    let row: Option<Row> = sqlx::query_as("SELECT * FROM domains WHERE id = $1 AND released_at IS NULL")
        .bind(id.0)
        .fetch_optional(connection)
        .await?;
    row.ok_or_else(not_found)
}
