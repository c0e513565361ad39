//! The registry of typed ids, alphabetical; doubles as a glossary.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use uuid::Uuid;

macro_rules! uuid_ids {
    ($($(#[$doc:meta])* $name:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self)
            }
        }
    )+};
}

uuid_ids! {
    /// Somebody's question for a platform or agent organisation.
    AccessRequestId;
    /// An analyst's account in ClickHouse (its row, never its password).
    AnalystAccountId;
    /// An API key (its row, never its secret).
    ApiKeyId;
    /// What a content owner lets a platform read.
    DelegationId;
    /// A platform's question for a delegation.
    DelegationRequestId;
    /// One message to one webhook endpoint, over all its attempts; the `id` of the signed body.
    DeliveryId;
    DomainId;
    /// A log stream of a CDN or a server.
    DrainId;
    /// An invitation to claim an organisation.
    InviteId;
    /// An organisation: content owner, platform or agent.
    OrgId;
    /// A reported agent session; only unique together with the organisation that reported it.
    SessionId;
    /// A person who can sign in.
    UserId;
    /// A registered receiver of webhooks.
    WebhookEndpointId;
}
