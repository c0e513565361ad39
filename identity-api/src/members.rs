//! Members of an organisation: listed by any of them, changed by owners.
//!
//! Must never leave an organisation without the last of its owners: whoever changes members holds the organisation's
//! row, and is judged by who they are under that lock.

pub(crate) mod removal;

use self::removal::{CreatedBy, Keeping};
use crate::State;
use crate::audit::{self, Author, Change};
use crate::bodies;
use crate::invites;
use crate::organizations::{lock, no_organization, role_of};
use crate::people::Person;
use crate::text_rules::{self, Faults};
use crate::user_sessions;
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State as Shared};
use axum::http::{Request, StatusCode};
use chrono::{DateTime, Utc};
use schemas::identity::{Membership, Role};
use schemas::ids::{OrgId, UserId};
use schemas::problem::Code;
use serde::Deserialize;
use serde_json::json;
use service_kit::http::{ApiError, Parameters};
use sqlx::PgConnection;
use std::sync::Arc;
use uuid::Uuid;

/// What somebody is in an organisation; who is nothing in it hears that it is not there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) org: OrgId,
    role: Role,
}

impl Standing {
    /// By the organisation's id as it came in the path.
    pub(crate) async fn of(connection: &mut PgConnection, org: &str, user: UserId) -> Result<Self, ApiError> {
        let org: OrgId = org.parse().map_err(|_| no_organization())?;
        let role = role_of(connection, org, user).await?.ok_or_else(no_organization)?;
        Ok(Self { org, role })
    }

    /// An owner who holds the organisation's row: nobody else changes its members until the transaction ends.
    pub(crate) async fn of_owner(transaction: &mut PgConnection, org: &str, user: UserId) -> Result<OrgId, ApiError> {
        let id: OrgId = org.parse().map_err(|_| no_organization())?;
        lock(transaction, id).await?;
        match Self::of(transaction, org, user).await?.role {
            Role::Owner => Ok(id),
            Role::Member => Err(ApiError::new(Code::Forbidden, "Only an owner of the organisation may change its members.")),
        }
    }
}

fn no_member() -> ApiError {
    ApiError::new(Code::NotFound, "There is no such member.")
}

/// Makes a person a member; one who is there gains what `role` adds, and loses nothing.
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

#[derive(sqlx::FromRow)]
struct Row {
    organization_id: Uuid,
    user_id: Uuid,
    email: String,
    role: String,
    created_at: DateTime<Utc>,
}

impl TryFrom<Row> for Membership {
    type Error = ApiError;

    fn try_from(row: Row) -> Result<Self, ApiError> {
        Ok(Self {
            organization_id: OrgId(row.organization_id),
            user_id: UserId(row.user_id),
            email: row.email,
            role: row.role.parse().map_err(ApiError::internal)?,
            created_at: row.created_at,
        })
    }
}

/// `GET /api/v1/identity/organizations/{id}/members`: oldest first.
pub(crate) async fn list_members(
    Shared(state): Shared<Arc<State>>,
    person: Person,
    Path(org): Path<String>,
) -> Result<Json<Vec<Membership>>, ApiError> {
    let mut connection = state.pool.acquire().await?;
    let org = Standing::of(&mut connection, &org, person.user_id).await?.org;
    all(&mut connection, org).await.map(Json)
}

/// Every member, oldest first.
pub(crate) async fn all(connection: &mut PgConnection, org: OrgId) -> Result<Vec<Membership>, ApiError> {
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT m.*, u.email FROM memberships m JOIN users u ON u.id = m.user_id \
         WHERE m.organization_id = $1 ORDER BY m.created_at, m.user_id",
    )
    .bind(org.0)
    .fetch_all(connection)
    .await?;
    rows.into_iter().map(Membership::try_from).collect()
}

/// One member, in an organisation that is locked.
pub(crate) async fn read(connection: &mut PgConnection, org: OrgId, user: UserId) -> Result<Membership, ApiError> {
    let row: Option<Row> = sqlx::query_as(
        "SELECT m.*, u.email FROM memberships m JOIN users u ON u.id = m.user_id WHERE m.organization_id = $1 AND m.user_id = $2",
    )
    .bind(org.0)
    .bind(user.0)
    .fetch_optional(connection)
    .await?;
    row.ok_or_else(no_member)?.try_into()
}

/// What an owner may say of a member.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MemberChange {
    role: Option<String>,
    keep_keys: Option<bool>,
}

/// `PATCH /api/v1/identity/organizations/{id}/members/{user_id}`
pub(crate) async fn change_member(
    Shared(state): Shared<Arc<State>>,
    person: Person,
    Path((org, user)): Path<(String, String)>,
    request: Request<Body>,
) -> Result<Json<Membership>, ApiError> {
    let body = state.bodies.read(request).await?;
    let change: MemberChange = bodies::object(&body)?;
    let mut transaction = state.pool.begin().await?;
    let org = Standing::of_owner(&mut transaction, &org, person.user_id).await?;
    let keep_keys = change.keep_keys.unwrap_or(false);
    let mut faults = Faults::default();
    let role: Option<Role> = faults.take(text_rules::one_of("role", change.role, &Role::ALL.map(Role::as_str)));
    let role = role.ok_or_else(|| faults.refuse())?;
    let member = member_named(&mut transaction, org, &user).await?;
    if member.role == role {
        return Ok(Json(member));
    }
    if member.role == Role::Owner {
        require_another_owner(&mut transaction, org).await?;
    }
    sqlx::query("UPDATE memberships SET role = $3 WHERE organization_id = $1 AND user_id = $2")
        .bind(org.0)
        .bind(member.user_id.0)
        .bind(role.as_str())
        .execute(&mut *transaction)
        .await?;
    let detail = json!({"role": role, "keep_keys": keep_keys});
    let change = Change { action: "member.changed", object_kind: "user", object_id: member.user_id.0, detail };
    let (author, now) = (person.author(), state.now());
    audit::record_by(&mut transaction, author, Some(org), now, change).await?;
    if role == Role::Member {
        invites::withdraw_open(&mut transaction, author, org, Some(member.user_id), now).await?;
        if !keep_keys {
            removal::take_back(&mut transaction, author, CreatedBy::Member(org, member.user_id), now).await?;
        }
    }
    user_sessions::end_all(&mut transaction, author, member.user_id, now).await?;
    transaction.commit().await?;
    Ok(Json(Membership { role, ..member }))
}

/// `DELETE /api/v1/identity/organizations/{id}/members/{user_id}?keep_keys=`: in force before the answer is sent. A parameter, not
/// a body: what stands in the body of a DELETE gets lost on the way.
pub(crate) async fn remove_member(
    Shared(state): Shared<Arc<State>>,
    person: Person,
    Path((org, user)): Path<(String, String)>,
    Parameters(Keeping { keep_keys }): Parameters<Keeping>,
) -> Result<StatusCode, ApiError> {
    let mut transaction = state.pool.begin().await?;
    let org = Standing::of_owner(&mut transaction, &org, person.user_id).await?;
    let member = member_named(&mut transaction, org, &user).await?;
    if member.role == Role::Owner {
        require_another_owner(&mut transaction, org).await?;
    }
    sqlx::query("DELETE FROM memberships WHERE organization_id = $1 AND user_id = $2")
        .bind(org.0)
        .bind(member.user_id.0)
        .execute(&mut *transaction)
        .await?;
    let detail = json!({"role": member.role, "keep_keys": keep_keys});
    let change = Change { action: "member.removed", object_kind: "user", object_id: member.user_id.0, detail };
    let (author, now) = (person.author(), state.now());
    audit::record_by(&mut transaction, author, Some(org), now, change).await?;
    // Or who is removed comes back by an invite of their own making.
    invites::withdraw_open(&mut transaction, author, org, Some(member.user_id), now).await?;
    if !keep_keys {
        removal::take_back(&mut transaction, author, CreatedBy::Member(org, member.user_id), now).await?;
    }
    transaction.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn member_named(transaction: &mut PgConnection, org: OrgId, user: &str) -> Result<Membership, ApiError> {
    let user: UserId = user.parse().map_err(|_| no_member())?;
    read(transaction, org, user).await
}

/// The caller holds the organisation's row, so the count stays true until the transaction ends.
async fn require_another_owner(transaction: &mut PgConnection, org: OrgId) -> Result<(), ApiError> {
    let owners: i64 = sqlx::query_scalar("SELECT count(*) FROM memberships WHERE organization_id = $1 AND role = 'owner'")
        .bind(org.0)
        .fetch_one(transaction)
        .await?;
    if owners > 1 {
        return Ok(());
    }
    Err(ApiError::new(Code::Conflict, "An organisation keeps its last owner; make somebody else an owner first."))
}
