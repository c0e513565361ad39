//! The identity of an event for counting (docs/api/counting.md#keys): what makes two reports one.
//!
//! Must stay stable for ever: keys of stored rows are compared with keys of replayed records. A change of any
//! rule here needs a new domain word and a rebuild of the store.

use crate::ids::OrgId;
use crate::site::Site;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// 128 bits of a SHA-256; in JSON 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventKey(pub u128);

/// What an event is identified by, in the order in which the gateway tries them.
pub enum Identity<'a> {
    /// A retrieval with a correlation id: every observer of it gets the same key. The site in it means that
    /// nobody can claim an id on a host before its real observers do.
    Retrieval {
        /// The host, when it has one that can be owned.
        site: Option<&'a Site>,
        /// As canonicalised by [`canonical_telemetry_id`].
        content_telemetry_id: &'a str,
        /// The page (`ContentUrl::keyed`), else the content id.
        content: &'a str,
    },
    /// An event with an id of its own: unique per reporting organisation.
    Reported {
        /// Who reported it.
        org: OrgId,
        /// As canonicalised by [`canonical_id`].
        id: &'a str,
    },
    /// No id, but the caller's `Idempotency-Key`. What happened to what, where, is in the key as well: a header value
    /// that is used again for something else must not make two events one. The time and the details are not: a retry
    /// may write them anew.
    Idempotent {
        /// Who reported it.
        org: OrgId,
        /// The header's value.
        idempotency_key: &'a str,
        /// The event as it goes to the log, without key, time, `data` and unknown members.
        canonical_subject: &'a [u8],
        /// Place in the request.
        index: usize,
    },
    /// A session to be started under the caller's `Idempotency-Key`: a retry starts the same one.
    Started {
        /// Who starts it.
        org: OrgId,
        /// The header's value.
        idempotency_key: &'a str,
    },
    /// A session uploaded whole without an id or a key of the caller's: a retry is the same one.
    Uploaded {
        /// Who uploads it.
        org: OrgId,
        /// The body as sent.
        body: &'a [u8],
    },
    /// Nothing to go by: the normalised event itself, so that a retry collapses.
    Content {
        /// Who reported it.
        org: OrgId,
        /// The event as it goes to the log, without its key.
        canonical_event: &'a [u8],
        /// Place in the request: equal events of one request are several.
        index: usize,
    },
}

impl EventKey {
    /// Derives the key.
    pub fn of(identity: &Identity<'_>) -> Self {
        match identity {
            Identity::Retrieval { site, content_telemetry_id, content } => {
                let site = site.map(Site::as_str).unwrap_or_default();
                hash("retrieval", &[site.as_bytes(), content_telemetry_id.as_bytes(), content.as_bytes()])
            }
            Identity::Reported { org, id } => hash("reported", &[org.0.as_bytes(), id.as_bytes()]),
            Identity::Idempotent { org, idempotency_key, canonical_subject, index } => hash(
                "idempotent subject",
                &[org.0.as_bytes(), idempotency_key.as_bytes(), canonical_subject, &index.to_be_bytes()],
            ),
            Identity::Started { org, idempotency_key } => hash("started", &[org.0.as_bytes(), idempotency_key.as_bytes()]),
            Identity::Uploaded { org, body } => hash("uploaded", &[org.0.as_bytes(), body]),
            Identity::Content { org, canonical_event, index } => {
                hash("content", &[org.0.as_bytes(), canonical_event, &index.to_be_bytes()])
            }
        }
    }
}

/// Brings the spellings of a UUID (upper case, braces, `urn:uuid:`, no hyphens) to one; leaves other ids alone.
pub fn canonical_id(id: &str) -> String {
    Uuid::try_parse(id).map_or_else(|_| id.to_owned(), |uuid| uuid.to_string())
}

/// What loggers, languages and people write where there is no correlation id, in lower case.
const NO_TELEMETRY_ID: [&str; 8] = [
    "",
    "-",
    "null",
    "(null)",
    "none",
    "undefined",
    "00000000-0000-0000-0000-000000000000",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
];

/// A correlation id as every observer has it: without the spaces and quotes that a header or its log has around it. What
/// stands for none is none, or fetches that have nothing in common would be one.
pub fn canonical_telemetry_id(id: &str) -> Option<String> {
    let id = canonical_id(id.trim_matches(|around: char| around.is_whitespace() || matches!(around, '"' | '\'')));
    let is_none = NO_TELEMETRY_ID.iter().any(|none| id.eq_ignore_ascii_case(none));
    (!is_none).then_some(id)
}

/// Every part is preceded by its length, so that no two lists of parts are the same bytes.
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
mod tests {
    use super::*;

    fn org(n: u128) -> OrgId {
        OrgId(Uuid::from_u128(n))
    }

    fn retrieval(site: &str, id: &str, content: &str) -> EventKey {
        let site = Site::from_domain(site).unwrap();
        EventKey::of(&Identity::Retrieval { site: Some(&site), content_telemetry_id: id, content })
    }

    /// One identity of every kind.
    fn of_every_kind(org: OrgId, site: Option<&Site>) -> [(&'static str, Identity<'_>); 6] {
        let (idempotency_key, canonical_subject, canonical_event) = ("k1", b"{\"a\":1}".as_slice(), b"{\"b\":2}".as_slice());
        [
            ("retrieval", Identity::Retrieval { site, content_telemetry_id: "t1", content: "example.com/a" }),
            ("reported", Identity::Reported { org, id: "e1" }),
            ("idempotent", Identity::Idempotent { org, idempotency_key, canonical_subject, index: 3 }),
            ("started", Identity::Started { org, idempotency_key }),
            ("uploaded", Identity::Uploaded { org, body: b"{}" }),
            ("content", Identity::Content { org, canonical_event, index: 3 }),
        ]
    }

    fn written(key: EventKey) -> String {
        format!("{:032x}", key.0)
    }

    #[test]
    fn e11_the_keys_of_stored_rows_never_change_of_no_kind() {
        let site = Site::from_domain("example.com").unwrap();
        let golden = [
            ("retrieval", "b4325471f7e0c7f571f7dd8c666553a9"),
            ("reported", "749fc4a0e83c14bd6af287cde6279ebd"),
            ("idempotent", "dee284e9db87866b9dd03a38154a8bd0"),
            ("started", "3d95dc6a5b4dc91c444c444fa9c0e140"),
            ("uploaded", "d456dd54a6d1e5421e2098b2e62641ce"),
            ("content", "1e632364fe24d10667c79c3cd53c10fc"),
        ];
        let found = of_every_kind(org(1), Some(&site)).map(|(kind, identity)| (kind, written(EventKey::of(&identity))));
        assert_eq!(found.each_ref().map(|(kind, key)| (*kind, key.as_str())), golden);
    }

    #[test]
    fn e11_every_key_but_a_retrievals_is_of_one_organisation() {
        for ((kind, mine), (_, theirs)) in of_every_kind(org(1), None).iter().zip(&of_every_kind(org(2), None)) {
            assert_eq!(EventKey::of(mine) == EventKey::of(theirs), *kind == "retrieval", "{kind}");
        }
    }

    #[test]
    fn every_part_of_an_identity_is_in_its_key() {
        let (org, subject, body) = (org(1), b"{}".as_slice(), b"[]".as_slice());
        let idempotent = |idempotency_key, canonical_subject, index| {
            EventKey::of(&Identity::Idempotent { org, idempotency_key, canonical_subject, index })
        };
        let content = |canonical_event, index| EventKey::of(&Identity::Content { org, canonical_event, index });
        let started = |idempotency_key| EventKey::of(&Identity::Started { org, idempotency_key });
        let uploaded = |body| EventKey::of(&Identity::Uploaded { org, body });
        let mut keys = [
            idempotent("k", subject, 0),
            idempotent("l", subject, 0),
            idempotent("k", body, 0),
            idempotent("k", subject, 1),
            content(subject, 0),
            content(body, 0),
            content(subject, 1),
            started("k"),
            started("l"),
            uploaded(subject),
            uploaded(body),
        ];
        keys.sort_unstable();
        assert!(keys.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn a_correlation_id_cannot_be_claimed_on_another_host_or_page() {
        let mine = retrieval("a.test", "t1", "a.test/x");
        assert_ne!(mine, retrieval("evil.test", "t1", "a.test/x"));
        assert_ne!(mine, retrieval("a.test", "t1", "a.test/y"));
        assert_ne!(mine, retrieval("a.test", "t2", "a.test/x"));
    }

    #[test]
    fn parts_cannot_be_shifted_into_each_other() {
        assert_ne!(hash("x", &[b"ab", b"c"]), hash("x", &[b"a", b"bc"]));
        assert_ne!(hash("x", &[b"a"]), hash("y", &[b"a"]));
    }

    #[test]
    fn ids_are_unique_per_reporting_organisation() {
        let of = |org, id| EventKey::of(&Identity::Reported { org, id });
        assert_eq!(of(org(1), "e"), of(org(1), "e"));
        assert_ne!(of(org(1), "e"), of(org(2), "e"));
    }

    #[test]
    fn four_spellings_of_a_uuid_are_one_id() {
        let canonical = "67e55044-10b1-426f-9247-bb680e5fe0c8";
        for spelling in [
            canonical,
            "67E55044-10B1-426F-9247-BB680E5FE0C8",
            "67e5504410b1426f9247bb680e5fe0c8",
            "{67e55044-10b1-426f-9247-bb680e5fe0c8}",
            "urn:uuid:67e55044-10b1-426f-9247-bb680e5fe0c8",
        ] {
            assert_eq!(canonical_id(spelling), canonical);
        }
        assert_eq!(canonical_id("Order-7"), "Order-7");
    }

    #[test]
    fn a_correlation_id_is_what_every_observer_has_of_it_and_a_placeholder_is_none() {
        let canonical = "67e55044-10b1-426f-9247-bb680e5fe0c8";
        for (reported, expected) in [
            ("t-1", "t-1"),
            (" t-1\t", "t-1"),
            ("\"t-1\"", "t-1"),
            ("' t-1'", "t-1"),
            ("T-1 2", "T-1 2"),
            ("\"{67E55044-10B1-426F-9247-BB680E5FE0C8}\"", canonical),
            ("nullify", "nullify"),
            ("--", "--"),
            ("0", "0"),
        ] {
            assert_eq!(canonical_telemetry_id(reported).as_deref(), Some(expected), "{reported:?}");
        }
        for placeholder in NO_TELEMETRY_ID {
            for spelling in [placeholder.to_owned(), format!(" \"{placeholder}\""), placeholder.to_uppercase()] {
                assert_eq!(canonical_telemetry_id(&spelling), None, "{spelling:?}");
            }
        }
        let nil = Uuid::nil();
        for spelling in [nil.simple().to_string(), nil.urn().to_string(), nil.braced().to_string()] {
            assert_eq!(canonical_telemetry_id(&spelling), None, "{spelling:?}");
        }
        assert_eq!(canonical_telemetry_id(&Uuid::max().simple().to_string()), None);
    }

    #[test]
    fn a_key_survives_json() {
        let key = retrieval("a.test", "t1", "a.test/x");
        assert_eq!(serde_json::from_str::<EventKey>(&serde_json::to_string(&key).unwrap()).unwrap(), key);
        assert_eq!(serde_json::from_str::<EventKey>("\"00000000000000000000000000000001\"").unwrap(), EventKey(1));
    }
}
