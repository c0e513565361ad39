//! For receivers: checks that a delivery is authentic, recent and new (docs/api/webhooks.md#verifying).
//!
//! ```
//! use chrono::{DateTime, Utc};
//! use schemas::webhook::verify::{Receiver, Rejection};
//!
//! fn handle<'a>(receiver: &mut Receiver, header: impl Fn(&str) -> Option<&'a str>, body: &[u8], now: DateTime<Utc>) -> u16 {
//!     match receiver.accept(header, body, now) {
//!         Ok(delivery) => { /* process delivery.envelope, then */ receiver.remember(delivery.id()); 204 }
//!         Err(Rejection::Repeated) => 204, // Already processed; without a 2xx it is sent again.
//!         Err(_) => 401,
//!     }
//! }
//! ```

use super::signature::{header, is_signed};
use super::{Envelope, EventType};
use crate::ids::DeliveryId;
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::{HashSet, VecDeque};

/// Maximum difference between an attempt's timestamp and the receiver's clock (docs/api/webhooks.md#verifying).
pub const TOLERANCE: TimeDelta = TimeDelta::minutes(5);
const REMEMBERED: usize = 100_000;

/// A delivery that is authentic, recent and new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub envelope: Envelope,
}

impl Delivery {
    pub fn id(&self) -> DeliveryId {
        self.envelope.id
    }

    pub fn kind(&self) -> EventType {
        self.envelope.kind
    }
}

/// Why a request must not be processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Rejection {
    #[error("a header is missing or invalid")]
    Malformed,
    /// Signed with another secret, or modified in transit.
    #[error("the signature does not match the body")]
    Forged,
    /// Signed too long ago, or in the future.
    #[error("the timestamp is too old or in the future")]
    Stale,
    /// Correctly signed, but this version of the library can't read it.
    #[error("the body is not a known event")]
    Unreadable,
    /// Already processed. Respond with 2xx, because the sender missed the first response.
    #[error("the delivery was already received")]
    Repeated,
}

/// Checks signature and age. [`Receiver`] or a unique column in your database detects repeats. `header` looks up a header by its
/// lower-case name.
pub fn verify<'a>(
    secret: &str,
    header: impl Fn(&str) -> Option<&'a str>,
    body: &[u8],
    now: DateTime<Utc>,
) -> Result<Delivery, Rejection> {
    let timestamp = header(header::TIMESTAMP).ok_or(Rejection::Malformed)?;
    let signature = header(header::SIGNATURE).ok_or(Rejection::Malformed)?;
    if !is_signed(secret, timestamp, body, signature) {
        return Err(Rejection::Forged);
    }
    let signed_at =
        timestamp.parse().ok().and_then(|seconds| DateTime::from_timestamp(seconds, 0)).ok_or(Rejection::Malformed)?;
    if (now - signed_at).abs() > TOLERANCE {
        return Err(Rejection::Stale);
    }
    let envelope: Envelope = serde_json::from_slice(body).map_err(|_| Rejection::Unreadable)?;
    // The headers are not signed. This detects a delivery replayed under another id.
    let is_same_id = header(header::DELIVERY_ID).is_none_or(|id| id.parse() == Ok(envelope.id));
    let is_same_type = header(header::EVENT_TYPE).is_none_or(|kind| kind == envelope.kind.as_str());
    if is_same_id && is_same_type { Ok(Delivery { envelope }) } else { Err(Rejection::Forged) }
}

/// An endpoint's secrets and its processed deliveries, in memory, which is enough for a single process. Repeats can arrive for 39 hours,
/// and whenever someone requests a redelivery.
pub struct Receiver {
    secrets: Vec<String>,
    handled: HashSet<DeliveryId>,
    oldest_first: VecDeque<DeliveryId>,
}

impl Receiver {
    /// Creates a receiver with the endpoint's secret as shown.
    pub fn new(secret: impl Into<String>) -> Self {
        Self { secrets: vec![secret.into()], handled: HashSet::new(), oldest_first: VecDeque::new() }
    }

    /// Also accepts signatures with this secret, for use during a rotation.
    #[must_use]
    pub fn or(mut self, secret: impl Into<String>) -> Self {
        self.secrets.push(secret.into());
        self
    }

    /// Returns the delivery if it is authentic, recent and not remembered. Process it, then call [`Receiver::remember`].
    pub fn accept<'a>(
        &self,
        header: impl Fn(&str) -> Option<&'a str>,
        body: &[u8],
        now: DateTime<Utc>,
    ) -> Result<Delivery, Rejection> {
        let mut outcome = Err(Rejection::Forged);
        for secret in &self.secrets {
            outcome = verify(secret, &header, body, now);
            if outcome != Err(Rejection::Forged) {
                break;
            }
        }
        outcome.and_then(|delivery| if self.handled.contains(&delivery.id()) { Err(Rejection::Repeated) } else { Ok(delivery) })
    }

    /// Remembers a delivery. Call it only after processing, so an interrupted delivery is accepted again.
    pub fn remember(&mut self, id: DeliveryId) {
        if !self.handled.insert(id) {
            return;
        }
        self.oldest_first.push_back(id);
        if self.oldest_first.len() > REMEMBERED
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.handled.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::signature::sign;
    use super::*;
    use crate::ids::{InviteId, OrgId};
    use crate::webhook::{Data, InviteData};
    use std::collections::HashMap;
    use uuid::Uuid;

    const SECRET: &str = "whsec_0123456789";

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_790_000_000, 0).unwrap()
    }

    fn sent(secret: &str, at: DateTime<Utc>) -> (HashMap<&'static str, String>, Vec<u8>) {
        let data = InviteData {
            id: InviteId(Uuid::from_u128(1)),
            organization_id: OrgId(Uuid::from_u128(2)),
            email: "a@a.test".to_owned(),
            claimed_at: at,
        };
        let envelope = Envelope {
            id: DeliveryId(Uuid::from_u128(3)),
            kind: EventType::InviteClaimed,
            created_at: now(),
            data: Data::Invite(data),
        };
        let body = serde_json::to_vec(&envelope).unwrap();
        let headers = HashMap::from([
            (header::SIGNATURE, sign(secret, at.timestamp(), &body)),
            (header::TIMESTAMP, at.timestamp().to_string()),
            (header::EVENT_TYPE, envelope.kind.as_str().to_owned()),
            (header::DELIVERY_ID, envelope.id.to_string()),
        ]);
        (headers, body)
    }

    fn check(receiver: &Receiver, headers: &HashMap<&'static str, String>, body: &[u8]) -> Result<DeliveryId, Rejection> {
        receiver.accept(|name| headers.get(name).map(String::as_str), body, now()).map(|delivery| delivery.id())
    }

    #[test]
    fn rejects_remembered_deliveries() {
        let mut receiver = Receiver::new(SECRET);
        let (headers, body) = sent(SECRET, now());
        let id = check(&receiver, &headers, &body).unwrap();
        assert_eq!(check(&receiver, &headers, &body), Ok(id), "an interrupted delivery is accepted again");
        receiver.remember(id);
        receiver.remember(id);
        let (later, same_body) = sent(SECRET, now() - TimeDelta::seconds(60));
        assert_eq!(check(&receiver, &later, &same_body), Err(Rejection::Repeated), "another attempt is the same delivery");
    }

    #[test]
    fn rejects_old_and_future_timestamps() {
        let receiver = Receiver::new(SECRET);
        for (seconds, is_fresh) in [(0, true), (300, true), (301, false), (-300, true), (-301, false), (86_400 * 365, false)] {
            let (headers, body) = sent(SECRET, now() - TimeDelta::seconds(seconds));
            let expected = if is_fresh { Ok(()) } else { Err(Rejection::Stale) };
            assert_eq!(check(&receiver, &headers, &body).map(drop), expected, "{seconds} s ago");
        }
    }

    #[test]
    fn rejects_modified_bodies_and_headers() {
        let receiver = Receiver::new(SECRET);
        let (headers, body) = sent(SECRET, now());
        for at in 0..body.len() {
            let mut changed = body.clone();
            changed[at] ^= 1;
            assert_eq!(check(&receiver, &headers, &changed), Err(Rejection::Forged), "byte {at}");
        }
        let (strangers, _) = sent("whsec_another", now());
        let mut replayed = headers.clone();
        replayed.insert(header::TIMESTAMP, (now().timestamp() + 1).to_string());
        let mut renamed = headers.clone();
        renamed.insert(header::DELIVERY_ID, Uuid::from_u128(9).to_string());
        let mut retyped = headers.clone();
        retyped.insert(header::EVENT_TYPE, EventType::DelegationRevoked.as_str().to_owned());
        for (what, headers) in
            [("another secret", strangers), ("another time", replayed), ("another id", renamed), ("another type", retyped)]
        {
            assert_eq!(check(&receiver, &headers, &body), Err(Rejection::Forged), "{what}");
        }
    }

    #[test]
    fn distinguishes_malformed_and_unreadable_deliveries() {
        let receiver = Receiver::new(SECRET);
        let (headers, body) = sent(SECRET, now());
        for name in [header::SIGNATURE, header::TIMESTAMP] {
            let mut lacking = headers.clone();
            lacking.remove(name);
            assert_eq!(check(&receiver, &lacking, &body), Err(Rejection::Malformed), "{name}");
        }
        let at = now().timestamp();
        let signed =
            |body: &[u8]| HashMap::from([(header::SIGNATURE, sign(SECRET, at, body)), (header::TIMESTAMP, at.to_string())]);
        for body in [&b""[..], b"{}", b"[]", b"{\"id\":7}"] {
            assert_eq!(check(&receiver, &signed(body), body), Err(Rejection::Unreadable));
        }
    }

    #[test]
    fn accepts_both_secrets_during_rotation() {
        let receiver = Receiver::new("whsec_new").or(SECRET);
        for secret in [SECRET, "whsec_new"] {
            let (headers, body) = sent(secret, now());
            assert!(check(&receiver, &headers, &body).is_ok(), "{secret}");
        }
        let (headers, body) = sent("whsec_older", now());
        assert_eq!(check(&receiver, &headers, &body), Err(Rejection::Forged));
    }

    #[test]
    fn forgets_the_oldest_deliveries() {
        let mut receiver = Receiver::new(SECRET);
        let id = |n: usize| DeliveryId(Uuid::from_u128(n as u128));
        (0..=REMEMBERED).for_each(|n| receiver.remember(id(n)));
        assert_eq!(receiver.handled.len(), REMEMBERED);
        assert!(!receiver.handled.contains(&id(0)) && receiver.handled.contains(&id(1)));
    }
}
