//! Accounts of analysts in ClickHouse: make, list, revoke (docs/operating/analytics.md#accounts).
//!
//! Must show a password only to who makes the account, and must not speak to ClickHouse: `telemetry query-api analysts` keeps
//! that in step with these rows.

use crate::access::audit::{self, Author, Change};
use crate::access::organization;
use crate::request::bodies::rule_broken;
use chrono::{DateTime, Utc};
use schemas::identity::{AnalystAccount, CreatedAnalystAccount, OrgType, Scope};
use schemas::ids::{AnalystAccountId, OrgId};
use schemas::problem::Code;
use schemas::secrets::PlainAnalystPassword;
use serde_json::json;
use service_kit::http::ApiError;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

/// Accounts of one organisation that may be in use at a time: each is four views that are kept in step.
const MAX_ACCOUNTS: i64 = 10;

#[derive(sqlx::FromRow)]
struct Row {
    id: Uuid,
    organization_id: Uuid,
    grantor_org_id: Option<Uuid>,
    login: String,
    name: String,
    created_at: DateTime<Utc>,
    revoked_at: Option<DateTime<Utc>>,
}

impl From<Row> for AnalystAccount {
    fn from(row: Row) -> Self {
        Self {
            id: AnalystAccountId(row.id),
            organization_id: OrgId(row.organization_id),
            delegated_from: row.grantor_org_id.map(OrgId),
            login: row.login,
            name: row.name,
            created_at: row.created_at,
            revoked_at: row.revoked_at,
        }
    }
}

/// What an account is to read: what its organisation owns, or what another lets it.
pub(crate) struct NewAccount {
    pub(crate) organization: OrgId,
    pub(crate) delegated_from: Option<OrgId>,
    pub(crate) name: String,
}

/// Makes an account and its password.
pub(crate) async fn create(
    transaction: &mut PgConnection,
    author: Author,
    new: NewAccount,
    now: DateTime<Utc>,
) -> Result<CreatedAnalystAccount, ApiError> {
    organization::lock(transaction, new.organization).await?;
    require_readable(transaction, &new).await?;
    require_room(transaction, new.organization).await?;
    let password = PlainAnalystPassword::mint();
    let row: Row = sqlx::query_as(
        "INSERT INTO analyst_accounts (id, organization_id, grantor_org_id, login, name, password_hash, created_at) \
         SELECT id, $1, $2, 'telemetry_analyst_' || right(id::text, 12), $3, $4, $5 FROM (SELECT uuidv7() AS id) AS made \
         RETURNING id, organization_id, grantor_org_id, login, name, created_at, revoked_at",
    )
    .bind(new.organization.0)
    .bind(new.delegated_from.map(|grantor| grantor.0))
    .bind(new.name)
    .bind(password.hash().as_bytes().as_slice())
    .bind(now)
    .fetch_one(&mut *transaction)
    .await?;
    let account = AnalystAccount::from(row);
    let detail = json!({"name": account.name, "login": account.login, "delegated_from": account.delegated_from});
    tell(transaction, author, &account, "analyst_account.created", now, detail).await?;
    Ok(CreatedAnalystAccount { account, password: password.reveal().to_owned() })
}

/// By the rules of reads: an owner reads what is its own, everybody else what a delegation lets them.
async fn require_readable(transaction: &mut PgConnection, new: &NewAccount) -> Result<(), ApiError> {
    let own = organization::type_of(&mut *transaction, new.organization).await?;
    match (own, new.delegated_from) {
        (None, _) => Err(organization::no_organization()),
        (Some(OrgType::ContentOwner), None) => Ok(()),
        (Some(OrgType::ContentOwner), Some(_)) => Err(rule_broken(
            "delegated_from",
            "delegated_from is only for platforms and agents; a content owner reads its own data",
        )),
        (Some(_), None) => Err(rule_broken(
            "delegated_from",
            "delegated_from must name a content owner, because the organization has no domains",
        )),
        (Some(_), Some(grantor)) => require_delegation(transaction, grantor, new.organization).await,
    }
}

async fn require_delegation(transaction: &mut PgConnection, grantor: OrgId, grantee: OrgId) -> Result<(), ApiError> {
    let is_active: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM delegations WHERE grantor_org_id = $1 AND grantee_org_id = $2 AND revoked_at IS NULL \
         AND $3 = ANY(scopes))",
    )
    .bind(grantor.0)
    .bind(grantee.0)
    .bind(Scope::TelemetryRead.as_str())
    .fetch_one(transaction)
    .await?;
    let refusal =
        || ApiError::new(Code::Forbidden, "The organization in delegated_from doesn't share its data with this organization.");
    is_active.then_some(()).ok_or_else(refusal)
}

async fn require_room(transaction: &mut PgConnection, organization: OrgId) -> Result<(), ApiError> {
    let used: i64 = sqlx::query_scalar("SELECT count(*) FROM analyst_accounts WHERE organization_id = $1 AND revoked_at IS NULL")
        .bind(organization.0)
        .fetch_one(transaction)
        .await?;
    let refusal = || {
        ApiError::new(
            Code::Conflict,
            format!("The organization has reached the limit of {MAX_ACCOUNTS} analyst accounts. Revoke one first."),
        )
    };
    (used < MAX_ACCOUNTS).then_some(()).ok_or_else(refusal)
}

/// All accounts, or those of one organisation, the oldest first.
pub(crate) async fn list(store: impl PgExecutor<'_>, of: Option<OrgId>) -> Result<Vec<AnalystAccount>, ApiError> {
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT id, organization_id, grantor_org_id, login, name, created_at, revoked_at FROM analyst_accounts \
         WHERE $1::uuid IS NULL OR organization_id = $1 ORDER BY created_at, id",
    )
    .bind(of.map(|org| org.0))
    .fetch_all(store)
    .await?;
    Ok(rows.into_iter().map(AnalystAccount::from).collect())
}

/// Ends an account; one that has ended stays as it is.
pub(crate) async fn revoke(
    transaction: &mut PgConnection,
    author: Author,
    id: AnalystAccountId,
    now: DateTime<Utc>,
) -> Result<AnalystAccount, ApiError> {
    let revoked = sqlx::query("UPDATE analyst_accounts SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL")
        .bind(id.0)
        .bind(now)
        .execute(&mut *transaction)
        .await?;
    let found: Option<Row> = sqlx::query_as(
        "SELECT id, organization_id, grantor_org_id, login, name, created_at, revoked_at FROM analyst_accounts WHERE id = $1",
    )
    .bind(id.0)
    .fetch_optional(&mut *transaction)
    .await?;
    let found = found.ok_or_else(|| ApiError::new(Code::NotFound, "Analyst account not found."))?;
    let account = AnalystAccount::from(found);
    if revoked.rows_affected() == 1 {
        tell(transaction, author, &account, "analyst_account.revoked", now, json!({})).await?;
    }
    Ok(account)
}

async fn tell(
    transaction: &mut PgConnection,
    author: Author,
    account: &AnalystAccount,
    action: &'static str,
    now: DateTime<Utc>,
    detail: serde_json::Value,
) -> Result<(), sqlx::Error> {
    let change = Change { action, object_kind: "analyst_account", object_id: account.id.0, detail };
    audit::record_by(transaction, author, Some(account.organization_id), now, change).await
}
