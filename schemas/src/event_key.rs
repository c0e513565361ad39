//! The keys that determine which reports describe the same event (docs/api/event-keys.md#keys).
//!
//! Keys must never change: stored keys are compared with the keys of replayed records. Changing a rule here requires a new domain word and
//! a rebuild of the store.

mod canonical_ids;

pub use canonical_ids::{canonical_content_id, canonical_id, canonical_telemetry_id, telemetry_id_of_line};

use crate::event::SourceRole;
use crate::ids::{DrainId, OrgId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// 128 bits of a SHA-256; in JSON 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventKey(pub u128);

/// The identity of a report before any lookup, in the order the gateway tries the variants.
///
/// Every own key contains the organization but not the host, because a click token that only the worker can look up may still
/// determine the host.
pub enum OwnId<'a> {
    Reported {
        org: OrgId,
        /// Canonical, see [`canonical_id`].
        id: &'a str,
    },
    /// A report without an id in a request with an `Idempotency-Key`. The key also contains the event's subject, so reusing the header for
    /// another event doesn't merge the two. It contains neither time nor details, because they can differ in a retry.
    Idempotent {
        org: OrgId,
        idempotency_key: &'a str,
        /// The event as written to the log, without keys, time, `data` and unknown members.
        canonical_subject: &'a [u8],
        /// Index in the request.
        index: usize,
    },
    /// A session started with an `Idempotency-Key`. A retry starts the same session.
    Started { org: OrgId, idempotency_key: &'a str },
    /// A session uploaded without an id and without an `Idempotency-Key`: a retry uploads the same session.
    Uploaded { org: OrgId, body: &'a [u8] },
    /// A report without an id or `Idempotency-Key`. Its content identifies it, so a retry is the same report.
    Content {
        org: OrgId,
        /// The event as written to the log, without keys.
        canonical_event: &'a [u8],
        /// Index in the request, so that equal events of one request are distinct.
        index: usize,
    },
}

#[derive(Clone, Copy, Debug)]
pub enum FetchedContent<'a> {
    /// The page, see `ContentUrl::keyed`.
    Page(&'a str),
    /// The content id as reported, without a URL.
    Id(&'a str),
}

impl EventKey {
    /// Computes the reporter's own key of a report.
    pub fn own(id: &OwnId<'_>) -> Self {
        match id {
            OwnId::Reported { org, id } => hash("reported", &[org.0.as_bytes(), id.as_bytes()]),
            OwnId::Idempotent { org, idempotency_key, canonical_subject, index } => hash(
                "idempotent subject",
                &[org.0.as_bytes(), idempotency_key.as_bytes(), canonical_subject, &index.to_be_bytes()],
            ),
            OwnId::Started { org, idempotency_key } => hash("started", &[org.0.as_bytes(), idempotency_key.as_bytes()]),
            OwnId::Uploaded { org, body } => hash("uploaded", &[org.0.as_bytes(), body]),
            OwnId::Content { org, canonical_event, index } => {
                hash("content", &[org.0.as_bytes(), canonical_event, &index.to_be_bytes()])
            }
        }
    }

    /// Computes a key from the correlation id and the content, which all observers of a fetch report alike. `telemetry_id` is canonical,
    /// see [`canonical_telemetry_id`].
    pub fn correlation(telemetry_id: &str, content: FetchedContent<'_>) -> Self {
        match content {
            FetchedContent::Page(page) => hash("correlated page", &[telemetry_id.as_bytes(), page.as_bytes()]),
            FetchedContent::Id(id) => hash("correlated content", &[telemetry_id.as_bytes(), canonical_content_id(id).as_bytes()]),
        }
    }

    /// Computes the key that all observers of a fetch share. It contains the host but no organization, so an id first used on another host
    /// doesn't match. `host` is a reversed canonical host, or empty if it can't be owned.
    pub fn shared(host: &str, correlation: Self) -> Self {
        hash("retrieval", &[host.as_bytes(), &correlation.bytes()])
    }

    /// Computes the identity of a report with a correlation id. It contains the observer and the shared key, so a copy always belongs to
    /// the same event and observer.
    pub fn for_correlated_report(org: OrgId, role: Option<SourceRole>, drain: Option<DrainId>, shared: Self, own: Self) -> Self {
        let (role, drain) = (SourceRole::code(role), drain.map(|drain| drain.0).unwrap_or_default());
        hash("observer", &[org.0.as_bytes(), &[role], drain.as_bytes(), &shared.bytes(), &own.bytes()])
    }

    /// Computes the identity of a report without a correlation id. It doesn't contain the drain, so a line delivered through two drains or
    /// imported again is one report. `host` as in [`EventKey::shared`].
    pub fn for_report(org: OrgId, host: &str, own: Self) -> Self {
        hash("report", &[org.0.as_bytes(), host.as_bytes(), &own.bytes()])
    }

    fn bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

/// Hashes the parts, each prefixed with its length, so different lists never hash the same bytes.
fn hash(domain: &str, parts: &[&[u8]]) -> EventKey {
    let mut digest = Sha256::new();
    for part in std::iter::once(&domain.as_bytes()).chain(parts) {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    let bytes: [u8; 32] = digest.finalize().into();
    EventKey(bytes[..16].iter().fold(0, |key, byte| key << 8 | u128::from(*byte)))
}

impl Serialize for EventKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:032x}", self.0))
    }
}

impl<'de> Deserialize<'de> for EventKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16).map(Self).map_err(|_| serde::de::Error::custom("an event key is 32 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests;
