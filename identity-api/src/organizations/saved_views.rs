//! Views that an organization saved: pages of the console with their filters (docs/api/identity.md#saved-views).

use crate::access::prelude::*;
use crate::request::bodies::fault;
use crate::request::text_rules::{self, Faults};
use schemas::problem::Fault;

/// The console's pages with filters.
const PAGES: [&str; 8] = ["assistants", "corroboration", "events", "funnel", "overview", "pages", "reconciliation", "robots"];
const MAX_VIEWS: i64 = 100;
const MAX_QUERY_BYTES: usize = 2_000;

#[derive(Serialize, sqlx::FromRow)]
pub(crate) struct SavedView {
    id: Uuid,
    name: String,
    page: String,
    query: String,
    #[serde(serialize_with = "schemas::instant::serialize")]
    created_at: DateTime<Utc>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewSavedView {
    name: Option<String>,
    page: Option<String>,
    query: Option<String>,
}

/// Handles `GET /api/v1/identity/saved-views`; by name.
pub(crate) async fn list_saved_views(
    Shared(state): Shared<Arc<State>>,
    IdentityReader(actor): IdentityReader,
    part: BoundedPaging,
) -> Result<ListResponse<SavedView>, ApiError> {
    let listed = "SELECT id, name, page, query, created_at FROM saved_views WHERE organization_id = $1 ORDER BY lower(name), id";
    Ok(part.cut(sqlx::query_as(listed).bind(actor.org_id.0).fetch_all(&state.pool).await?))
}

/// Handles `POST /api/v1/identity/saved-views`. A view with the same name is replaced.
pub(crate) async fn save_view(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    request: Request<Body>,
) -> Result<(StatusCode, Json<SavedView>), ApiError> {
    let (name, page, query) = parse_new_view(&state.bodies.read(request).await?)?;
    let mut transaction = state.pool.begin().await?;
    organization_rows::lock(&mut transaction, actor.org_id).await?;
    let org = actor.org_id.0;
    sqlx::query("DELETE FROM saved_views WHERE organization_id = $1 AND name = $2")
        .bind(org)
        .bind(&name)
        .execute(&mut *transaction)
        .await?;
    let count = "SELECT count(*) FROM saved_views WHERE organization_id = $1";
    let refusal = format!("The organization has reached the limit of {MAX_VIEWS} saved views. Delete one first.");
    organization_rows::require_room(&mut transaction, count, (org, MAX_VIEWS), refusal).await?;
    let saved: SavedView = sqlx::query_as(
        "INSERT INTO saved_views (id, organization_id, name, page, query, created_at) VALUES ($1, $2, $3, $4, $5, $6) \
         RETURNING id, name, page, query, created_at",
    )
    .bind(Uuid::now_v7())
    .bind(org)
    .bind(name)
    .bind(page)
    .bind(query)
    .bind(state.now())
    .fetch_one(&mut *transaction)
    .await?;
    let detail = json!({"name": saved.name, "page": saved.page, "query": saved.query});
    let change = Change { action: "saved_view.saved", object_kind: "saved_view", object_id: saved.id, detail };
    audit::record(&mut transaction, &actor, state.now(), change).await?;
    transaction.commit().await?;
    Ok((StatusCode::CREATED, Json(saved)))
}

/// Returns name, page and query.
pub(crate) fn parse_new_view(body: &[u8]) -> Result<(String, String, String), ApiError> {
    let NewSavedView { name, page, query } = bodies::object(body)?;
    let mut faults = Faults::default();
    let name = faults.take(text_rules::label("name", name));
    let page = page.filter(|page| PAGES.contains(&page.as_str()));
    let page = faults.take(page.ok_or_else(|| fault("page", format!("page must be one of: {}", PAGES.join(", ")))));
    let query = faults.take(query_string(query.unwrap_or_default()));
    match (name, page, query) {
        (Some(name), Some(page), Some(query)) => Ok((name, page, query)),
        _ => Err(faults.refuse()),
    }
}

/// Accepts only characters of a query string, so the view's address can't leave its page.
fn query_string(query: String) -> Result<String, Fault> {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%!$'()*+,;:@/?=&".contains(&byte);
    if query.len() > MAX_QUERY_BYTES || !query.bytes().all(is_known) {
        return Err(fault(
            "query",
            format!("query must be an encoded query string of at most {MAX_QUERY_BYTES} bytes, without ? in front"),
        ));
    }
    Ok(query)
}

/// Handles `DELETE /api/v1/identity/saved-views/{id}`.
pub(crate) async fn delete_saved_view(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let not_found = || ApiError::new(Code::NotFound, "Saved view not found.");
    let id: Uuid = id.parse().map_err(|_| not_found())?;
    let mut transaction = state.pool.begin().await?;
    let name: Option<String> =
        sqlx::query_scalar("DELETE FROM saved_views WHERE id = $1 AND organization_id = $2 RETURNING name")
            .bind(id)
            .bind(actor.org_id.0)
            .fetch_optional(&mut *transaction)
            .await?;
    let detail = json!({"name": name.ok_or_else(not_found)?});
    let change = Change { action: "saved_view.deleted", object_kind: "saved_view", object_id: id, detail };
    audit::record(&mut transaction, &actor, state.now(), change).await?;
    transaction.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
