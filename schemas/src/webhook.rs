//! Webhooks: event types, the envelope with its data, and endpoints in lists.
//!
//! `signature` signs deliveries, `retry_schedule` defines retries, `delivery_log` contains their progress, and `verify` is for receivers.

pub mod delivery_log;
pub mod retry_schedule;
pub mod signature;
pub mod verify;

use self::delivery_log::LastAttempt;
use crate::identity::{Delegation, DelegationRequest, Scope, UnknownName};
use crate::ids::{DelegationId, DeliveryId, InviteId, OrgId, WebhookEndpointId};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

pub const MAX_ENDPOINTS: i64 = 10;

named_enum! {
    /// Event types that an endpoint can subscribe to (docs/api/webhooks.md#registering).
    pub enum EventType {
        /// Sent to both organizations.
        DelegationCreated = "delegation.created",
        /// Sent to both organizations.
        DelegationRevoked = "delegation.revoked",
        DelegationRequestCreated = "delegation_request.created",
        InviteClaimed = "invite.claimed",
        ReconciliationException = "reconciliation.exception",
        /// Sent only to the tested endpoint; not for subscriptions.
        WebhookTest = "webhook.test",
    }
}

impl EventType {
    /// Every type that endpoints can subscribe to, in alphabetical order.
    pub const SUBSCRIBED: [Self; 5] = [
        Self::DelegationCreated,
        Self::DelegationRevoked,
        Self::DelegationRequestCreated,
        Self::InviteClaimed,
        Self::ReconciliationException,
    ];

    /// Parses a type that endpoints can subscribe to.
    pub fn subscribed(name: &str) -> Result<Self, UnknownName> {
        let kind: Self = name.parse()?;
        Self::SUBSCRIBED.contains(&kind).then_some(kind).ok_or_else(|| UnknownName(name.to_owned()))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// The same for every attempt. Also in `X-Svc-Delivery-Id`.
    pub id: DeliveryId,
    /// Also in `X-Svc-Event-Type`.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// RFC 3339; when the event happened, not when it is sent.
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    pub data: Data,
}

/// The event's object (docs/api/webhooks.md#delivery).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Data {
    Delegation(DelegationData),
    DelegationRequest(Box<DelegationRequest>),
    Invite(InviteData),
    Reconciliation(ReconciliationData),
    Webhook(WebhookData),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookData {
    pub id: WebhookEndpointId,
}

/// A delegation in webhooks, with exactly these members (docs/api/webhooks.md#registering).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelegationData {
    pub id: DelegationId,
    pub grantor_org_id: OrgId,
    pub grantee_org_id: OrgId,
    /// The granted or requested scopes.
    pub scopes: Vec<Scope>,
    /// RFC 3339; absent unless it was revoked.
    #[serde(default, with = "crate::instant::optional", skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<DateTime<Utc>>,
}

/// An invitation in webhooks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InviteData {
    pub id: InviteId,
    pub organization_id: OrgId,
    pub email: String,
    #[serde(with = "crate::instant")]
    pub claimed_at: DateTime<Utc>,
}

/// A day on which a licensee reached the owner's thresholds (docs/api/reconciliation.md#alerts).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReconciliationData {
    pub organization_id: OrgId,
    /// Day in UTC, as `2026-11-01`.
    pub day: String,
    /// The licensee; empty if unknown.
    pub operator: String,
    /// Fetches that neither match nor lack coverage, when the thresholds were reached.
    pub differing_fetches: i64,
    pub compared_fetches: i64,
}

impl From<&Delegation> for DelegationData {
    fn from(delegation: &Delegation) -> Self {
        Self {
            id: delegation.id,
            grantor_org_id: delegation.grantor_org_id,
            grantee_org_id: delegation.grantee_org_id,
            scopes: delegation.scopes.clone(),
            revoked_at: delegation.revoked_at,
        }
    }
}

/// An endpoint in lists (docs/api/webhooks.md#registering).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookEndpoint {
    pub id: WebhookEndpointId,
    pub url: String,
    pub event_types: Vec<EventType>,
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    /// RFC 3339; absent while it is enabled.
    #[serde(default, with = "crate::instant::optional")]
    pub disabled_at: Option<DateTime<Utc>>,
    pub last_attempt: Option<LastAttempt>,
}

/// The 201 of a registered endpoint, the only response with its secret.
#[derive(Clone, Serialize, Deserialize)]
pub struct CreatedWebhookEndpoint {
    #[serde(flatten)]
    pub endpoint: WebhookEndpoint,
    pub secret: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use uuid::Uuid;

    #[test]
    fn delegation_created_webhook_has_the_published_members() {
        let id = |n| Uuid::from_u128(n);
        let data = DelegationData {
            id: DelegationId(id(1)),
            grantor_org_id: OrgId(id(2)),
            grantee_org_id: OrgId(id(3)),
            scopes: vec![Scope::TelemetryRead],
            revoked_at: None,
        };
        let envelope = Envelope {
            id: DeliveryId(id(4)),
            kind: EventType::DelegationCreated,
            created_at: DateTime::from_timestamp(1_790_000_000, 0).unwrap(),
            data: Data::Delegation(data),
        };
        let expected = json!({
            "id": id(4), "type": "delegation.created", "created_at": "2026-09-21T14:13:20.000Z",
            "data": {"delegation": {"id": id(1), "grantor_org_id": id(2), "grantee_org_id": id(3), "scopes": ["telemetry:read"]}}
        });
        assert_eq!(serde_json::to_value(&envelope).unwrap(), expected);
        assert_eq!(serde_json::from_value::<Envelope>(expected).unwrap(), envelope);
    }
}
