//! Lists all organizations for operators (docs/api/identity.md#operators).

use super::Operator;
use crate::access::prelude::*;
use crate::request::bodies::paging::Paging;
use service_kit::http::sort::{Sort, Sortable, order_by};

const ORGANIZATIONS: &str = include_str!("organizations.sql");
const COUNT: &str = include_str!("count_organizations.sql");
/// Columns to sort by. Names ignore case.
const SORTABLE: &Sortable = &[
    ("name", "lower(o.name) COLLATE \"C\""),
    ("org_type", "o.org_type"),
    ("members", "members"),
    ("created_at", "o.created_at"),
];

#[derive(Serialize, sqlx::FromRow)]
pub(crate) struct AnyOrganization {
    id: Uuid,
    name: String,
    org_type: String,
    domains: Vec<String>,
    members: i64,
    is_trusted_partner: bool,
    provisioned_by: Option<Uuid>,
    #[serde(serialize_with = "schemas::instant::serialize")]
    created_at: DateTime<Utc>,
}

#[derive(Deserialize)]
pub(crate) struct Filter {
    /// Part of the name or of a verified domain.
    q: Option<String>,
    trusted_partner: Option<bool>,
    provisioned_by: Option<Uuid>,
    sort: Option<String>,
    limit: Option<i64>,
    offset: Option<i64>,
}

/// Handles `GET /api/v1/identity/operator/organizations`; newest first, or by `sort`.
pub(crate) async fn list_all_organizations(
    Shared(state): Shared<Arc<State>>,
    Operator(_): Operator,
    Parameters(which): Parameters<Filter>,
) -> Result<ListResponse<AnyOrganization>, ApiError> {
    let paging = Paging::parse(which.limit, which.offset)?;
    let order = order_by(Sort::parse(which.sort.as_deref(), SORTABLE)?, "o.created_at DESC, o.id DESC");
    // PostgreSQL rejects NUL in text, and names never contain it.
    if which.q.as_ref().is_some_and(|part| part.contains('\0')) {
        return Ok(ListResponse::new(Vec::new(), 0));
    }
    let total = sqlx::query_scalar(COUNT).bind(&which.q).bind(which.trusted_partner).bind(which.provisioned_by);
    let total = total.fetch_one(&state.pool).await?;
    let listed = format!("{ORGANIZATIONS} ORDER BY {order} LIMIT $2 OFFSET $3");
    let listed = sqlx::query_as(sqlx::AssertSqlSafe(listed)).bind(which.q).bind(paging.limit).bind(paging.offset);
    let listed = listed.bind(which.trusted_partner).bind(which.provisioned_by).fetch_all(&state.pool).await?;
    Ok(ListResponse::new(listed, total))
}
