//! For receivers: is this delivery ours, fresh and new? The three checks of docs/api/webhooks.md#verifying.
//!
//! ```
//! use chrono::{DateTime, Utc};
//! use schemas::webhook::verify::{Receiver, Rejection};
//!
//! fn handle<'a>(receiver: &mut Receiver, header: impl Fn(&str) -> Option<&'a str>, body: &[u8], now: DateTime<Utc>) -> u16 {
//!     match receiver.accept(header, body, now) {
//!         Ok(delivery) => { /* do what delivery.envelope says, then */ receiver.remember(delivery.id()); 204 }
//!         Err(Rejection::Repeated) => 204, // done before: say so again, or it comes back
//!         Err(_) => 401,
//!     }
//! }
//! ```

use super::signature::{header, is_signed};
use super::{Envelope, EventType};
use crate::ids::DeliveryId;
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::{HashSet, VecDeque};

/// How far the timestamp of an attempt may be from the receiver's clock (docs/api/webhooks.md#verifying).
pub const TOLERANCE: TimeDelta = TimeDelta::minutes(5);
const REMEMBERED: usize = 100_000;

/// A delivery that is ours, fresh and new.
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

/// Why a request is not to be acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Rejection {
    #[error("a header is missing or cannot be read")]
    Malformed,
    /// Signed with another secret, or changed on the way.
    #[error("the signature is not that of this body")]
    Forged,
    /// Signed too long ago, or in the future.
    #[error("the timestamp is too far from now")]
    Stale,
    /// Signed, but not what this version of the library can read.
    #[error("the body is none of the events known here")]
    Unreadable,
    /// Answer 2xx: the sender did not hear the first one.
    #[error("the delivery was received before")]
    Repeated,
}

/// Checks signature and age; whether it is new is [`Receiver`]'s, or that of a unique column in your own database.
/// `header` looks a header up by its lower-case name.
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
    // The headers are not signed; whoever replays a delivery under another id is found out here.
    let is_same_id = header(header::DELIVERY_ID).is_none_or(|id| id.parse() == Ok(envelope.id));
    let is_same_type = header(header::EVENT_TYPE).is_none_or(|kind| kind == envelope.kind.as_str());
    if is_same_id && is_same_type { Ok(Delivery { envelope }) } else { Err(Rejection::Forged) }
}

/// One endpoint's secrets, and the deliveries it has handled, in memory: enough for one process that forgets them when it
/// restarts. Repeats may come for 39 hours, and whenever somebody asks for one.
pub struct Receiver {
    secrets: Vec<String>,
    handled: HashSet<DeliveryId>,
    oldest_first: VecDeque<DeliveryId>,
}

impl Receiver {
    /// Of the endpoint with this secret, as it was shown.
    pub fn new(secret: impl Into<String>) -> Self {
        Self { secrets: vec![secret.into()], handled: HashSet::new(), oldest_first: VecDeque::new() }
    }

    /// Takes what is signed with this secret too: while a secret is being rotated both are in use.
    #[must_use]
    pub fn or(mut self, secret: impl Into<String>) -> Self {
        self.secrets.push(secret.into());
        self
    }

    /// The delivery, when it is ours, fresh and not remembered yet. Act on it, then [`Receiver::remember`] it.
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

    /// Notes that a delivery is done with. Only now: one that is dropped half way must be taken when it comes again.
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

    /// A delivery as it is sent at a time.
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
    fn a_delivery_is_taken_once_it_is_remembered_only_once_and_until_then_as_often_as_it_comes() {
        let mut receiver = Receiver::new(SECRET);
        let (headers, body) = sent(SECRET, now());
        let id = check(&receiver, &headers, &body).unwrap();
        assert_eq!(check(&receiver, &headers, &body), Ok(id), "whoever fell over while handling it gets it again");
        receiver.remember(id);
        receiver.remember(id);
        let (later, same_body) = sent(SECRET, now() - TimeDelta::seconds(60));
        assert_eq!(check(&receiver, &later, &same_body), Err(Rejection::Repeated), "another attempt is the same delivery");
    }

    #[test]
    fn what_was_signed_too_long_ago_or_in_the_future_is_stale() {
        let receiver = Receiver::new(SECRET);
        for (seconds, is_fresh) in [(0, true), (300, true), (301, false), (-300, true), (-301, false), (86_400 * 365, false)] {
            let (headers, body) = sent(SECRET, now() - TimeDelta::seconds(seconds));
            let expected = if is_fresh { Ok(()) } else { Err(Rejection::Stale) };
            assert_eq!(check(&receiver, &headers, &body).map(drop), expected, "{seconds} s ago");
        }
    }

    #[test]
    fn one_changed_byte_anywhere_is_a_forgery() {
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
    fn what_lacks_a_header_or_is_no_event_is_told_apart() {
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
    fn while_a_secret_is_rotated_both_are_good() {
        let receiver = Receiver::new("whsec_new").or(SECRET);
        for secret in [SECRET, "whsec_new"] {
            let (headers, body) = sent(secret, now());
            assert!(check(&receiver, &headers, &body).is_ok(), "{secret}");
        }
        let (headers, body) = sent("whsec_older", now());
        assert_eq!(check(&receiver, &headers, &body), Err(Rejection::Forged));
    }

    #[test]
    fn the_memory_is_bounded_and_forgets_the_oldest() {
        let mut receiver = Receiver::new(SECRET);
        let id = |n: usize| DeliveryId(Uuid::from_u128(n as u128));
        (0..=REMEMBERED).for_each(|n| receiver.remember(id(n)));
        assert_eq!(receiver.handled.len(), REMEMBERED);
        assert!(!receiver.handled.contains(&id(0)) && receiver.handled.contains(&id(1)));
    }
}
