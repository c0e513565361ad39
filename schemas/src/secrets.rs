//! Creates, checks and hashes API keys, user sessions, sign-in tokens, click tokens and webhook secrets. Secrets are shown once and never
//! logged. Only their hashes are stored, except for webhook secrets, which are stored encrypted because they are needed for signing.
//!
//! The plain types implement neither `Debug` nor `Display`, so they can't be printed by accident. The prefixes are part of the public
//! contract (docs/api/http.md#authentication) and never change.

use crate::identity::OrgType;
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use rand::distr::{Alphanumeric, SampleString};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use std::fmt;
use std::ops::Range;

/// Random base62 characters in an API key: 178 bits.
const KEY_RANDOM_CHARS: usize = 30;
/// Base62 characters of a CRC-32 that detects typos without a query.
const KEY_CHECKSUM_CHARS: usize = 6;
/// Random base62 characters in a user session: 256 bits.
const SESSION_RANDOM_CHARS: usize = 43;
/// Characters of a key that are shown in lists.
const VISIBLE_PREFIX_CHARS: usize = 12;
/// Random base62 characters in a click token: 256 bits.
const CLICK_TOKEN_RANDOM_CHARS: usize = 43;
const CLICK_TOKEN_PREFIX: &str = "ctx_";
/// Random base62 characters in a webhook secret: 256 bits.
const WEBHOOK_SECRET_RANDOM_CHARS: usize = 43;
const WEBHOOK_SECRET_PREFIX: &str = "whsec_";
/// Random base62 characters in an invite: 256 bits.
const INVITE_RANDOM_CHARS: usize = 43;
const INVITE_PREFIX: &str = "inv_";
/// Random base62 characters in an analyst account's password: 190 bits.
const ANALYST_PASSWORD_RANDOM_CHARS: usize = 32;
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// SHA-256 of a secret, the only stored form. In JSON, 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SecretHash([u8; 32]);

impl SecretHash {
    fn from_secret(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    pub fn from_stored(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl Serialize for SecretHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&HEXLOWER.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for SecretHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok();
        let hash = bytes.and_then(|bytes| Self::from_stored(&bytes));
        hash.ok_or_else(|| serde::de::Error::custom("a hash is 64 hexadecimal digits"))
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(redacted)")
    }
}

/// An API key in plain text, shown once.
pub struct PlainApiKey(String);

impl PlainApiKey {
    /// Creates a key. Its prefix depends on the organization's type, not on its scopes (docs/api/http.md#authentication).
    pub fn generate(org_type: OrgType) -> Self {
        let random = Alphanumeric.sample_string(&mut rand::rng(), KEY_RANDOM_CHARS);
        let body = format!("{}{random}", key_prefix(org_type));
        let checksum = checksum(&body);
        Self(body + &checksum)
    }

    /// Parses a presented key. Returns `None` if prefix, length or checksum are wrong.
    pub fn parse(presented: &str) -> Option<Self> {
        let prefix = [OrgType::ContentOwner, OrgType::Platform].map(key_prefix);
        let prefix = prefix.into_iter().find(|prefix| presented.starts_with(prefix))?;
        let is_shaped = presented.len() == prefix.len() + KEY_RANDOM_CHARS + KEY_CHECKSUM_CHARS && presented.is_ascii();
        let (body, given) = is_shaped.then(|| presented.split_at(presented.len() - KEY_CHECKSUM_CHARS))?;
        (checksum(body) == given).then(|| Self(presented.to_owned()))
    }

    pub fn hash(&self) -> SecretHash {
        SecretHash::from_secret(&self.0)
    }

    /// Returns the first characters, which are shown in lists.
    pub fn visible_prefix(&self) -> &str {
        &self.0[..VISIBLE_PREFIX_CHARS]
    }

    /// Returns the whole key, for the only response that contains it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Defines a random secret that this service creates and looks up by its hash.
macro_rules! random_secret {
    ($(#[$says:meta])* $name:ident, $prefix:expr, $random_chars:expr) => {
        $(#[$says])*
        pub struct $name(String);

        impl $name {
            pub fn generate() -> Self {
                Self(format!("{}{}", $prefix, Alphanumeric.sample_string(&mut rand::rng(), $random_chars)))
            }

            pub fn hash(&self) -> SecretHash {
                SecretHash::from_secret(&self.0)
            }

            /// Returns the whole secret, for the only response or email that contains it.
            pub fn reveal(&self) -> &str {
                &self.0
            }
        }
    };
    // Any text may be presented. If it is unknown, the lookup finds no row.
    ($(#[$says:meta])* $name:ident, $prefix:expr, $random_chars:expr, presented as it is) => {
        random_secret!($(#[$says])* $name, $prefix, $random_chars);

        impl $name {
            pub fn presented(token: &str) -> Self {
                Self(token.to_owned())
            }
        }
    };
}

random_secret!(
    /// A user session in plain text, shown once: the bearer token and cookie value.
    PlainUserSession,
    "",
    SESSION_RANDOM_CHARS
);
random_secret!(
    /// The token in a sign-in email, valid once within 15 minutes. As long as a session token, because it can be exchanged for one.
    PlainSignInToken,
    "",
    SESSION_RANDOM_CHARS,
    presented as it is
);
random_secret!(
    /// A click token in plain text, shown once.
    PlainClickToken,
    CLICK_TOKEN_PREFIX,
    CLICK_TOKEN_RANDOM_CHARS,
    presented as it is
);
random_secret!(
    /// The secret in an invitation email. It can be used once.
    PlainInvite,
    INVITE_PREFIX,
    INVITE_RANDOM_CHARS,
    presented as it is
);

random_secret!(
    /// The password of an analyst account in ClickHouse, shown once.
    PlainAnalystPassword,
    "",
    ANALYST_PASSWORD_RANDOM_CHARS
);

impl PlainUserSession {
    /// Parses a presented session. Returns `None` if its format is wrong.
    pub fn parse(presented: &str) -> Option<Self> {
        let is_shaped = presented.len() == SESSION_RANDOM_CHARS && presented.bytes().all(|b| b.is_ascii_alphanumeric());
        is_shaped.then(|| Self(presented.to_owned()))
    }
}

/// Finds click tokens in text, in the format of [`PlainClickToken::generate`].
pub fn click_tokens_in(text: &str) -> impl Iterator<Item = Range<usize>> {
    let is_token = |random: &[u8]| random.iter().all(u8::is_ascii_alphanumeric);
    let mut from = 0;
    std::iter::from_fn(move || {
        while let Some(at) = text[from..].find(CLICK_TOKEN_PREFIX).map(|at| from + at) {
            let random = at + CLICK_TOKEN_PREFIX.len();
            let end = random + CLICK_TOKEN_RANDOM_CHARS;
            from = random;
            if text.as_bytes().get(random..end).is_some_and(is_token) {
                from = end;
                return Some(at..end);
            }
        }
        None
    })
}

/// Returns whether the text contains a secret's prefix in any case, or as many consecutive letters and digits as a session has.
pub fn looks_like_a_secret(text: &str) -> bool {
    const PREFIXES: [&str; 5] = ["svc_pub_", "svc_pk_", CLICK_TOKEN_PREFIX, WEBHOOK_SECRET_PREFIX, INVITE_PREFIX];
    let lower = text.to_ascii_lowercase();
    let longest_run = text.split(|c: char| !c.is_ascii_alphanumeric()).map(str::len).max().unwrap_or(0);
    PREFIXES.iter().any(|prefix| lower.contains(prefix)) || longest_run >= SESSION_RANDOM_CHARS
}

/// The secret that signs deliveries to a webhook endpoint. The signing key is its text, including the prefix
/// (docs/api/webhooks.md#signature).
pub struct PlainWebhookSecret(String);

impl PlainWebhookSecret {
    pub fn generate() -> Self {
        Self(format!("{WEBHOOK_SECRET_PREFIX}{}", Alphanumeric.sample_string(&mut rand::rng(), WEBHOOK_SECRET_RANDOM_CHARS)))
    }

    /// Returns the whole secret, for the only response that contains it, for encryption and for signing.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

fn key_prefix(org_type: OrgType) -> &'static str {
    match org_type {
        OrgType::ContentOwner => "svc_pub_",
        OrgType::Platform | OrgType::Agent => "svc_pk_",
    }
}

fn checksum(body: &str) -> String {
    let mut rest = crc32fast::hash(body.as_bytes());
    let mut digits = [b'0'; KEY_CHECKSUM_CHARS];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[(rest % 62) as usize];
        rest /= 62;
    }
    digits.iter().map(|digit| char::from(*digit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_round_trip_with_their_types_prefix() {
        for (org_type, prefix) in
            [(OrgType::ContentOwner, "svc_pub_"), (OrgType::Platform, "svc_pk_"), (OrgType::Agent, "svc_pk_")]
        {
            let key = PlainApiKey::generate(org_type);
            assert!(key.reveal().starts_with(prefix));
            assert_eq!(PlainApiKey::parse(key.reveal()).unwrap().hash(), key.hash());
        }
    }

    #[test]
    fn rejects_every_single_character_typo() {
        let key = PlainApiKey::generate(OrgType::Platform);
        for at in 0..key.reveal().len() {
            let mut typo = key.reveal().as_bytes().to_vec();
            typo[at] = if typo[at] == b'x' { b'y' } else { b'x' };
            assert!(PlainApiKey::parse(std::str::from_utf8(&typo).unwrap()).is_none(), "position {at}");
        }
    }

    #[test]
    fn rejects_malformed_keys() {
        let key = PlainApiKey::generate(OrgType::ContentOwner);
        let long = "svc_pk_".repeat(2_000);
        for presented in ["", "svc_pk_", "svc_pub_é", &long, &key.reveal().to_lowercase(), &format!("{} ", key.reveal())] {
            assert!(PlainApiKey::parse(presented).is_none());
        }
    }

    #[test]
    fn keys_and_sessions_are_distinct() {
        assert!(PlainApiKey::parse(PlainUserSession::generate().reveal()).is_none());
        assert!(PlainUserSession::parse(PlainApiKey::generate(OrgType::Agent).reveal()).is_none());
    }

    #[test]
    fn debug_output_redacts_hashes() {
        assert_eq!(format!("{:?}", PlainUserSession::generate().hash()), "SecretHash(redacted)");
    }
}
