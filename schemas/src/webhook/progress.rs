//! How far a delivery has come, as its owner's log shows it.
//!
//! Must not tell what a receiver answered beyond its status, nor why a name led nowhere: whoever chose the URL must not
//! learn about the inside.

use super::EventType;
use crate::identity::UnknownName;
use crate::ids::DeliveryId;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryStatus {
    /// To be tried, or tried again.
    Pending,
    /// Answered with 2xx.
    Delivered,
    /// Failed eight times.
    DeadLetter,
    /// Its endpoint was disabled before, or had too many waiting when it was made.
    Dropped,
}

impl DeliveryStatus {
    /// Every status.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Delivered, Self::DeadLetter, Self::Dropped];

    /// The name in lists and in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::DeadLetter => "dead_letter",
            Self::Dropped => "dropped",
        }
    }
}

impl FromStr for DeliveryStatus {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|status| status.as_str() == name).ok_or_else(|| UnknownName(name.to_owned()))
    }
}

/// How an attempt ended, in one word each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptOutcome {
    /// Any 2xx.
    Delivered,
    /// Another status, a redirect too.
    BadStatus,
    /// The name leads to no public address, or to one that is not.
    NoPublicAddress,
    /// Nobody took the connection, or it broke.
    Unreachable,
    /// The certificate's time is over.
    TlsExpired,
    /// The certificate's time has not come.
    TlsNotYetValid,
    /// Nobody who is trusted vouches for the certificate.
    TlsUnknownAuthority,
    /// The certificate is for other names.
    TlsOtherName,
    /// The certificate is that of an authority, which is none of a server.
    TlsAuthorityAsServer,
    /// TLS did not come about for another reason.
    Tls,
    /// The answer is not HTTP.
    NotHttp,
    /// Not done within ten seconds.
    Timeout,
}

impl AttemptOutcome {
    /// Every outcome.
    pub const ALL: [Self; 12] = [
        Self::Delivered,
        Self::BadStatus,
        Self::NoPublicAddress,
        Self::Unreachable,
        Self::TlsExpired,
        Self::TlsNotYetValid,
        Self::TlsUnknownAuthority,
        Self::TlsOtherName,
        Self::TlsAuthorityAsServer,
        Self::Tls,
        Self::NotHttp,
        Self::Timeout,
    ];

    /// The name in lists, in the table and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::BadStatus => "bad_status",
            Self::NoPublicAddress => "no_public_address",
            Self::Unreachable => "unreachable",
            Self::TlsExpired => "tls_expired",
            Self::TlsNotYetValid => "tls_not_yet_valid",
            Self::TlsUnknownAuthority => "tls_unknown_authority",
            Self::TlsOtherName => "tls_other_name",
            Self::TlsAuthorityAsServer => "tls_authority_as_server",
            Self::Tls => "tls",
            Self::NotHttp => "not_http",
            Self::Timeout => "timeout",
        }
    }
}

impl FromStr for AttemptOutcome {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == name).ok_or_else(|| UnknownName(name.to_owned()))
    }
}

/// The latest attempt of a delivery.
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
    /// The `id` of the body.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_serde_writes_and_statuses_are_read_back() {
        for status in DeliveryStatus::ALL {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
            assert_eq!(status.as_str().parse(), Ok(status));
        }
        assert!("Pending".parse::<DeliveryStatus>().is_err());
        for outcome in AttemptOutcome::ALL {
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.as_str());
            assert_eq!(outcome.as_str().parse(), Ok(outcome));
        }
    }
}
