//! Organisations, people and who belongs where.
//!
//! Must not verify anything about a domain: that is `domains`.

pub(crate) mod ways_in;

use schemas::identity::{OrgType, Role, UnknownName};
use schemas::ids::{OrgId, UserId};
use schemas::problem::Code;
use service_kit::http::ApiError;
use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

pub(crate) fn no_organization() -> ApiError {
    ApiError::new(Code::NotFound, "There is no such organisation.")
}

/// Creates an organisation.
pub async fn create_organization(pool: &PgPool, name: &str, org_type: OrgType) -> Result<OrgId, sqlx::Error> {
    let id: Uuid = sqlx::query_scalar("INSERT INTO organizations (name, org_type) VALUES ($1, $2) RETURNING id")
        .bind(name)
        .bind(org_type.as_str())
        .fetch_one(pool)
        .await?;
    Ok(OrgId(id))
}

/// The oldest organisation of this name and type, if there is one.
pub async fn find_organization(pool: &PgPool, name: &str, org_type: OrgType) -> Result<Option<OrgId>, sqlx::Error> {
    let id: Option<Uuid> =
        sqlx::query_scalar("SELECT id FROM organizations WHERE name = $1 AND org_type = $2 ORDER BY created_at LIMIT 1")
            .bind(name)
            .bind(org_type.as_str())
            .fetch_optional(pool)
            .await?;
    Ok(id.map(OrgId))
}

/// What an organisation is; it never changes. `None` when there is no such organisation.
pub(crate) async fn type_of(store: impl PgExecutor<'_>, org: OrgId) -> Result<Option<OrgType>, sqlx::Error> {
    let name: Option<String> =
        sqlx::query_scalar("SELECT org_type FROM organizations WHERE id = $1").bind(org.0).fetch_optional(store).await?;
    name.map(|name| name.parse().map_err(|unknown: UnknownName| sqlx::Error::Decode(unknown.into()))).transpose()
}

/// Holds the organisation's row until the transaction ends.
pub(crate) async fn lock(transaction: &mut PgConnection, org: OrgId) -> Result<(), ApiError> {
    let found: Option<Uuid> = sqlx::query_scalar("SELECT id FROM organizations WHERE id = $1 FOR NO KEY UPDATE")
        .bind(org.0)
        .fetch_optional(transaction)
        .await?;
    found.map(drop).ok_or_else(no_organization)
}

/// What a person is in an organisation.
pub(crate) async fn role_of(connection: &mut PgConnection, org: OrgId, user: UserId) -> Result<Option<Role>, sqlx::Error> {
    let name: Option<String> = sqlx::query_scalar("SELECT role FROM memberships WHERE organization_id = $1 AND user_id = $2")
        .bind(org.0)
        .bind(user.0)
        .fetch_optional(connection)
        .await?;
    name.map(|name| name.parse().map_err(|unknown: UnknownName| sqlx::Error::Decode(unknown.into()))).transpose()
}

/// Whether an operator trusts it as a partner.
pub(crate) async fn is_trusted(store: impl PgExecutor<'_>, org: OrgId) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("SELECT is_trusted_partner FROM organizations WHERE id = $1").bind(org.0).fetch_one(store).await
}

/// Creates a person, or finds the one with this address.
pub async fn ensure_user(pool: &PgPool, email: &str, is_operator: bool) -> Result<UserId, sqlx::Error> {
    let id: Uuid = sqlx::query_scalar(
        "INSERT INTO users (email, is_operator) VALUES ($1, $2) ON CONFLICT (email) DO UPDATE SET is_operator = $2 RETURNING id",
    )
    .bind(email)
    .bind(is_operator)
    .fetch_one(pool)
    .await?;
    Ok(UserId(id))
}

/// Makes a person an owner of an organisation.
pub async fn ensure_owner(pool: &PgPool, org: OrgId, user: UserId) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO memberships (organization_id, user_id, role) VALUES ($1, $2, 'owner') ON CONFLICT DO NOTHING")
        .bind(org.0)
        .bind(user.0)
        .execute(pool)
        .await?;
    Ok(())
}
