//! Typed ids, in alphabetical order.

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
    /// A request for a platform or agent organization.
    AccessRequestId;
    /// An analyst account in ClickHouse (its row, never its password).
    AnalystAccountId;
    /// An API key (its row, never its secret).
    ApiKeyId;
    /// A content owner's permission for a platform to read its data.
    DelegationId;
    /// A platform's request for a delegation.
    DelegationRequestId;
    /// A message to one webhook endpoint; the `id` in the signed body, the same for all attempts.
    DeliveryId;
    DomainId;
    /// A log stream of a CDN or a server.
    DrainId;
    /// An invitation to join an organization.
    InviteId;
    /// A registered manifest.
    ManifestId;
    /// An organization: content owner, platform or agent.
    OrgId;
    /// A session that an agent reported. Unique only within its organization.
    SessionId;
    /// A monthly statement.
    StatementId;
    /// A person who can sign in.
    UserId;
    /// A registered receiver of webhooks.
    WebhookEndpointId;
}
