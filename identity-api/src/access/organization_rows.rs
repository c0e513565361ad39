//! Reads and locks rows of organizations.

use schemas::identity::{OrgType, Role, UnknownName};
use schemas::ids::{OrgId, UserId};
use schemas::problem::Code;
use service_kit::http::ApiError;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

pub(crate) fn no_organization() -> ApiError {
    ApiError::new(Code::NotFound, "Organization not found.")
}

/// Returns the organization's type, which never changes; `None` if the organization doesn't exist.
pub(crate) async fn type_of(store: impl PgExecutor<'_>, org: OrgId) -> Result<Option<OrgType>, sqlx::Error> {
    let name: Option<String> =
        sqlx::query_scalar("SELECT org_type FROM organizations WHERE id = $1").bind(org.0).fetch_optional(store).await?;
    name.map(|name| name.parse().map_err(|unknown: UnknownName| sqlx::Error::Decode(unknown.into()))).transpose()
}

/// Locks the organization's row until the transaction ends.
pub(crate) async fn lock(transaction: &mut PgConnection, org: OrgId) -> Result<(), ApiError> {
    let found: Option<Uuid> = sqlx::query_scalar("SELECT id FROM organizations WHERE id = $1 FOR NO KEY UPDATE")
        .bind(org.0)
        .fetch_optional(transaction)
        .await?;
    found.map(drop).ok_or_else(no_organization)
}

/// Returns 409 if `count` finds at least `most` rows for `id`. The caller has locked its row.
pub(crate) async fn require_room(
    transaction: &mut PgConnection,
    count: &'static str,
    (id, most): (Uuid, i64),
    refusal: String,
) -> Result<(), ApiError> {
    let there: i64 = sqlx::query_scalar(count).bind(id).fetch_one(transaction).await?;
    (there < most).then_some(()).ok_or_else(|| ApiError::new(Code::Conflict, refusal))
}

pub(crate) async fn role_of(connection: &mut PgConnection, org: OrgId, user: UserId) -> Result<Option<Role>, sqlx::Error> {
    let name: Option<String> = sqlx::query_scalar("SELECT role FROM memberships WHERE organization_id = $1 AND user_id = $2")
        .bind(org.0)
        .bind(user.0)
        .fetch_optional(connection)
        .await?;
    name.map(|name| name.parse().map_err(|unknown: UnknownName| sqlx::Error::Decode(unknown.into()))).transpose()
}

pub(crate) async fn is_trusted(store: impl PgExecutor<'_>, org: OrgId) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("SELECT is_trusted_partner FROM organizations WHERE id = $1").bind(org.0).fetch_one(store).await
}
