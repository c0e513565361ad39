//! Progress of a delivery, as in its owner's log.
//!
//! It contains only response statuses, and no details about failed DNS lookups, so it doesn't reveal anything about the internal network.

use super::EventType;
use crate::ids::DeliveryId;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

named_enum! {
    pub enum DeliveryStatus {
        /// Waiting for its first or next attempt.
        Pending = "pending",
        Delivered = "delivered",
        /// Failed eight times.
        DeadLetter = "dead_letter",
        /// Its endpoint was disabled, or had too many pending deliveries.
        Dropped = "dropped",
    }
}

named_enum! {
    pub enum AttemptOutcome {
        Delivered = "delivered",
        /// Any other status, including redirects.
        BadStatus = "bad_status",
        /// The name has no address, or one that is not public.
        NoPublicAddress = "no_public_address",
        /// The connection failed or broke.
        Unreachable = "unreachable",
        TlsExpired = "tls_expired",
        TlsNotYetValid = "tls_not_yet_valid",
        /// The certificate's issuer is not trusted.
        TlsUnknownAuthority = "tls_unknown_authority",
        TlsOtherName = "tls_other_name",
        /// The certificate belongs to an authority, not to a server.
        TlsAuthorityAsServer = "tls_authority_as_server",
        /// TLS failed for another reason.
        Tls = "tls",
        NotHttp = "not_http",
        /// No response within ten seconds.
        Timeout = "timeout",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastAttempt {
    /// RFC 3339: start of the attempt.
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
    pub outcome: AttemptOutcome,
    /// Status of the response, if there was one.
    pub status_code: Option<u16>,
    pub duration_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedDelivery {
    pub id: DeliveryId,
    pub event_type: EventType,
    pub status: DeliveryStatus,
    /// Completed attempts since the last request for delivery.
    pub attempts: i32,
    /// RFC 3339: when the event happened.
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    /// RFC 3339; absent if unknown.
    #[serde(default, with = "crate::instant::optional")]
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// Absent before the first attempt is complete.
    pub last_attempt: Option<LastAttempt>,
}
