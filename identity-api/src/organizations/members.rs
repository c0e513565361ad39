//! Members of an organization: every member can list them and leave, owners can change them.
//!
//! An organization always has an owner: changes lock its row and check the caller's role under that lock. They don't end sessions, because
//! a session covers all of a person's organizations.

use super::invites;
use super::memberships::{MemberRole, all, no_member, read};
use crate::access::prelude::*;
use crate::people::Person;
use crate::people::revoke_created::{self, CreatedBy, RemovalParameters};
use crate::request::text_rules;
use schemas::identity::{Membership, Role};

/// Handles `GET /api/v1/identity/organizations/{id}/members`; oldest first.
pub(crate) async fn list_members(
    Shared(state): Shared<Arc<State>>,
    person: Person,
    Path(org): Path<String>,
    part: BoundedPaging,
) -> Result<ListResponse<Membership>, ApiError> {
    let mut connection = state.pool.acquire().await?;
    let org = MemberRole::find(&mut connection, &org, person.user_id).await?.org;
    all(&mut connection, org).await.map(|members| part.cut(members))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MemberChange {
    role: Option<String>,
    keep_keys: Option<bool>,
}

/// Rejects bodies that are invalid whatever is stored.
pub(crate) fn dry_run(body: &[u8]) -> Result<(), ApiError> {
    checked(bodies::object::<MemberChange>(body)?.role).map(drop)
}

fn checked(role: Option<String>) -> Result<Role, ApiError> {
    text_rules::one_of("role", role, &Role::ALL.map(Role::as_str)).map_err(bodies::refuse)
}

pub(crate) async fn change_member(
    Shared(state): Shared<Arc<State>>,
    person: Person,
    Path((org, user)): Path<(String, String)>,
    request: Request<Body>,
) -> Result<Json<Membership>, ApiError> {
    let body = state.bodies.read(request).await?;
    let change: MemberChange = bodies::object(&body)?;
    let mut transaction = state.pool.begin().await?;
    let org = MemberRole::require_owner(&mut transaction, &org, person.user_id).await?;
    let keep_keys = change.keep_keys.unwrap_or(false);
    let role = checked(change.role)?;
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
            revoke_created::revoke_created(&mut transaction, author, CreatedBy::Member(org, member.user_id), now).await?;
        }
    }
    transaction.commit().await?;
    Ok(Json(Membership { role, ..member }))
}

/// Handles `DELETE /api/v1/identity/organizations/{id}/members/{user_id}?keep_keys=`, for owners and the member. Takes effect before the
/// response. `keep_keys` is a query parameter because proxies drop DELETE bodies.
pub(crate) async fn remove_member(
    Shared(state): Shared<Arc<State>>,
    person: Person,
    Path((org, user)): Path<(String, String)>,
    Parameters(RemovalParameters { keep_keys }): Parameters<RemovalParameters>,
) -> Result<StatusCode, ApiError> {
    let mut transaction = state.pool.begin().await?;
    let is_own = user.parse().is_ok_and(|user: UserId| user == person.user_id);
    // Only owners can keep a member's keys.
    let org = if is_own && !keep_keys {
        MemberRole::require_member(&mut transaction, &org, person.user_id).await?
    } else {
        MemberRole::require_owner(&mut transaction, &org, person.user_id).await?
    };
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
    let action = if is_own { "member.left" } else { "member.removed" };
    let change = Change { action, object_kind: "user", object_id: member.user_id.0, detail };
    let (author, now) = (person.author(), state.now());
    audit::record_by(&mut transaction, author, Some(org), now, change).await?;
    // Otherwise the member could rejoin through an invite that they created.
    invites::withdraw_open(&mut transaction, author, org, Some(member.user_id), now).await?;
    if !keep_keys {
        revoke_created::revoke_created(&mut transaction, author, CreatedBy::Member(org, member.user_id), now).await?;
    }
    transaction.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn member_named(transaction: &mut PgConnection, org: OrgId, user: &str) -> Result<Membership, ApiError> {
    let user: UserId = user.parse().map_err(|_| no_member())?;
    read(transaction, org, user).await
}

/// Returns 409 unless there is another owner. The caller has locked the organization's row, so the count can't change.
async fn require_another_owner(transaction: &mut PgConnection, org: OrgId) -> Result<(), ApiError> {
    let owners: i64 = sqlx::query_scalar("SELECT count(*) FROM memberships WHERE organization_id = $1 AND role = 'owner'")
        .bind(org.0)
        .fetch_one(transaction)
        .await?;
    if owners > 1 {
        return Ok(());
    }
    Err(ApiError::new(Code::Conflict, "An organization needs at least one owner. Make another member an owner first."))
}
