//! Claims an invite, which requires both the token and the address it was sent to.

use crate::access::prelude::*;
use crate::organizations::memberships;
use crate::people::Person;
use crate::request::bodies::rule_broken;
use crate::webhooks::outbox::{self, Event};
use schemas::identity::Membership;
use schemas::ids::InviteId;
use schemas::secrets::PlainInvite;
use schemas::webhook::{Data, EventType, InviteData};

/// Maximum number of organizations per person. Further invites can't be claimed.
const MAX_MEMBERSHIPS: i64 = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    token: Option<String>,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: Uuid,
    organization_id: Uuid,
    email: String,
    role: String,
    provisioned_by: Option<Uuid>,
    expires_at: DateTime<Utc>,
    withdrawn_at: Option<DateTime<Utc>>,
    claimed_at: Option<DateTime<Utc>>,
}

pub(crate) fn parse_claim(body: &[u8]) -> Result<PlainInvite, ApiError> {
    let token = bodies::object::<Claim>(body)?.token.ok_or_else(|| rule_broken("token", "token is required"))?;
    Ok(PlainInvite::presented(&token))
}

/// Handles `POST /api/v1/identity/invites/claim`: returns the membership.
pub(crate) async fn claim_invite(
    Shared(state): Shared<Arc<State>>,
    person: Person,
    request: Request<Body>,
) -> Result<Json<Membership>, ApiError> {
    let body = state.bodies.read(request).await?;
    let token = parse_claim(&body)?;
    let now = state.now();
    let mut transaction = state.pool.begin().await?;
    let row = open(&mut transaction, &token, &person, now).await?;
    let (id, org) = (InviteId(row.id), OrgId(row.organization_id));
    require_room(&mut transaction, person.user_id, org).await?;
    let role = row.role.parse().map_err(ApiError::internal)?;
    memberships::add(&mut transaction, person.author(), org, person.user_id, role, now).await?;
    sqlx::query("UPDATE invites SET claimed_at = $2, claimed_by = $3 WHERE id = $1")
        .bind(id.0)
        .bind(now)
        .bind(person.user_id.0)
        .execute(&mut *transaction)
        .await?;
    if let Some(partner) = row.provisioned_by {
        let data = Data::Invite(InviteData { id, organization_id: org, email: row.email, claimed_at: now });
        let event = Event { from: org, to: &[OrgId(partner)], kind: EventType::InviteClaimed, at: now, data };
        outbox::announce(&mut transaction, event).await?;
    }
    let change = Change { action: "invite.claimed", object_kind: "invite", object_id: id.0, detail: json!({"role": role}) };
    audit::record_by(&mut transaction, person.author(), Some(org), now, change).await?;
    let membership = memberships::read(&mut transaction, org, person.user_id).await?;
    transaction.commit().await?;
    Ok(Json(membership))
}

/// Returns 409 if the person has reached the limit on organizations. Serializes a person's claims.
async fn require_room(transaction: &mut PgConnection, person: UserId, org: OrgId) -> Result<(), ApiError> {
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('claims ' || $1, 0))")
        .bind(person.to_string())
        .execute(&mut *transaction)
        .await?;
    let others: i64 = sqlx::query_scalar("SELECT count(*) FROM memberships WHERE user_id = $1 AND organization_id <> $2")
        .bind(person.0)
        .bind(org.0)
        .fetch_one(transaction)
        .await?;
    if others < MAX_MEMBERSHIPS {
        return Ok(());
    }
    let detail = format!("You can be a member of at most {MAX_MEMBERSHIPS} organizations. Ask an owner of one to remove you.");
    Err(ApiError::new(Code::Conflict, detail))
}

/// Returns the invite if the person can claim it now. Locks the organization before the invite, as everywhere.
async fn open(transaction: &mut PgConnection, token: &PlainInvite, person: &Person, now: DateTime<Utc>) -> Result<Row, ApiError> {
    let no_invite = || ApiError::new(Code::NotFound, "Invite not found. Open the link from the latest invite email.");
    let hash = token.hash();
    let org: Option<Uuid> = sqlx::query_scalar("SELECT organization_id FROM invites WHERE token_hash = $1")
        .bind(hash.as_bytes().as_slice())
        .fetch_optional(&mut *transaction)
        .await?;
    organization_rows::lock(transaction, OrgId(org.ok_or_else(no_invite)?)).await?;
    let row: Row = sqlx::query_as(
        "SELECT id, organization_id, email, role, provisioned_by, expires_at, withdrawn_at, claimed_at \
         FROM invites WHERE token_hash = $1 FOR NO KEY UPDATE",
    )
    .bind(hash.as_bytes().as_slice())
    .fetch_one(transaction)
    .await?;
    if !row.email.eq_ignore_ascii_case(&person.email) {
        return Err(ApiError::new(
            Code::Forbidden,
            "The invite is for another email address. Sign in with the address it was sent to.",
        ));
    }
    if row.withdrawn_at.is_some() {
        return Err(no_invite());
    }
    if row.claimed_at.is_some() {
        return Err(ApiError::new(Code::Conflict, "The invite was already accepted."));
    }
    if now >= row.expires_at {
        return Err(ApiError::new(Code::Expired, "The invite has expired. Ask for a new one."));
    }
    Ok(row)
}
