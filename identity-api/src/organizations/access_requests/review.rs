//! Operators review access requests.
//!
//! The transitions are in `schemas::identity::AccessRequest` and are applied under the row's lock, so only the first review counts. An
//! approval creates the organization and its owner in the same transaction.

use super::read;
use crate::access::prelude::*;
use crate::organizations::creation::{self, OrganizationToCreate};
use crate::organizations::emails;
use crate::people::Operator;
use crate::request::text_rules;
use axum::body::HttpBody;
use axum::http::header;
use schemas::identity::{AccessRequest, AccessStatus, AlreadyReviewed, Review};
use schemas::ids::AccessRequestId;

/// Status to list. Lists all by default.
#[derive(Deserialize)]
pub(crate) struct WithStatus {
    status: Option<AccessStatus>,
}

/// Handles `GET /api/v1/identity/operator/access-requests`; oldest first.
pub(crate) async fn list_access_requests_to_review(
    Shared(state): Shared<Arc<State>>,
    Operator(_): Operator,
    Parameters(wanted): Parameters<WithStatus>,
    part: BoundedPaging,
) -> Result<ListResponse<AccessRequest>, ApiError> {
    with_status(&state.pool, wanted.status).await.map(|requests| part.cut(requests))
}

/// Returns the access requests with a status, oldest first.
pub(crate) async fn with_status(
    store: impl PgExecutor<'_>,
    status: Option<AccessStatus>,
) -> Result<Vec<AccessRequest>, ApiError> {
    let listed = "SELECT * FROM access_requests WHERE $1::text IS NULL OR status = $1 ORDER BY created_at, id";
    let listed = sqlx::query(listed).bind(status.map(AccessStatus::as_str)).try_map(|row| read(&row));
    Ok(listed.fetch_all(store).await?)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Approve,
    Reject,
}

/// Handles `POST /api/v1/identity/operator/access-requests/{id}/approve`: returns 201, because it creates an organization.
pub(crate) async fn approve_access_request(
    Shared(state): Shared<Arc<State>>,
    operator: Operator,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Result<(StatusCode, Json<AccessRequest>), ApiError> {
    let approved = answer(&state, operator, &id, request, Verdict::Approve).await?;
    Ok((StatusCode::CREATED, Json(approved)))
}

pub(crate) async fn reject_access_request(
    Shared(state): Shared<Arc<State>>,
    operator: Operator,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Result<Json<AccessRequest>, ApiError> {
    answer(&state, operator, &id, request, Verdict::Reject).await.map(Json)
}

async fn answer(
    state: &State,
    Operator(operator): Operator,
    id: &str,
    request: Request<Body>,
    verdict: Verdict,
) -> Result<AccessRequest, ApiError> {
    let note = read_note(state, request).await?;
    let id = find(id)?;
    let mut transaction = state.pool.begin().await?;
    let reviewed = review(&mut transaction, Some(operator), id, verdict, note, state.now()).await?;
    transaction.commit().await?;
    emails::send_verdict(&state.pool, &state.mailer, state.sign_in.entrance(), &reviewed).await;
    Ok(reviewed)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    note: Option<String>,
}

/// Reads the note; the body and its members are optional.
async fn read_note(state: &State, request: Request<Body>) -> Result<Option<String>, ApiError> {
    if request.body().is_end_stream() && !request.headers().contains_key(header::CONTENT_ENCODING) {
        return Ok(None);
    }
    parse_note(&state.bodies.read(request).await?)
}

pub(crate) fn parse_note(body: &[u8]) -> Result<Option<String>, ApiError> {
    let Note { note } = bodies::object(body)?;
    note.map(|note| text_rules::prose("note", Some(note))).transpose().map_err(bodies::refuse)
}

fn no_request() -> ApiError {
    ApiError::new(Code::NotFound, "Access request not found.")
}

/// Parses an id. Invalid ids get the same response as unknown ones.
fn find(id: &str) -> Result<AccessRequestId, ApiError> {
    id.parse().map_err(|_| no_request())
}

/// Approves or rejects a request, with or without an operator's name.
pub(crate) async fn review(
    transaction: &mut PgConnection,
    operator: Option<UserId>,
    id: AccessRequestId,
    verdict: Verdict,
    note: Option<String>,
    now: DateTime<Utc>,
) -> Result<AccessRequest, ApiError> {
    let author = operator.map_or(Author::System, Author::Operator);
    let found = sqlx::query("SELECT * FROM access_requests WHERE id = $1 FOR NO KEY UPDATE").bind(id.0);
    let request = found.try_map(|row| read(&row)).fetch_optional(&mut *transaction).await?.ok_or_else(no_request)?;
    let review = Review { at: now, by: operator, note };
    let reviewed = match verdict {
        Verdict::Reject => request.reject(review),
        Verdict::Approve => {
            let founding = OrganizationToCreate {
                name: &request.org_name,
                org_type: request.org_type,
                owner: Some(request.user_id),
                site: None,
                provisioned_by: None,
            };
            // Create the organization before checking the transition, because an error rolls back the transaction.
            let org = creation::insert_organization(transaction, author, founding, now).await?;
            request.approve(org, review)
        }
    };
    let reviewed =
        reviewed.map_err(|AlreadyReviewed| ApiError::new(Code::Conflict, "The access request was already reviewed."))?;
    keep(transaction, author, &reviewed, now).await?;
    Ok(reviewed)
}

async fn keep(
    transaction: &mut PgConnection,
    author: Author,
    request: &AccessRequest,
    now: DateTime<Utc>,
) -> Result<(), ApiError> {
    let (state, review) = (&request.state, request.state.review());
    sqlx::query(
        "UPDATE access_requests SET status = $2, reviewed_at = $3, reviewed_by = $4, reviewer_note = $5, approved_org_id = $6 \
         WHERE id = $1",
    )
    .bind(request.id.0)
    .bind(state.status().as_str())
    .bind(review.map(|review| review.at))
    .bind(review.and_then(|review| review.by).map(|user| user.0))
    .bind(review.and_then(|review| review.note.as_deref()))
    .bind(state.approved_org_id().map(|org| org.0))
    .execute(&mut *transaction)
    .await?;
    let action = match state.status() {
        AccessStatus::Approved => "access_request.approved",
        AccessStatus::Rejected | AccessStatus::Pending => "access_request.rejected",
    };
    let detail = json!({"user_id": request.user_id, "approved_org_id": state.approved_org_id()});
    let change = Change { action, object_kind: "access_request", object_id: request.id.0, detail };
    audit::record_by(transaction, author, state.approved_org_id(), now, change).await?;
    Ok(())
}
