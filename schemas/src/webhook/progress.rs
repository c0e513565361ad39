//! How far a delivery has come, as its owner's log shows it.
//!
//! It says no more of an answer than its status, and nothing of why a name led nowhere: whoever chose the URL must not learn about the
//! inside.

use super::EventType;
use crate::ids::DeliveryId;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

named_enum! {
    pub enum DeliveryStatus {
        /// To be tried, or tried again.
        Pending = "pending",
        Delivered = "delivered",
        /// Failed eight times.
        DeadLetter = "dead_letter",
        /// Its endpoint was disabled before, or had too many waiting when it was made.
        Dropped = "dropped",
    }
}

named_enum! {
    /// How an attempt ended, in one word each.
    pub enum AttemptOutcome {
        Delivered = "delivered",
        /// Another status, a redirect too.
        BadStatus = "bad_status",
        /// The name leads to no public address, or to one that is not.
        NoPublicAddress = "no_public_address",
        /// Nobody took the connection, or it broke.
        Unreachable = "unreachable",
        TlsExpired = "tls_expired",
        TlsNotYetValid = "tls_not_yet_valid",
        /// Nobody who is trusted vouches for the certificate.
        TlsUnknownAuthority = "tls_unknown_authority",
        /// The certificate is for other names.
        TlsOtherName = "tls_other_name",
        /// The certificate is that of an authority, which is none of a server.
        TlsAuthorityAsServer = "tls_authority_as_server",
        /// TLS did not come about for another reason.
        Tls = "tls",
        NotHttp = "not_http",
        /// Not done within ten seconds.
        Timeout = "timeout",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastAttempt {
    /// RFC 3339: when it began.
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
    pub outcome: AttemptOutcome,
    /// What the receiver answered, when it did.
    pub status_code: Option<u16>,
    pub duration_ms: i64,
}

/// A delivery as its endpoint's log shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedDelivery {
    pub id: DeliveryId,
    pub event_type: EventType,
    pub status: DeliveryStatus,
    /// Attempts that have ended, since it was last asked for.
    pub attempts: i32,
    /// RFC 3339: when it happened.
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    /// RFC 3339; absent when there will be none.
    #[serde(default, with = "crate::instant::optional")]
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// Absent before the first one has ended.
    pub last_attempt: Option<LastAttempt>,
}
