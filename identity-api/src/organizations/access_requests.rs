//! Access requests: a person asks for a platform or agent organisation, and lists what they asked.

mod review;

pub(crate) use review::{
    Verdict, approve_access_request, list_access_requests_to_review, parse_note, reject_access_request, review, with_status,
};

use crate::State;
use crate::access::audit::{self, Change};
use crate::access::organization;
use crate::organizations::mails;
use crate::people::{self, Person};
use crate::request::bodies;
use crate::request::bodies::paging::{ListPart, Listed};
use crate::request::email_address::EmailAddress;
use crate::request::text_rules::{self, Faults};
use axum::Json;
use axum::body::Body;
use axum::extract::State as Shared;
use axum::http::{Request, StatusCode};
use chrono::{DateTime, Utc};
use schemas::identity::{AccessRequest, AccessState, OrgType, Review};
use schemas::ids::{AccessRequestId, OrgId, UserId};
use serde::Deserialize;
use serde_json::json;
use service_kit::http::ApiError;
use std::sync::Arc;
use uuid::Uuid;

/// Most requests of one person that wait for a review.
const MAX_PENDING: i64 = 5;

#[derive(sqlx::FromRow)]
struct Row {
    id: Uuid,
    user_id: Uuid,
    org_type: String,
    org_name: String,
    admin_email: String,
    use_case: String,
    status: String,
    created_at: DateTime<Utc>,
    reviewed_at: Option<DateTime<Utc>>,
    reviewed_by: Option<Uuid>,
    reviewer_note: Option<String>,
    approved_org_id: Option<Uuid>,
}

impl TryFrom<Row> for AccessRequest {
    type Error = ApiError;

    fn try_from(row: Row) -> Result<Self, ApiError> {
        let review = row.reviewed_at.map(|at| Review { at, by: row.reviewed_by.map(UserId), note: row.reviewer_note });
        let status = row.status.parse().map_err(ApiError::internal)?;
        let state = AccessState::of(status, review, row.approved_org_id.map(OrgId));
        Ok(Self {
            id: AccessRequestId(row.id),
            user_id: UserId(row.user_id),
            org_type: row.org_type.parse().map_err(ApiError::internal)?,
            org_name: row.org_name,
            admin_email: row.admin_email,
            use_case: row.use_case,
            state: state.ok_or_else(|| ApiError::internal(anyhow::anyhow!("access request {} has no state", row.id)))?,
            created_at: row.created_at,
        })
    }
}

/// What a person may say of a new request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRequest {
    org_name: Option<String>,
    admin_email: Option<String>,
    use_case: Option<String>,
}

/// The name, whom to write to, and what for.
pub(crate) fn parse_new_request(body: &[u8]) -> Result<(String, EmailAddress, String), ApiError> {
    let new: NewRequest = bodies::object(body)?;
    let mut faults = Faults::default();
    let org_name = faults.take(text_rules::name("org_name", new.org_name));
    let admin_email = faults.take(text_rules::email("admin_email", new.admin_email));
    let use_case = faults.take(text_rules::prose("use_case", new.use_case));
    let (Some(org_name), Some(admin_email), Some(use_case)) = (org_name, admin_email, use_case) else {
        return Err(faults.refuse());
    };
    Ok((org_name, admin_email, use_case))
}

/// `POST /api/v1/identity/platform-access-requests`
pub(crate) async fn ask_for_platform(
    Shared(state): Shared<Arc<State>>,
    person: Person,
    request: Request<Body>,
) -> Result<(StatusCode, Json<AccessRequest>), ApiError> {
    file(&state, &person, OrgType::Platform, request).await
}

/// `POST /api/v1/identity/agent-access-requests`
pub(crate) async fn ask_for_agent(
    Shared(state): Shared<Arc<State>>,
    person: Person,
    request: Request<Body>,
) -> Result<(StatusCode, Json<AccessRequest>), ApiError> {
    file(&state, &person, OrgType::Agent, request).await
}

async fn file(
    state: &Arc<State>,
    person: &Person,
    org_type: OrgType,
    request: Request<Body>,
) -> Result<(StatusCode, Json<AccessRequest>), ApiError> {
    let body = state.bodies.read(request).await?;
    let (org_name, admin_email, use_case) = parse_new_request(&body)?;
    let now = state.now();
    let mut transaction = state.pool.begin().await?;
    people::lock(&mut transaction, person.user_id).await?;
    let count = "SELECT count(*) FROM access_requests WHERE user_id = $1 AND status = 'pending'";
    let refusal = format!("You already have {MAX_PENDING} pending requests. Wait until one is reviewed.");
    organization::require_room(&mut transaction, count, (person.user_id.0, MAX_PENDING), refusal).await?;
    let row: Row = sqlx::query_as(
        "INSERT INTO access_requests (id, user_id, org_type, org_name, admin_email, use_case, created_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING *",
    )
    .bind(Uuid::now_v7())
    .bind(person.user_id.0)
    .bind(org_type.as_str())
    .bind(org_name)
    .bind(admin_email.as_str())
    .bind(use_case)
    .bind(now)
    .fetch_one(&mut *transaction)
    .await?;
    let detail = json!({"org_type": org_type, "org_name": row.org_name});
    let change = Change { action: "access_request.created", object_kind: "access_request", object_id: row.id, detail };
    audit::record_by(&mut transaction, person.author(), None, now, change).await?;
    transaction.commit().await?;
    let filed = row.try_into()?;
    mails::tell_operators(state, &filed);
    Ok((StatusCode::CREATED, Json(filed)))
}

/// `GET /api/v1/identity/platform-access-requests`
pub(crate) async fn list_platform_requests(
    Shared(state): Shared<Arc<State>>,
    person: Person,
    part: ListPart,
) -> Result<Listed<AccessRequest>, ApiError> {
    own(&state, &person, OrgType::Platform).await.map(|requests| part.of(requests))
}

/// `GET /api/v1/identity/agent-access-requests`
pub(crate) async fn list_agent_requests(
    Shared(state): Shared<Arc<State>>,
    person: Person,
    part: ListPart,
) -> Result<Listed<AccessRequest>, ApiError> {
    own(&state, &person, OrgType::Agent).await.map(|requests| part.of(requests))
}

/// The caller's own of a type, oldest first.
async fn own(state: &State, person: &Person, org_type: OrgType) -> Result<Vec<AccessRequest>, ApiError> {
    let rows: Vec<Row> =
        sqlx::query_as("SELECT * FROM access_requests WHERE user_id = $1 AND org_type = $2 ORDER BY created_at, id")
            .bind(person.user_id.0)
            .bind(org_type.as_str())
            .fetch_all(&state.pool)
            .await?;
    rows.into_iter().map(AccessRequest::try_from).collect()
}
