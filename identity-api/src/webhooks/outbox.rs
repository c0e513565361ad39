//! The outbox: webhook messages, written in the transaction of the change they report (docs/api/webhooks.md#retries).
//!
//! This module doesn't send messages. Its rows never change, because deliveries sign the stored body.

use crate::access::prelude::*;
use schemas::ids::{DeliveryId, WebhookEndpointId};
use schemas::webhook::{Data, Envelope, EventType};
use service_kit::byte_budgets::cost;

const COUNT: &str = include_str!("count_subscribed.sql");

pub(crate) struct Event<'a> {
    /// The organization that made the change. It has a share of each endpoint's queue.
    pub(crate) from: OrgId,
    pub(crate) to: &'a [OrgId],
    pub(crate) kind: EventType,
    pub(crate) at: DateTime<Utc>,
    pub(crate) data: Data,
}

/// Writes one message for every enabled endpoint of these organizations that is subscribed to the type.
///
/// Locks organizations in order, then endpoints: the writer locks an endpoint that is nearly full until it commits
/// (`schemas/postgres/0010_webhook_queue.sql`), and opposite orders would deadlock. Transactions with several events must lock
/// organizations in the same order.
pub(crate) async fn announce(transaction: &mut PgConnection, event: Event<'_>) -> Result<(), ApiError> {
    let orgs: Vec<Uuid> = event.to.iter().map(|org| org.0).collect();
    // The lock makes disabling an endpoint wait for this transaction, so no message is written afterwards.
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

/// Returns the cost of an event's messages to these organizations: each message is a row in the outbox and one in the queue.
pub(crate) async fn price(store: impl PgExecutor<'_>, to: &[OrgId], kind: EventType) -> Result<u64, sqlx::Error> {
    let orgs: Vec<Uuid> = to.iter().map(|org| org.0).collect();
    let count: i64 = sqlx::query_scalar(COUNT).bind(orgs).bind(kind.as_str()).fetch_one(store).await?;
    Ok(cost(2 * usize::try_from(count).unwrap_or(0), 0))
}

/// Writes one message to one endpoint, whose row the caller has locked.
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
