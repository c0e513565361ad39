//! Access requests: a person requests a platform or agent organization, and lists their requests.

mod review;

pub(crate) use review::{
    Verdict, approve_access_request, list_access_requests_to_review, parse_note, reject_access_request, review, with_status,
};

use crate::access::columns;
use crate::access::prelude::*;
use crate::organizations::emails;
use crate::people::{self, Person};
use crate::request::email_address::EmailAddress;
use crate::request::text_rules::{self, Faults};
use schemas::identity::{AccessRequest, AccessState, OrgType, Review};
use schemas::ids::AccessRequestId;
use sqlx::Row;
use sqlx::postgres::PgRow;

const MAX_PENDING: i64 = 5;

fn read(row: &PgRow) -> Result<AccessRequest, sqlx::Error> {
    let by = row.try_get::<Option<_>, _>("reviewed_by")?.map(UserId);
    let (reviewed_at, note): (Option<DateTime<Utc>>, _) = (row.try_get("reviewed_at")?, row.try_get("reviewer_note")?);
    let review = reviewed_at.map(|at| Review { at, by, note });
    let organization = row.try_get::<Option<_>, _>("approved_org_id")?.map(OrgId);
    let state = AccessState::from_parts(columns::named(row, "status")?, review, organization);
    Ok(AccessRequest {
        id: AccessRequestId(row.try_get("id")?),
        user_id: UserId(row.try_get("user_id")?),
        org_type: columns::named(row, "org_type")?,
        org_name: row.try_get("org_name")?,
        admin_email: row.try_get("admin_email")?,
        use_case: row.try_get("use_case")?,
        state: state.ok_or_else(|| sqlx::Error::Decode("an access request has no state".into()))?,
        created_at: row.try_get("created_at")?,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRequest {
    org_name: Option<String>,
    admin_email: Option<String>,
    use_case: Option<String>,
}

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

pub(crate) async fn request_platform(
    Shared(state): Shared<Arc<State>>,
    person: Person,
    request: Request<Body>,
) -> Result<(StatusCode, Json<AccessRequest>), ApiError> {
    file(&state, &person, OrgType::Platform, request).await
}

pub(crate) async fn request_agent(
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
    organization_rows::require_room(&mut transaction, count, (person.user_id.0, MAX_PENDING), refusal).await?;
    let filed = sqlx::query(
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
    .try_map(|row| read(&row))
    .fetch_one(&mut *transaction)
    .await?;
    let detail = json!({"org_type": org_type, "org_name": filed.org_name});
    let change = Change { action: "access_request.created", object_kind: "access_request", object_id: filed.id.0, detail };
    audit::record_by(&mut transaction, person.author(), None, now, change).await?;
    transaction.commit().await?;
    emails::email_operators(state, &filed);
    Ok((StatusCode::CREATED, Json(filed)))
}

pub(crate) async fn list_platform_requests(
    Shared(state): Shared<Arc<State>>,
    person: Person,
    part: BoundedPaging,
) -> Result<ListResponse<AccessRequest>, ApiError> {
    own(&state, &person, OrgType::Platform).await.map(|requests| part.cut(requests))
}

pub(crate) async fn list_agent_requests(
    Shared(state): Shared<Arc<State>>,
    person: Person,
    part: BoundedPaging,
) -> Result<ListResponse<AccessRequest>, ApiError> {
    own(&state, &person, OrgType::Agent).await.map(|requests| part.cut(requests))
}

/// Returns the caller's requests of a type, oldest first.
async fn own(state: &State, person: &Person, org_type: OrgType) -> Result<Vec<AccessRequest>, ApiError> {
    let own = sqlx::query("SELECT * FROM access_requests WHERE user_id = $1 AND org_type = $2 ORDER BY created_at, id")
        .bind(person.user_id.0)
        .bind(org_type.as_str());
    Ok(own.try_map(|row| read(&row)).fetch_all(&state.pool).await?)
}
