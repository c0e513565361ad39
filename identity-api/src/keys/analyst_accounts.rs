//! Analyst accounts in ClickHouse: create, list, revoke (docs/operating/analytics.md#accounts).
//!
//! Returns a password only in the response that creates the account, and doesn't connect to ClickHouse: `telemetry query-api analysts`
//! synchronizes it with these rows.

use crate::access::permissions::{self, OwnerAction};
use crate::access::prelude::*;
use crate::request::bodies::rule_broken;
use crate::request::email_address::EmailAddress;
use schemas::identity::{AnalystAccount, CreatedAnalystAccount, OrgType, Scope};
use schemas::ids::AnalystAccountId;
use schemas::secrets::PlainAnalystPassword;
use sqlx::Row;
use sqlx::postgres::PgRow;

const MAX_ACCOUNTS: i64 = 10;

fn read(row: &PgRow) -> Result<AnalystAccount, sqlx::Error> {
    Ok(AnalystAccount {
        id: AnalystAccountId(row.try_get("id")?),
        organization_id: OrgId(row.try_get("organization_id")?),
        delegated_from: row.try_get::<Option<_>, _>("grantor_org_id")?.map(OrgId),
        user_id: row.try_get::<Option<_>, _>("user_id")?.map(UserId),
        login: row.try_get("login")?,
        name: row.try_get("name")?,
        created_at: row.try_get("created_at")?,
        revoked_at: row.try_get("revoked_at")?,
    })
}

pub(crate) async fn list_analysts(
    Shared(state): Shared<Arc<State>>,
    IdentityReader(actor): IdentityReader,
    part: BoundedPaging,
) -> Result<ListResponse<AnalystAccount>, ApiError> {
    Ok(part.cut(list(&state.pool, Some(actor.org_id)).await?))
}

/// Handles `DELETE /api/v1/identity/analysts/{id}`: returns 200 with the account, even if it was already revoked.
pub(crate) async fn revoke_analyst(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    Path(id): Path<String>,
) -> Result<Json<AnalystAccount>, ApiError> {
    let mut transaction = state.pool.begin().await?;
    permissions::require_owner(&mut transaction, &actor, OwnerAction::Analysts).await?;
    // Text that isn't an id gets the same response as an unknown id.
    let id: AnalystAccountId = id.parse().map_err(|_| not_found())?;
    let revoked = revoke(&mut transaction, actor.credential.into(), id, Some(actor.org_id), state.now()).await?;
    transaction.commit().await?;
    Ok(Json(revoked))
}

fn not_found() -> ApiError {
    ApiError::new(Code::NotFound, "Analyst account not found.")
}

/// A new account: what it reads, and who uses it.
pub(crate) struct NewAccount {
    pub(crate) organization: OrgId,
    /// The owner that shares its data with the organization. If `None`, the account reads the organization's own data.
    pub(crate) delegated_from: Option<OrgId>,
    /// A member of the organization. Removing the member revokes the account.
    pub(crate) member: Option<EmailAddress>,
    pub(crate) name: String,
}

pub(crate) async fn create(
    transaction: &mut PgConnection,
    author: Author,
    new: NewAccount,
    now: DateTime<Utc>,
) -> Result<CreatedAnalystAccount, ApiError> {
    require_analyst_sync(transaction).await?;
    organization_rows::lock(transaction, new.organization).await?;
    require_readable(transaction, &new).await?;
    let user = member_of(transaction, &new).await?;
    let count = "SELECT count(*) FROM analyst_accounts WHERE organization_id = $1 AND revoked_at IS NULL";
    let refusal = format!("The organization has reached the limit of {MAX_ACCOUNTS} analyst accounts. Revoke one first.");
    organization_rows::require_room(transaction, count, (new.organization.0, MAX_ACCOUNTS), refusal).await?;
    let password = PlainAnalystPassword::generate();
    let (kind, creator) = author.name();
    let account = sqlx::query(
        "INSERT INTO analyst_accounts \
           (id, organization_id, grantor_org_id, user_id, login, name, password_hash, created_by_kind, created_by, created_at) \
         SELECT id, $1, $2, $3, 'telemetry_analyst_' || right(id::text, 12), $4, $5, $6, $7, $8 FROM (SELECT uuidv7() AS id) AS made \
         RETURNING id, organization_id, grantor_org_id, user_id, login, name, created_at, revoked_at",
    )
    .bind(new.organization.0)
    .bind(new.delegated_from.map(|grantor| grantor.0))
    .bind(user)
    .bind(new.name)
    .bind(password.hash().as_bytes().as_slice())
    .bind(kind)
    .bind(creator)
    .bind(now)
    .try_map(|row| read(&row))
    .fetch_one(&mut *transaction)
    .await?;
    let detail = json!({
        "name": account.name, "login": account.login, "delegated_from": account.delegated_from, "user_id": account.user_id,
    });
    record(transaction, author, &account, "analyst_account.created", now, detail).await?;
    Ok(CreatedAnalystAccount { account, password: password.reveal().to_owned() })
}

/// Returns an error if no process creates accounts in ClickHouse.
async fn require_analyst_sync(transaction: &mut PgConnection) -> Result<(), ApiError> {
    let is_kept: bool =
        sqlx::query_scalar("SELECT EXISTS (SELECT FROM analyst_upkeep WHERE seen_at > now() - interval '2 minutes')")
            .fetch_one(transaction)
            .await?;
    let detail = "Analyst accounts need `telemetry query-api analysts`, which isn't running. `cargo up` doesn't support them: run the \
                  service in containers (docs/operating/compose.md), or export CSV or NDJSON (docs/start/analyst.md).";
    is_kept.then_some(()).ok_or_else(|| ApiError::new(Code::Conflict, detail))
}

/// Applies the rules for reads: an owner reads its own data, all others read data shared with them.
async fn require_readable(transaction: &mut PgConnection, new: &NewAccount) -> Result<(), ApiError> {
    let own = organization_rows::type_of(&mut *transaction, new.organization).await?;
    match (own, new.delegated_from) {
        (None, _) => Err(organization_rows::no_organization()),
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

/// Returns the id of the member who will use the account. The organization's row is locked, so the member can't be removed in the meantime.
async fn member_of(transaction: &mut PgConnection, new: &NewAccount) -> Result<Option<Uuid>, ApiError> {
    let Some(email) = &new.member else { return Ok(None) };
    let user: Option<Uuid> = sqlx::query_scalar(
        "SELECT u.id FROM users u JOIN memberships m ON m.user_id = u.id WHERE m.organization_id = $1 AND u.email = $2",
    )
    .bind(new.organization.0)
    .bind(email.as_str())
    .fetch_optional(transaction)
    .await?;
    user.map(Some).ok_or_else(|| rule_broken("member", "member must be the email address of a member of the organization"))
}

/// Returns all accounts, or those of one organization, oldest first.
pub(crate) async fn list(store: impl PgExecutor<'_>, of: Option<OrgId>) -> Result<Vec<AnalystAccount>, ApiError> {
    let listed = sqlx::query(
        "SELECT id, organization_id, grantor_org_id, user_id, login, name, created_at, revoked_at FROM analyst_accounts \
         WHERE $1::uuid IS NULL OR organization_id = $1 ORDER BY created_at, id",
    );
    let listed = listed.bind(of.map(|org| org.0)).try_map(|row| read(&row));
    Ok(listed.fetch_all(store).await?)
}

/// Revokes an account of one organization, or of any if `None`. An already revoked account stays unchanged.
pub(crate) async fn revoke(
    transaction: &mut PgConnection,
    author: Author,
    id: AnalystAccountId,
    of: Option<OrgId>,
    now: DateTime<Utc>,
) -> Result<AnalystAccount, ApiError> {
    let revoked = sqlx::query(
        "UPDATE analyst_accounts SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL AND ($3::uuid IS NULL OR organization_id = $3)",
    )
    .bind(id.0)
    .bind(now)
    .bind(of.map(|org| org.0))
    .execute(&mut *transaction)
    .await?;
    let found = sqlx::query(
        "SELECT id, organization_id, grantor_org_id, user_id, login, name, created_at, revoked_at FROM analyst_accounts \
         WHERE id = $1 AND ($2::uuid IS NULL OR organization_id = $2)",
    );
    let found = found.bind(id.0).bind(of.map(|org| org.0)).try_map(|row| read(&row));
    let account = found.fetch_optional(&mut *transaction).await?.ok_or_else(not_found)?;
    if revoked.rows_affected() == 1 {
        record(transaction, author, &account, "analyst_account.revoked", now, json!({})).await?;
    }
    Ok(account)
}

/// Revokes the accounts that a person created as an operator or, in one organization, uses as a member.
pub(crate) async fn revoke_created_by(
    transaction: &mut PgConnection,
    author: Author,
    (person, org): (UserId, Option<OrgId>),
    now: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    let revoked = sqlx::query(
        "UPDATE analyst_accounts SET revoked_at = $3 \
         WHERE revoked_at IS NULL AND ($2::uuid IS NULL OR organization_id = $2) AND (created_by = $1 OR ($2 IS NOT NULL AND user_id = $1)) \
         RETURNING id, organization_id, grantor_org_id, user_id, login, name, created_at, revoked_at",
    )
    .bind(person.0)
    .bind(org.map(|org| org.0))
    .bind(now)
    .try_map(|row| read(&row))
    .fetch_all(&mut *transaction)
    .await?;
    for account in &revoked {
        record(transaction, author, account, "analyst_account.revoked", now, json!({"of": person})).await?;
    }
    Ok(())
}

async fn record(
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
