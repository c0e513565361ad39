//! Delegations: a content owner shares its data with a platform or an agent, and can revoke the access.

pub(crate) mod requests;

use crate::access::actor::Actor;
use crate::access::columns;
use crate::access::hourly;
use crate::access::permissions::{self, Creators, OwnerAction};
use crate::access::prelude::*;
use crate::request::bodies::paging::Paging;
use crate::request::bodies::rule_broken;
use crate::request::text_rules::Faults;
use crate::webhooks::outbox::{self, Event};
use schemas::identity::{Delegation, OrgType, Scope};
use schemas::ids::DelegationId;
use schemas::webhook::{Data, DelegationData, EventType};
use sqlx::Row;
use sqlx::postgres::PgRow;

const RECENT: &str = "SELECT created_at FROM delegations WHERE grantor_org_id = $1 AND grantee_org_id = $2 AND created_at > $3 \
    ORDER BY created_at DESC OFFSET $4 LIMIT 1";

/// Reads a row. Statements that return only the delegation omit the names.
fn read(row: &PgRow) -> Result<Delegation, sqlx::Error> {
    Ok(Delegation {
        id: DelegationId(row.try_get("id")?),
        grantor_org_id: OrgId(row.try_get("grantor_org_id")?),
        grantee_org_id: OrgId(row.try_get("grantee_org_id")?),
        grantor_name: row.try_get("grantor_name").ok(),
        grantee_name: row.try_get("grantee_name").ok(),
        scopes: columns::names(row, "scopes")?,
        created_at: row.try_get("created_at")?,
        revoked_at: row.try_get("revoked_at")?,
    })
}

/// The caller's side of a delegation or delegation request.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    Grantor,
    Grantee,
}

/// Which side to list; both by default.
#[derive(Deserialize)]
pub(crate) struct SideFilter {
    role: Option<Role>,
}

impl SideFilter {
    pub(crate) fn with_grantor(&self) -> bool {
        !matches!(self.role, Some(Role::Grantee))
    }

    pub(crate) fn with_grantee(&self) -> bool {
        !matches!(self.role, Some(Role::Grantor))
    }
}

/// Handles `GET /api/v1/identity/delegations`; active ones, oldest first.
pub(crate) async fn list_delegations(
    Shared(state): Shared<Arc<State>>,
    IdentityReader(actor): IdentityReader,
    Parameters(side): Parameters<SideFilter>,
    part: BoundedPaging,
) -> Result<ListResponse<Delegation>, ApiError> {
    let Paging { limit, offset } = part.bounded();
    let delegations = sqlx::query(include_str!("delegations/sql/list.sql"))
        .bind(actor.org_id.0)
        .bind(side.with_grantor())
        .bind(side.with_grantee())
        .bind(limit)
        .bind(offset)
        .try_map(|row| read(&row))
        .fetch_all(&state.pool)
        .await?;
    let total = sqlx::query_scalar(include_str!("delegations/sql/count.sql"))
        .bind(actor.org_id.0)
        .bind(side.with_grantor())
        .bind(side.with_grantee())
        .fetch_one(&state.pool)
        .await?;
    Ok(ListResponse::new(delegations, total))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewDelegation {
    grantee_org_id: Option<String>,
    scopes: Option<Vec<String>>,
}

pub(crate) async fn create_delegation(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    request: Request<Body>,
) -> Result<(StatusCode, Json<Delegation>), ApiError> {
    let body = state.bodies.read(request).await?;
    if organization_rows::type_of(&state.pool, actor.org_id).await? != Some(OrgType::ContentOwner) {
        return Err(ApiError::new(Code::Forbidden, "Only content owners can create delegations."));
    }
    let (grantee, scopes) = parse_new_delegation(&body)?;
    if grantee == actor.org_id {
        return Err(rule_broken("grantee_org_id", "grantee_org_id must be another organization"));
    }
    match organization_rows::type_of(&state.pool, grantee).await? {
        None => return Err(ApiError::new(Code::NotFound, "Organization not found.")),
        Some(grantee) if grantee.is_platform_or_agent() => {}
        Some(_) => return Err(rule_broken("grantee_org_id", "grantee_org_id must be a platform or an agent")),
    }
    let pair = Pair { grantor: actor.org_id, grantee };
    let mut transaction = state.pool.begin().await?;
    pair.lock(&mut transaction).await?;
    pair.charge(&state, &mut transaction, &actor).await?;
    let id = DelegationId(Uuid::now_v7());
    let delegation = grant(&mut transaction, &actor, pair, id, &scopes, state.now()).await?;
    transaction.commit().await?;
    Ok((StatusCode::CREATED, Json(delegation)))
}

pub(crate) fn parse_new_delegation(body: &[u8]) -> Result<(OrgId, Vec<Scope>), ApiError> {
    let new: NewDelegation = bodies::object(body)?;
    let grantee = new.grantee_org_id.and_then(|id| id.parse().ok());
    let mut faults = Faults::default();
    let grantee = faults.take(grantee.ok_or_else(|| bodies::fault("grantee_org_id", "grantee_org_id must be a UUID")));
    let scopes = faults.take(bodies::scopes(new.scopes, &Delegation::SCOPES, &Delegation::SCOPES));
    grantee.zip(scopes).ok_or_else(|| faults.refuse())
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pair {
    pub(crate) grantor: OrgId,
    pub(crate) grantee: OrgId,
}

impl Pair {
    /// Returns 429 if the pair has reached its hourly limit of delegations, or if the messages to both organizations exceed the budget of
    /// the actor's organization. The price includes the messages about a later revocation.
    pub(crate) async fn charge(&self, state: &State, store: &mut PgConnection, actor: &Actor) -> Result<(), ApiError> {
        self.require_room(store, RECENT, state.delegations_per_pair, state.now()).await?;
        let mut price = 0;
        for kind in [EventType::DelegationCreated, EventType::DelegationRevoked] {
            price += outbox::price(&mut *store, &[self.grantor, self.grantee], kind).await?;
        }
        state.budgets.organizations.spend(actor.org_id, price, state.now())
    }

    /// Returns 429 if `recent` finds that the pair created `limit` rows in the last hour; 0 means unlimited. Its parameters are the
    /// grantor, the grantee, the start of the hour and the number of rows to skip. The caller has locked the pair.
    pub(crate) async fn require_room(
        &self,
        store: &mut PgConnection,
        recent: &'static str,
        limit: u32,
        now: DateTime<Utc>,
    ) -> Result<(), ApiError> {
        let Some(offset) = hourly::offset(limit) else { return Ok(()) };
        let oldest = sqlx::query_scalar(recent).bind(self.grantor.0).bind(self.grantee.0).bind(now - hourly::WINDOW).bind(offset);
        let why = "You sent this organization too many delegations or requests in the last hour. Try again later.";
        hourly::refuse_until(oldest.fetch_optional(store).await?, now, why)
    }

    /// Locks the pair until the transaction ends. No index can enforce that a pair has at most one delegation or pending request,
    /// because they are in two tables.
    pub(crate) async fn lock(&self, transaction: &mut PgConnection) -> Result<(), sqlx::Error> {
        sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))")
            .bind(format!("delegation {} {}", self.grantor, self.grantee))
            .execute(transaction)
            .await?;
        Ok(())
    }
}

/// Creates a delegation, records it and notifies both sides. Returns 403 for members who aren't owners and for keys that lack one of its
/// scopes, and 409 if the pair has an active delegation. The caller must lock the pair first, and before the organization.
pub(crate) async fn grant(
    transaction: &mut PgConnection,
    actor: &Actor,
    pair: Pair,
    id: DelegationId,
    scopes: &[Scope],
    now: DateTime<Utc>,
) -> Result<Delegation, ApiError> {
    permissions::require_owner(transaction, actor, OwnerAction::Delegations).await?;
    let author: Author = actor.credential.into();
    permissions::require_held(transaction, author, scopes).await?;
    let names: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
    let (kind, maker) = author.name();
    let granted = sqlx::query(
        "INSERT INTO delegations (id, grantor_org_id, grantee_org_id, scopes, created_at, created_by_kind, created_by) \
         VALUES ($1, $2, $3, $4, $5, $6, $7) \
         ON CONFLICT (grantor_org_id, grantee_org_id) WHERE revoked_at IS NULL DO NOTHING RETURNING *",
    )
    .bind(id.0)
    .bind(pair.grantor.0)
    .bind(pair.grantee.0)
    .bind(names)
    .bind(now)
    .bind(kind)
    .bind(maker)
    .try_map(|row| read(&row))
    .fetch_optional(&mut *transaction)
    .await?;
    let delegation =
        granted.ok_or_else(|| ApiError::new(Code::Conflict, "This organization already has an active delegation."))?;
    notify(transaction, EventType::DelegationCreated, &delegation, now).await?;
    record(transaction, author, "delegation.created", &delegation, now).await?;
    Ok(delegation)
}

async fn notify(
    transaction: &mut PgConnection,
    kind: EventType,
    delegation: &Delegation,
    at: DateTime<Utc>,
) -> Result<(), ApiError> {
    let to = [delegation.grantor_org_id, delegation.grantee_org_id];
    let data = Data::Delegation(DelegationData::from(delegation));
    outbox::announce(transaction, Event { from: delegation.grantor_org_id, to: &to, kind, at, data }).await
}

/// Handles `DELETE /api/v1/identity/delegations/{id}`: returns the delegation, even if it was already revoked. Returns 403 for
/// members who aren't owners.
pub(crate) async fn revoke_delegation(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    Path(id): Path<String>,
) -> Result<Json<Delegation>, ApiError> {
    let not_found = || ApiError::new(Code::NotFound, "Delegation not found.");
    let id: DelegationId = id.parse().map_err(|_| not_found())?;
    let now = state.now();
    let mut transaction = state.pool.begin().await?;
    permissions::require_owner(&mut transaction, &actor, OwnerAction::Delegations).await?;
    let revoked = sqlx::query(
        "UPDATE delegations SET revoked_at = $3 WHERE id = $1 AND grantor_org_id = $2 AND revoked_at IS NULL RETURNING *",
    )
    .bind(id.0)
    .bind(actor.org_id.0)
    .bind(now)
    .try_map(|row| read(&row))
    .fetch_optional(&mut *transaction)
    .await?;
    if let Some(delegation) = revoked {
        tell_revoked(&mut transaction, actor.credential.into(), &delegation, now).await?;
        transaction.commit().await?;
        return Ok(Json(delegation));
    }
    let known = sqlx::query("SELECT * FROM delegations WHERE id = $1").bind(id.0).try_map(|row| read(&row));
    match known.fetch_optional(&mut *transaction).await? {
        Some(revoked_before) if revoked_before.grantor_org_id == actor.org_id => Ok(Json(revoked_before)),
        Some(others) if others.grantee_org_id == actor.org_id => {
            Err(ApiError::new(Code::Forbidden, "Only the organization that created the delegation can revoke it."))
        }
        _ => Err(not_found()),
    }
}

async fn tell_revoked(
    transaction: &mut PgConnection,
    author: Author,
    delegation: &Delegation,
    now: DateTime<Utc>,
) -> Result<(), ApiError> {
    notify(transaction, EventType::DelegationRevoked, delegation, now).await?;
    record(transaction, author, "delegation.revoked", delegation, now).await?;
    Ok(())
}

async fn record(
    transaction: &mut PgConnection,
    author: Author,
    action: &'static str,
    delegation: &Delegation,
    now: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    let of = [
        (delegation.grantor_org_id, json!({"grantee_org_id": delegation.grantee_org_id, "scopes": delegation.scopes})),
        (delegation.grantee_org_id, json!({"grantor_org_id": delegation.grantor_org_id, "scopes": delegation.scopes})),
    ];
    audit::record_for_both(transaction, author, of, now, (action, "delegation", delegation.id.0)).await
}

/// Revokes the delegations that these creators granted, and notifies both sides.
pub(crate) async fn revoke_created_by(
    transaction: &mut PgConnection,
    author: Author,
    makers: Creators<'_>,
    now: DateTime<Utc>,
) -> Result<(), ApiError> {
    let mut revoked = sqlx::query(
        "UPDATE delegations SET revoked_at = $4 WHERE revoked_at IS NULL \
         AND ((created_by_kind = 'user' AND created_by = $1 AND grantor_org_id = $2) \
              OR (created_by_kind = 'key' AND created_by = ANY($3))) RETURNING *",
    )
    .bind(makers.member.map(|(_, person)| person.0))
    .bind(makers.member.map(|(org, _)| org.0))
    .bind(makers.keys)
    .bind(now)
    .try_map(|row| read(&row))
    .fetch_all(&mut *transaction)
    .await?;
    // The outbox locks in this order.
    revoked.sort_by_key(|delegation| (delegation.grantor_org_id, delegation.grantee_org_id));
    for delegation in &revoked {
        tell_revoked(transaction, author, delegation, now).await?;
    }
    Ok(())
}
