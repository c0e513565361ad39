//! Lists dead letters for operators, and requests retries (docs/api/identity.md#dead-letters). A worker executes them.

use super::Operator;
use crate::access::prelude::*;
use crate::request::bodies::paging::Paging;

const LISTED: &str = include_str!("dead_letters.sql");
const COUNT: &str = "\
    SELECT count(*) FROM dead_letters \
    WHERE ($1::boolean IS NULL OR (restored_as IS NOT NULL) = $1) AND ($2::uuid IS NULL OR organization_id = $2)";
const REQUEST: &str = "\
    INSERT INTO dead_letter_retries AS known (dead_letter_id, requested_at) VALUES ($1, $2) \
    ON CONFLICT (dead_letter_id) DO UPDATE SET requested_at = greatest(excluded.requested_at, known.requested_at + interval '1 ms')";

#[derive(Serialize, sqlx::FromRow)]
pub(crate) struct DeadLetter {
    id: Uuid,
    origin: String,
    reason: String,
    #[serde(serialize_with = "schemas::instant::serialize")]
    rejected_at: DateTime<Utc>,
    bytes: i64,
    organization_id: Option<Uuid>,
    organization_name: Option<String>,
    request_id: Option<String>,
    status: String,
    restored_as: Option<String>,
    refusal: Option<String>,
}

#[derive(Default, Deserialize)]
pub(crate) struct Filter {
    restored: Option<bool>,
    organization_id: Option<Uuid>,
    limit: Option<i64>,
    offset: Option<i64>,
}

async fn read(
    store: impl PgExecutor<'_>,
    id: Option<Uuid>,
    which: &Filter,
    paging: Paging,
) -> Result<Vec<DeadLetter>, sqlx::Error> {
    let letters = sqlx::query_as(LISTED).bind(id).bind(which.restored).bind(which.organization_id);
    letters.bind(paging.limit).bind(paging.offset).fetch_all(store).await
}

/// Handles `GET /api/v1/identity/operator/dead-letters`; newest first.
pub(crate) async fn list_dead_letters(
    Shared(state): Shared<Arc<State>>,
    Operator(_): Operator,
    Parameters(which): Parameters<Filter>,
) -> Result<ListResponse<DeadLetter>, ApiError> {
    let paging = Paging::parse(which.limit, which.offset)?;
    let letters = read(&state.pool, None, &which, paging).await?;
    let total = sqlx::query_scalar(COUNT).bind(which.restored).bind(which.organization_id).fetch_one(&state.pool).await?;
    Ok(ListResponse::new(letters, total))
}

fn not_found() -> ApiError {
    ApiError::new(Code::NotFound, "Dead letter not found.")
}

async fn find(connection: &mut PgConnection, id: Uuid) -> Result<DeadLetter, ApiError> {
    let found = read(connection, Some(id), &Filter::default(), Paging { limit: 1, offset: 0 }).await?;
    found.into_iter().next().ok_or_else(not_found)
}

/// Handles `POST /api/v1/identity/operator/dead-letters/{id}/retry`. A retry that a worker hasn't started yet isn't requested again.
pub(crate) async fn retry_dead_letter(
    Shared(state): Shared<Arc<State>>,
    Operator(operator): Operator,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<DeadLetter>), ApiError> {
    let id: Uuid = id.parse().map_err(|_| not_found())?;
    let mut transaction = state.pool.begin().await?;
    let mut found = find(&mut transaction, id).await?;
    match found.status.as_str() {
        "restored" => return Err(ApiError::new(Code::Conflict, "This dead letter is already restored.")),
        "retrying" => {}
        _ => {
            sqlx::query(REQUEST).bind(id).bind(state.now()).execute(&mut *transaction).await?;
            let organization = found.organization_name.as_ref().and(found.organization_id).map(OrgId);
            let detail = json!({"origin": found.origin});
            let change = Change { action: "dead_letter.retried", object_kind: "dead_letter", object_id: id, detail };
            audit::record_by(&mut transaction, Author::Operator(operator), organization, state.now(), change).await?;
            found = find(&mut transaction, id).await?;
        }
    }
    transaction.commit().await?;
    Ok((StatusCode::ACCEPTED, Json(found)))
}
