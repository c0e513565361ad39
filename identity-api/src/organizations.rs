//! Organizations, their members and invites.

pub(crate) mod creation;
pub(crate) mod access_requests;
pub(crate) mod partners;
pub(crate) mod invites;
pub(crate) mod members;
pub(crate) mod memberships;
pub(crate) mod reconciliation_alert;
pub(crate) mod saved_views;
pub(crate) mod settings;
pub(crate) mod emails;

use schemas::identity::OrgType;
use schemas::ids::{OrgId, UserId};
use sqlx::PgPool;
use uuid::Uuid;

pub async fn create_organization(pool: &PgPool, name: &str, org_type: OrgType) -> Result<OrgId, sqlx::Error> {
    let id: Uuid = sqlx::query_scalar("INSERT INTO organizations (name, org_type) VALUES ($1, $2) RETURNING id")
        .bind(name)
        .bind(org_type.as_str())
        .fetch_one(pool)
        .await?;
    Ok(OrgId(id))
}

/// Returns the oldest organization with this name and type, if any.
pub async fn find_organization(pool: &PgPool, name: &str, org_type: OrgType) -> Result<Option<OrgId>, sqlx::Error> {
    let id: Option<Uuid> =
        sqlx::query_scalar("SELECT id FROM organizations WHERE name = $1 AND org_type = $2 ORDER BY created_at LIMIT 1")
            .bind(name)
            .bind(org_type.as_str())
            .fetch_optional(pool)
            .await?;
    Ok(id.map(OrgId))
}

/// Creates a person, or returns the one with this address.
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

pub async fn ensure_owner(pool: &PgPool, org: OrgId, user: UserId) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO memberships (organization_id, user_id, role) VALUES ($1, $2, 'owner') ON CONFLICT DO NOTHING")
        .bind(org.0)
        .bind(user.0)
        .execute(pool)
        .await?;
    Ok(())
}
