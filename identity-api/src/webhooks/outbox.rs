//! The outbox: what webhooks will say, written in the transaction of the change they tell of (docs/api/webhooks.md#retries).
//!
//! Must not send anything, and must not change a row once it is written: its body is signed as it stands.

use crate::access::prelude::*;
use schemas::ids::{DeliveryId, WebhookEndpointId};
use schemas::webhook::{Data, Envelope, EventType};
use service_kit::budgets::cost;

const COUNT: &str = include_str!("count_subscribed.sql");

pub(crate) struct Event<'a> {
    /// The organization that made the change: it has a share of each endpoint's queue.
    pub(crate) from: OrgId,
    pub(crate) to: &'a [OrgId],
    pub(crate) kind: EventType,
    pub(crate) at: DateTime<Utc>,
    pub(crate) data: Data,
}

/// One message for every active endpoint of those concerned that is subscribed to the type.
///
/// In the order of organisations, and of endpoints within one: an endpoint that is nearly full is locked by whoever writes
/// to it until they commit (`schemas/postgres/0010_webhook_queue.sql`), and two that lock in opposite order would wait for
/// each other. Who tells of several events in a transaction goes by the order of organisations, too.
pub(crate) async fn announce(transaction: &mut PgConnection, event: Event<'_>) -> Result<(), ApiError> {
    let orgs: Vec<Uuid> = event.to.iter().map(|org| org.0).collect();
    // The lock makes disabling an endpoint wait for this transaction: nothing is written for it afterwards.
    let endpoints: Vec<(Uuid, Uuid)> = sqlx::query_as(
        "SELECT id, organization_id FROM webhook_endpoints \
         WHERE organization_id = ANY($1) AND disabled_at IS NULL AND $2 = ANY(event_types) ORDER BY organization_id, id FOR SHARE",
    )
    .bind(orgs)
    .bind(event.kind.as_str())
    .fetch_all(&mut *transaction)
    .await?;
    for (endpoint, organization) in endpoints {
        write(transaction, WebhookEndpointId(endpoint), OrgId(organization), &event).await?;
    }
    Ok(())
}

/// Returns what the messages of an event of this kind to these organizations cost of a budget: a message is a row in the outbox and one
/// in the queue.
pub(crate) async fn price(store: impl PgExecutor<'_>, to: &[OrgId], kind: EventType) -> Result<u64, sqlx::Error> {
    let orgs: Vec<Uuid> = to.iter().map(|org| org.0).collect();
    let count: i64 = sqlx::query_scalar(COUNT).bind(orgs).bind(kind.as_str()).fetch_one(store).await?;
    Ok(cost(2 * usize::try_from(count).unwrap_or(0), 0))
}

/// One message to one endpoint, whose row the caller has locked.
pub(crate) async fn write(
    transaction: &mut PgConnection,
    endpoint: WebhookEndpointId,
    organization: OrgId,
    event: &Event<'_>,
) -> Result<DeliveryId, ApiError> {
    let id = DeliveryId(Uuid::now_v7());
    let envelope = Envelope { id, kind: event.kind, created_at: event.at, data: event.data.clone() };
    let body = serde_json::to_string(&envelope).map_err(ApiError::internal)?;
    sqlx::query(
        "INSERT INTO webhook_deliveries (id, endpoint_id, organization_id, event_type, body, created_at, sender_id) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(id.0)
    .bind(endpoint.0)
    .bind(organization.0)
    .bind(event.kind.as_str())
    .bind(body)
    .bind(event.at)
    .bind(event.from.0)
    .execute(transaction)
    .await?;
    Ok(id)
}
