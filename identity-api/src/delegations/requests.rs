//! Delegation requests: both sides list them, and the grantor approves or denies them.
//!
//! The transitions are in `schemas::identity::DelegationRequest` and are applied under the row's lock, so only the first answer counts.
//! `create_requests` creates requests.

mod create_requests;

pub(crate) use create_requests::{create_delegation_request, create_delegation_requests, dry_run, dry_run_bulk};

use crate::access::actor::Actor;
use crate::access::columns;
use crate::access::prelude::*;
use crate::delegations::{self, Pair, SideFilter};
use crate::request::bodies::paging::Paging;
use schemas::identity::{Delegation, DelegationRequest, InvalidTransition, REQUEST_LIFETIME, RequestState};
use schemas::ids::{DelegationId, DelegationRequestId};
use sqlx::Row;
use sqlx::postgres::PgRow;

fn read(row: &PgRow) -> Result<DelegationRequest, sqlx::Error> {
    let (status, delegation): (String, Option<Uuid>) = (row.try_get("status")?, row.try_get("delegation_id")?);
    let state = RequestState::from_parts(&status, row.try_get("resolved_at")?, delegation.map(DelegationId));
    Ok(DelegationRequest {
        id: DelegationRequestId(row.try_get("id")?),
        requester_org_id: OrgId(row.try_get("requester_org_id")?),
        requester_name: row.try_get("requester_name")?,
        grantor_org_id: OrgId(row.try_get("grantor_org_id")?),
        grantor_name: row.try_get("grantor_name")?,
        domain: row.try_get("domain")?,
        scopes: columns::names(row, "scopes")?,
        state: state.ok_or_else(|| sqlx::Error::Decode("a delegation request has no state".into()))?,
        created_at: row.try_get("created_at")?,
        expires_at: row.try_get("expires_at")?,
    })
}

/// Handles `GET /api/v1/identity/delegation-requests`; pending ones, oldest first.
pub(crate) async fn list_delegation_requests(
    Shared(state): Shared<Arc<State>>,
    IdentityReader(actor): IdentityReader,
    Parameters(side): Parameters<SideFilter>,
    part: BoundedPaging,
) -> Result<ListResponse<DelegationRequest>, ApiError> {
    let (now, Paging { limit, offset }) = (state.now(), part.bounded());
    let requests = sqlx::query(include_str!("sql/list_requests.sql"))
        .bind(actor.org_id.0)
        .bind(side.with_grantor())
        .bind(side.with_grantee())
        .bind(now)
        .bind(limit)
        .bind(offset)
        .try_map(|row| read(&row))
        .fetch_all(&state.pool)
        .await?;
    let total = sqlx::query_scalar(include_str!("sql/count_requests.sql"))
        .bind(actor.org_id.0)
        .bind(side.with_grantor())
        .bind(side.with_grantee())
        .bind(now)
        .fetch_one(&state.pool)
        .await?;
    Ok(ListResponse::new(requests, total))
}

/// Handles `POST /api/v1/identity/delegation-requests/{id}/approve`: returns 201 with the new delegation.
pub(crate) async fn approve_delegation_request(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<Delegation>), ApiError> {
    let (id, pair) = addressed_to(&state.pool, &actor, &id).await?;
    let mut transaction = state.pool.begin().await?;
    // Lock the pair before the row, as creating a request does, to avoid a deadlock.
    pair.lock(&mut transaction).await?;
    let request = locked(&mut transaction, id).await?;
    pair.charge(&state, &mut transaction, &actor).await?;
    let now = state.now();
    let delegation_id = DelegationId(Uuid::now_v7());
    let approved = request.approve(delegation_id, now).map_err(refused)?;
    let delegation = delegations::grant(&mut transaction, &actor, pair, delegation_id, &approved.scopes, now).await?;
    resolve(&mut transaction, &actor, &approved, "delegation_request.approved").await?;
    transaction.commit().await?;
    Ok((StatusCode::CREATED, Json(delegation)))
}

pub(crate) async fn deny_delegation_request(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let (id, _) = addressed_to(&state.pool, &actor, &id).await?;
    let mut transaction = state.pool.begin().await?;
    let request = locked(&mut transaction, id).await?;
    let denied = request.deny(state.now()).map_err(refused)?;
    resolve(&mut transaction, &actor, &denied, "delegation_request.denied").await?;
    transaction.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

fn not_found() -> ApiError {
    ApiError::new(Code::NotFound, "Delegation request not found.")
}

fn refused(invalid: InvalidTransition) -> ApiError {
    match invalid {
        InvalidTransition::AlreadyResolved => {
            ApiError::new(Code::Conflict, "The delegation request was already approved or denied.")
        }
        InvalidTransition::Expired => {
            ApiError::new(Code::Expired, "The delegation request has expired. The requester must send a new one.")
        }
    }
}

/// Returns the request if the caller can approve or deny it. Returns 403 for the requester, and 404 for all others.
async fn addressed_to(pool: &PgPool, actor: &Actor, id: &str) -> Result<(DelegationRequestId, Pair), ApiError> {
    let id: DelegationRequestId = id.parse().map_err(|_| not_found())?;
    let parties: Option<(Uuid, Uuid)> =
        sqlx::query_as("SELECT grantor_org_id, requester_org_id FROM delegation_requests WHERE id = $1")
            .bind(id.0)
            .fetch_optional(pool)
            .await?;
    let (grantor, requester) = parties.ok_or_else(not_found)?;
    let pair = Pair { grantor: OrgId(grantor), grantee: OrgId(requester) };
    if pair.grantor == actor.org_id {
        return Ok((id, pair));
    }
    if pair.grantee == actor.org_id {
        return Err(ApiError::new(
            Code::Forbidden,
            "Only the organization that received the delegation request can approve or deny it.",
        ));
    }
    Err(not_found())
}

/// Reads and locks a request until the transaction ends.
async fn locked(transaction: &mut PgConnection, id: DelegationRequestId) -> Result<DelegationRequest, ApiError> {
    let request = sqlx::query(
        "SELECT r.*, q.name AS requester_name, g.name AS grantor_name FROM delegation_requests r \
         JOIN organizations q ON q.id = r.requester_org_id JOIN organizations g ON g.id = r.grantor_org_id \
         WHERE r.id = $1 FOR NO KEY UPDATE OF r",
    )
    .bind(id.0)
    .try_map(|row| read(&row))
    .fetch_optional(transaction)
    .await?;
    request.ok_or_else(not_found)
}

async fn resolve(
    transaction: &mut PgConnection,
    actor: &Actor,
    request: &DelegationRequest,
    action: &'static str,
) -> Result<(), ApiError> {
    let resolved_at = request.state.resolved_at();
    sqlx::query("UPDATE delegation_requests SET status = $2, resolved_at = $3, delegation_id = $4 WHERE id = $1")
        .bind(request.id.0)
        .bind(request.state.status())
        .bind(resolved_at)
        .bind(request.state.delegation_id().map(|id| id.0))
        .execute(&mut *transaction)
        .await?;
    let delegation_id = request.state.delegation_id();
    let of = [
        (request.grantor_org_id, json!({"requester_org_id": request.requester_org_id, "delegation_id": delegation_id})),
        (request.requester_org_id, json!({"grantor_org_id": request.grantor_org_id, "delegation_id": delegation_id})),
    ];
    let (author, at) = (actor.credential.into(), resolved_at.unwrap_or(request.created_at));
    audit::record_for_both(transaction, author, of, at, (action, "delegation_request", request.id.0)).await?;
    Ok(())
}

/// Emails the owners about new requests, after the response. The email contains neither the requester's name nor the host they entered,
/// because platforms and agents don't have a verified domain.
fn tell_owners(state: &Arc<State>, filed: &[&DelegationRequest]) {
    let (telling, grantors) = (Arc::clone(state), filed.iter().map(|request| request.grantor_org_id).collect::<Vec<_>>());
    state.sign_in.mails().spawn(async move {
        for grantor in grantors {
            let text = format!(
                "A platform or AI agent requested access to the data about your pages. This email doesn't show its name \
                 because we haven't verified it.\n\n\
                 Review the request under Partners. It expires in {} days. Nothing is shared unless an owner approves it.\n\n\
                 Organization ID: {grantor}",
                REQUEST_LIFETIME.num_days(),
            );
            let owners = sqlx::query_scalar(
                "SELECT u.email FROM memberships m JOIN users u ON u.id = m.user_id \
                 WHERE m.organization_id = $1 AND m.role = 'owner' ORDER BY u.email",
            );
            let owners = owners.bind(grantor.0).fetch_all(&telling.pool).await;
            telling.email_all(owners, "A partner requests access to your data", &text).await;
        }
    });
}
