//! Webhook endpoints: create and list. `endpoint_state` disables, deletes and tests them, `deliveries` lists deliveries, `outbox`
//! writes messages, and stream-workers sends them.

pub(crate) mod deliveries;
pub(crate) mod outbox;
pub(crate) mod endpoint_state;
pub(crate) mod delivery_retention;
pub(crate) mod manual_send_limits;

pub use delivery_retention::DeliveryLogSettings;

use crate::access::columns;
use crate::access::permissions::{self, Creators, OwnerAction};
use crate::access::prelude::*;
use crate::request::bodies::fault;
use crate::request::text_rules::Faults;
use schemas::ids::WebhookEndpointId;
use schemas::problem::Fault;
use schemas::secrets::PlainWebhookSecret;
use schemas::webhook::{CreatedWebhookEndpoint, EventType, MAX_ENDPOINTS, WebhookEndpoint};
use schemas::webhook_url::{AllowedReceivers, parse_webhook_url};
use sqlx::Row;
use sqlx::postgres::PgRow;

pub(crate) const COLUMNS: &str = "\
    id, url, event_types, created_at, disabled_at, \
    (SELECT to_json(latest) FROM ( \
        SELECT last_attempt_at AS at, last_outcome AS outcome, last_status_code AS status_code, \
               coalesce(last_duration_ms, 0) AS duration_ms \
        FROM webhook_queue WHERE endpoint_id = webhook_endpoints.id AND last_attempt_at IS NOT NULL \
        ORDER BY last_attempt_at DESC LIMIT 1) latest) AS last_attempt";

/// Reads [`COLUMNS`].
pub(crate) fn read(row: &PgRow) -> Result<WebhookEndpoint, sqlx::Error> {
    Ok(WebhookEndpoint {
        id: WebhookEndpointId(row.try_get("id")?),
        url: row.try_get("url")?,
        event_types: columns::names(row, "event_types")?,
        created_at: row.try_get("created_at")?,
        disabled_at: row.try_get("disabled_at")?,
        last_attempt: row.try_get::<Option<sqlx::types::Json<_>>, _>("last_attempt")?.map(|latest| latest.0),
    })
}

/// Handles `GET /api/v1/identity/webhooks`; oldest first, without deleted ones.
pub(crate) async fn list_webhooks(
    Shared(state): Shared<Arc<State>>,
    IdentityReader(actor): IdentityReader,
    part: BoundedPaging,
) -> Result<ListResponse<WebhookEndpoint>, ApiError> {
    let listed = format!(
        "SELECT {COLUMNS} FROM webhook_endpoints WHERE organization_id = $1 AND deleted_at IS NULL ORDER BY created_at, id"
    );
    let listed = sqlx::query(sqlx::AssertSqlSafe(listed)).bind(actor.org_id.0).try_map(|row| read(&row));
    Ok(part.cut(listed.fetch_all(&state.pool).await?))
}

/// Handles `GET /api/v1/identity/webhooks/{id}`, including deleted endpoints.
pub(crate) async fn show_webhook(
    Shared(state): Shared<Arc<State>>,
    IdentityReader(actor): IdentityReader,
    Path(id): Path<String>,
) -> Result<Json<WebhookEndpoint>, ApiError> {
    let id: WebhookEndpointId = id.parse().map_err(|_| not_found())?;
    let shown = format!("SELECT {COLUMNS} FROM webhook_endpoints WHERE id = $1 AND organization_id = $2");
    let shown = sqlx::query(sqlx::AssertSqlSafe(shown)).bind(id.0).bind(actor.org_id.0).try_map(|row| read(&row));
    shown.fetch_optional(&state.pool).await?.map(Json).ok_or_else(not_found)
}

pub(crate) fn not_found() -> ApiError {
    ApiError::new(Code::NotFound, "Webhook endpoint not found.")
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewWebhook {
    url: Option<String>,
    event_types: Option<Vec<String>>,
}

pub(crate) async fn create_webhook(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    request: Request<Body>,
) -> Result<(StatusCode, Json<CreatedWebhookEndpoint>), ApiError> {
    let body = state.bodies.read(request).await?;
    let (url, event_types) = parse_new_webhook(&body, &state.receivers)?;
    let secret = PlainWebhookSecret::generate();
    let id = Uuid::now_v7();
    let sealed = state.sealer.seal(secret.reveal(), id.as_bytes()).map_err(ApiError::internal)?;
    let now = state.now();
    let mut transaction = state.pool.begin().await?;
    permissions::require_owner(&mut transaction, &actor, OwnerAction::Webhooks).await?;
    let count = "SELECT count(*) FROM webhook_endpoints WHERE organization_id = $1 AND deleted_at IS NULL";
    let refusal = format!("The organization has reached the limit of {MAX_ENDPOINTS} webhook endpoints. Delete one first.");
    organization_rows::require_room(&mut transaction, count, (actor.org_id.0, MAX_ENDPOINTS), refusal).await?;
    let (kind, maker) = Author::from(actor.credential).name();
    let insert = format!(
        "INSERT INTO webhook_endpoints \
             (id, organization_id, url, event_types, secret_sealed, created_at, created_by_kind, created_by) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING {COLUMNS}"
    );
    let endpoint = sqlx::query(sqlx::AssertSqlSafe(insert))
        .bind(id)
        .bind(actor.org_id.0)
        .bind(url)
        .bind(event_types.iter().map(|kind| kind.as_str()).collect::<Vec<_>>())
        .bind(sealed)
        .bind(now)
        .bind(kind)
        .bind(maker)
        .try_map(|row| read(&row))
        .fetch_one(&mut *transaction)
        .await?;
    let detail = json!({"url": endpoint.url, "event_types": endpoint.event_types});
    let change = Change { action: "webhook.created", object_kind: "webhook_endpoint", object_id: id, detail };
    audit::record(&mut transaction, &actor, now, change).await?;
    transaction.commit().await?;
    Ok((StatusCode::CREATED, Json(CreatedWebhookEndpoint { endpoint, secret: secret.reveal().to_owned() })))
}

pub(crate) fn parse_new_webhook(body: &[u8], allowed: &AllowedReceivers) -> Result<(String, Vec<EventType>), ApiError> {
    let new: NewWebhook = bodies::object(body)?;
    let url = new.url.ok_or_else(|| fault("url", "url is required"));
    let url = url.and_then(|url| parse_webhook_url(&url, allowed).map_err(|rule| fault("url", rule)));
    let mut faults = Faults::default();
    let url = faults.take(url).map(String::from);
    url.zip(faults.take(subscription(&new.event_types.unwrap_or_default()))).ok_or_else(|| faults.refuse())
}

/// Returns the named types, sorted and without duplicates.
fn subscription(names: &[String]) -> Result<Vec<EventType>, Fault> {
    let known = || EventType::SUBSCRIBED.map(EventType::as_str).join(", ");
    let kind = |name: &String| {
        let unknown = |_| fault("event_types", format!("event_types must contain only: {}; {name:?} is unknown", known()));
        EventType::subscribed(name).map_err(unknown)
    };
    let mut kinds = names.iter().map(kind).collect::<Result<Vec<_>, _>>()?;
    if kinds.is_empty() {
        return Err(fault("event_types", "event_types must contain at least one event type"));
    }
    kinds.sort_unstable();
    kinds.dedup();
    Ok(kinds)
}

/// Deletes the endpoints that these creators created, or whose secret they rotated last, because they know the secret.
pub(crate) async fn delete_created_by(
    transaction: &mut PgConnection,
    author: Author,
    makers: Creators<'_>,
    now: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    let deleted: Vec<(Uuid, Uuid)> = sqlx::query_as(
        "UPDATE webhook_endpoints SET deleted_at = $4, disabled_at = coalesce(disabled_at, $4) WHERE deleted_at IS NULL \
         AND ((created_by_kind = 'user' AND created_by = $1 AND organization_id = $2) \
              OR (created_by_kind = 'key' AND created_by = ANY($3))) RETURNING id, organization_id",
    )
    .bind(makers.member.map(|(_, person)| person.0))
    .bind(makers.member.map(|(org, _)| org.0))
    .bind(makers.keys)
    .bind(now)
    .fetch_all(&mut *transaction)
    .await?;
    for (id, org) in deleted {
        let change = Change { action: "webhook.deleted", object_kind: "webhook_endpoint", object_id: id, detail: json!({}) };
        audit::record_by(transaction, author, Some(OrgId(org)), now, change).await?;
    }
    Ok(())
}
