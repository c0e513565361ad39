//! Memberships and roles.

use crate::access::columns;
use crate::access::organization_rows::{lock, no_organization, role_of};
use crate::access::prelude::*;
use schemas::identity::{Membership, Role};
use sqlx::Row;
use sqlx::postgres::PgRow;

/// A person's role in an organization. Returns 404 to people who aren't members.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemberRole {
    pub(crate) org: OrgId,
    role: Role,
}

impl MemberRole {
    /// Returns the caller's role in the organization whose id is in the path.
    pub(crate) async fn find(connection: &mut PgConnection, org: &str, user: UserId) -> Result<Self, ApiError> {
        let org: OrgId = org.parse().map_err(|_| no_organization())?;
        let role = role_of(connection, org, user).await?.ok_or_else(no_organization)?;
        Ok(Self { org, role })
    }

    /// Requires an owner and locks the organization's row, so its members can't change until the transaction ends.
    pub(crate) async fn require_owner(transaction: &mut PgConnection, org: &str, user: UserId) -> Result<OrgId, ApiError> {
        match Self::locked(transaction, org, user).await? {
            Self { org, role: Role::Owner } => Ok(org),
            Self { role: Role::Member, .. } => Err(ApiError::new(Code::Forbidden, "Only owners can change members.")),
        }
    }

    /// Like `require_owner`, for any member.
    pub(crate) async fn require_member(transaction: &mut PgConnection, org: &str, user: UserId) -> Result<OrgId, ApiError> {
        Self::locked(transaction, org, user).await.map(|standing| standing.org)
    }

    async fn locked(transaction: &mut PgConnection, org: &str, user: UserId) -> Result<Self, ApiError> {
        lock(transaction, org.parse().map_err(|_| no_organization())?).await?;
        Self::find(transaction, org, user).await
    }
}

pub(crate) fn no_member() -> ApiError {
    ApiError::new(Code::NotFound, "Member not found.")
}

/// Makes a person a member. An existing member gets the higher of both roles.
pub(crate) async fn add(
    transaction: &mut PgConnection,
    author: Author,
    org: OrgId,
    user: UserId,
    role: Role,
    now: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    let changed = sqlx::query(
        "INSERT INTO memberships (organization_id, user_id, role, created_at) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (organization_id, user_id) DO UPDATE SET role = 'owner' WHERE excluded.role = 'owner' AND memberships.role <> 'owner'",
    )
    .bind(org.0)
    .bind(user.0)
    .bind(role.as_str())
    .bind(now)
    .execute(&mut *transaction)
    .await?;
    if changed.rows_affected() == 0 {
        return Ok(());
    }
    let change = Change { action: "member.added", object_kind: "user", object_id: user.0, detail: json!({"role": role}) };
    audit::record_by(transaction, author, Some(org), now, change).await
}

fn read_row(row: &PgRow) -> Result<Membership, sqlx::Error> {
    Ok(Membership {
        organization_id: OrgId(row.try_get("organization_id")?),
        user_id: UserId(row.try_get("user_id")?),
        email: row.try_get("email")?,
        role: columns::named(row, "role")?,
        created_at: row.try_get("created_at")?,
    })
}

pub(crate) async fn all(connection: &mut PgConnection, org: OrgId) -> Result<Vec<Membership>, ApiError> {
    let members = sqlx::query(
        "SELECT m.*, u.email FROM memberships m JOIN users u ON u.id = m.user_id \
         WHERE m.organization_id = $1 ORDER BY m.created_at, m.user_id",
    );
    Ok(members.bind(org.0).try_map(|row| read_row(&row)).fetch_all(connection).await?)
}

/// Returns one member. The caller has locked the organization.
pub(crate) async fn read(connection: &mut PgConnection, org: OrgId, user: UserId) -> Result<Membership, ApiError> {
    let member = sqlx::query(
        "SELECT m.*, u.email FROM memberships m JOIN users u ON u.id = m.user_id WHERE m.organization_id = $1 AND m.user_id = $2",
    );
    let member = member.bind(org.0).bind(user.0).try_map(|row| read_row(&row));
    member.fetch_optional(connection).await?.ok_or_else(no_member)
}
