//! Invites by email, from an owner or from the partner that created the organization. Signing in with the invited address and claiming the
//! invite once creates the membership.
//!
//! Only the invited mailbox gets the token, and only its hash is stored. `claim` claims invites.

mod claim;
mod quota;

pub(crate) use claim::{claim_invite, parse_claim};

use super::emails::{self, InviteEmail};
use super::memberships::MemberRole;
use crate::access::columns;
use crate::access::prelude::*;
use crate::people::Person;
use crate::people::sign_in::InviteQuota;
use crate::request::email_address::EmailAddress;
use crate::request::text_rules::{self, Faults};
use schemas::identity::{INVITE_LIFETIME, Invite, MAX_MEMBERS, Role};
use schemas::ids::InviteId;
use schemas::secrets::PlainInvite;
use sqlx::Row;
use sqlx::postgres::PgRow;

/// Maximum number of open invites per organization, so that this service can't be used to send bulk email.
const MAX_OPEN_INVITES: i64 = 100;

fn read(row: &PgRow) -> Result<Invite, sqlx::Error> {
    Ok(Invite {
        id: InviteId(row.try_get("id")?),
        organization_id: OrgId(row.try_get("organization_id")?),
        email: row.try_get("email")?,
        role: columns::named(row, "role")?,
        created_at: row.try_get("created_at")?,
        expires_at: row.try_get("expires_at")?,
        mailed_at: row.try_get("mailed_at")?,
    })
}

pub(crate) struct Invitation<'a> {
    pub(crate) org: OrgId,
    pub(crate) email: &'a EmailAddress,
    pub(crate) role: Role,
    /// The partner to notify when the invite is claimed.
    pub(crate) provisioned_by: Option<OrgId>,
    pub(crate) quota: InviteQuota,
}

/// Stores an invite. The caller has locked the organization's row, and emails the token after the commit.
pub(crate) async fn invite(
    transaction: &mut PgConnection,
    author: Author,
    invitation: Invitation<'_>,
    now: DateTime<Utc>,
) -> Result<InviteEmail, ApiError> {
    let Invitation { org, email: to, role, provisioned_by, .. } = invitation;
    let email = to.as_str();
    require_no_member(transaction, org, email).await?;
    quota::require(transaction, &invitation, author, now).await?;
    // A new invite replaces earlier ones, whose email may be lost or expired.
    let replaced: Vec<Uuid> = sqlx::query_scalar(
        "UPDATE invites SET withdrawn_at = $3 WHERE organization_id = $1 AND email = $2 \
         AND claimed_at IS NULL AND withdrawn_at IS NULL RETURNING id",
    )
    .bind(org.0)
    .bind(email)
    .bind(now)
    .fetch_all(&mut *transaction)
    .await?;
    for object_id in replaced {
        let change = Change { action: "invite.withdrawn", object_kind: "invite", object_id, detail: json!({"replaced": true}) };
        audit::record_by(transaction, author, Some(org), now, change).await?;
    }
    require_room(transaction, org, now).await?;
    let token = PlainInvite::generate();
    let (person, key) = quota::inviter(author);
    let invite = sqlx::query(
        "INSERT INTO invites (id, organization_id, email, role, token_hash, provisioned_by, created_at, expires_at, invited_by, invited_by_key) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING id, organization_id, email, role, created_at, expires_at, mailed_at",
    )
    .bind(Uuid::now_v7())
    .bind(org.0)
    .bind(email)
    .bind(role.as_str())
    .bind(token.hash().as_bytes().as_slice())
    .bind(provisioned_by.map(|org| org.0))
    .bind(now)
    .bind(now + INVITE_LIFETIME)
    .bind(person)
    .bind(key)
    .try_map(|row| read(&row))
    .fetch_one(&mut *transaction)
    .await?;
    let detail = json!({"email": email, "role": role});
    let change = Change { action: "invite.created", object_kind: "invite", object_id: invite.id.0, detail };
    audit::record_by(transaction, author, Some(org), now, change).await?;
    Ok(InviteEmail { invite, to: to.clone(), token })
}

/// Withdraws an organization's open invites, or only those that a person created in it or could claim. The caller has locked the
/// organization's row.
pub(crate) async fn withdraw_open(
    transaction: &mut PgConnection,
    author: Author,
    org: OrgId,
    of: Option<UserId>,
    now: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    let withdrawn: Vec<Uuid> = sqlx::query_scalar(
        "UPDATE invites SET withdrawn_at = $3 WHERE organization_id = $1 AND claimed_at IS NULL AND withdrawn_at IS NULL \
         AND ($2::uuid IS NULL OR invited_by = $2 OR email = (SELECT lower(email) FROM users WHERE id = $2)) RETURNING id",
    )
    .bind(org.0)
    .bind(of.map(|user| user.0))
    .bind(now)
    .fetch_all(&mut *transaction)
    .await?;
    for object_id in withdrawn {
        let detail = json!({"of_member": of});
        let change = Change { action: "invite.withdrawn", object_kind: "invite", object_id, detail };
        audit::record_by(transaction, author, Some(org), now, change).await?;
    }
    Ok(())
}

async fn require_no_member(transaction: &mut PgConnection, org: OrgId, email: &str) -> Result<(), ApiError> {
    let is_member: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM memberships m JOIN users u ON u.id = m.user_id \
         WHERE m.organization_id = $1 AND lower(u.email) = $2)",
    )
    .bind(org.0)
    .bind(email)
    .fetch_one(transaction)
    .await?;
    if is_member { Err(ApiError::new(Code::Conflict, "This person is already a member of the organization.")) } else { Ok(()) }
}

async fn require_room(transaction: &mut PgConnection, org: OrgId, now: DateTime<Utc>) -> Result<(), ApiError> {
    let (open, members): (i64, i64) = sqlx::query_as(
        "SELECT (SELECT count(*) FROM invites \
                 WHERE organization_id = $1 AND claimed_at IS NULL AND withdrawn_at IS NULL AND expires_at > $2), \
                (SELECT count(*) FROM memberships WHERE organization_id = $1)",
    )
    .bind(org.0)
    .bind(now)
    .fetch_one(transaction)
    .await?;
    // Claiming an open invite changes neither sum, so claims don't need a check.
    let detail = if open + members >= MAX_MEMBERS {
        format!("The organization has reached the limit of {MAX_MEMBERS} members and open invites. Remove one first.")
    } else if open >= MAX_OPEN_INVITES {
        format!("The organization has reached the limit of {MAX_OPEN_INVITES} open invites. Withdraw one first.")
    } else {
        return Ok(());
    };
    Err(ApiError::new(Code::Conflict, detail))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewMember {
    email: Option<String>,
    role: Option<String>,
}

/// Rejects bodies that are invalid whatever is stored.
pub(crate) fn dry_run(body: &[u8]) -> Result<(), ApiError> {
    checked(bodies::object(body)?).map(drop)
}

fn checked(new: NewMember) -> Result<(EmailAddress, Role), ApiError> {
    let mut faults = Faults::default();
    let email = faults.take(text_rules::email("email", new.email));
    let role = new.role.or_else(|| Some(Role::Member.as_str().to_owned()));
    let role = faults.take(text_rules::one_of("role", role, &Role::ALL.map(Role::as_str)));
    let (Some(email), Some(role)) = (email, role) else { return Err(faults.refuse()) };
    Ok((email, role))
}

/// Handles `POST /api/v1/identity/organizations/{id}/members`: returns 201 with an invite and emails its token.
pub(crate) async fn invite_member(
    Shared(state): Shared<Arc<State>>,
    person: Person,
    Path(org): Path<String>,
    request: Request<Body>,
) -> Result<(StatusCode, Json<Invite>), ApiError> {
    let body = state.bodies.read(request).await?;
    let new: NewMember = bodies::object(&body)?;
    let mut transaction = state.pool.begin().await?;
    let org = MemberRole::require_owner(&mut transaction, &org, person.user_id).await?;
    let (email, role) = checked(new)?;
    let invitation = Invitation { org, email: &email, role, provisioned_by: None, quota: state.sign_in.invites };
    let letter = invite(&mut transaction, person.author(), invitation, state.now()).await?;
    transaction.commit().await?;
    Ok((StatusCode::CREATED, Json(emails::send_invite(&state, letter).await)))
}

/// Handles `GET /api/v1/identity/organizations/{id}/invites`; open ones, oldest first.
pub(crate) async fn list_invites(
    Shared(state): Shared<Arc<State>>,
    person: Person,
    Path(org): Path<String>,
    part: BoundedPaging,
) -> Result<ListResponse<Invite>, ApiError> {
    let mut connection = state.pool.acquire().await?;
    let org = MemberRole::find(&mut connection, &org, person.user_id).await?.org;
    let open = sqlx::query(
        "SELECT id, organization_id, email, role, created_at, expires_at, mailed_at FROM invites WHERE organization_id = $1 \
         AND claimed_at IS NULL AND withdrawn_at IS NULL AND expires_at > $2 ORDER BY created_at, id",
    );
    let open = open.bind(org.0).bind(state.now()).try_map(|row| read(&row));
    Ok(part.cut(open.fetch_all(&mut *connection).await?))
}

/// Handles `DELETE /api/v1/identity/organizations/{id}/invites/{invite_id}`: returns 204, even if it was already withdrawn.
pub(crate) async fn withdraw_invite(
    Shared(state): Shared<Arc<State>>,
    person: Person,
    Path((org, id)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let mut transaction = state.pool.begin().await?;
    let org = MemberRole::require_owner(&mut transaction, &org, person.user_id).await?;
    let no_invite = || ApiError::new(Code::NotFound, "Invite not found.");
    let id: InviteId = id.parse().map_err(|_| no_invite())?;
    let found: Option<(bool, bool)> = sqlx::query_as(
        "SELECT claimed_at IS NOT NULL, withdrawn_at IS NOT NULL FROM invites WHERE id = $1 AND organization_id = $2 FOR NO KEY UPDATE",
    )
    .bind(id.0)
    .bind(org.0)
    .fetch_optional(&mut *transaction)
    .await?;
    match found.ok_or_else(no_invite)? {
        (true, _) => return Err(ApiError::new(Code::Conflict, "The invite was already accepted. Remove the member instead.")),
        (false, true) => return Ok(StatusCode::NO_CONTENT),
        (false, false) => {}
    }
    let now = state.now();
    sqlx::query("UPDATE invites SET withdrawn_at = $2 WHERE id = $1").bind(id.0).bind(now).execute(&mut *transaction).await?;
    let change = Change { action: "invite.withdrawn", object_kind: "invite", object_id: id.0, detail: json!({}) };
    audit::record_by(&mut transaction, person.author(), Some(org), now, change).await?;
    transaction.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
