//! API keys, user sessions, sign-in tokens, click tokens and webhook secrets: mint, checksum, hash. A secret is shown once, stored as
//! a hash (a webhook secret, which must sign, sealed) and never logged.
//!
//! The plain types have no `Debug` and no `Display`, so that none is printed by accident. The prefixes are part of the public contract
//! (docs/api/http.md#authentication) and never change.

use crate::identity::OrgType;
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use rand::distr::{Alphanumeric, SampleString};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use std::fmt;
use std::ops::Range;

/// Random base62 characters in an API key: 178 bits.
const KEY_RANDOM_CHARS: usize = 30;
/// A CRC-32 in base62, so that a typo is refused without a query.
const KEY_CHECKSUM_CHARS: usize = 6;
/// Random base62 characters in a user session: 256 bits.
const SESSION_RANDOM_CHARS: usize = 43;
/// How much of a key may be shown later, to tell keys apart.
const SHOWN_PREFIX_CHARS: usize = 12;
/// Random base62 characters in a click token: 256 bits.
const CLICK_TOKEN_RANDOM_CHARS: usize = 43;
const CLICK_TOKEN_PREFIX: &str = "ctx_";
/// Random base62 characters in a webhook secret: 256 bits.
const WEBHOOK_SECRET_RANDOM_CHARS: usize = 43;
const WEBHOOK_SECRET_PREFIX: &str = "whsec_";
/// Random base62 characters in an invite: 256 bits.
const INVITE_RANDOM_CHARS: usize = 43;
const INVITE_PREFIX: &str = "inv_";
/// Random base62 characters in the password of an analyst's account: 190 bits.
const ANALYST_PASSWORD_RANDOM_CHARS: usize = 32;
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The SHA-256 of a secret: all that is ever stored; in JSON 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SecretHash([u8; 32]);

impl SecretHash {
    fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    pub fn from_stored(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The 32 bytes, as stored.
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

/// An API key as its holder sees it, once.
pub struct PlainApiKey(String);

impl PlainApiKey {
    /// Mints a key; the prefix tells the organisation's type, not its scopes (docs/api/http.md#authentication).
    pub fn mint(org_type: OrgType) -> Self {
        let random = Alphanumeric.sample_string(&mut rand::rng(), KEY_RANDOM_CHARS);
        let body = format!("{}{random}", key_prefix(org_type));
        let checksum = checksum(&body);
        Self(body + &checksum)
    }

    /// Reads a presented key. `None` is a text that was never minted: wrong prefix, length or checksum.
    pub fn parse(presented: &str) -> Option<Self> {
        let prefix = [OrgType::ContentOwner, OrgType::Platform].map(key_prefix);
        let prefix = prefix.into_iter().find(|prefix| presented.starts_with(prefix))?;
        let is_shaped = presented.len() == prefix.len() + KEY_RANDOM_CHARS + KEY_CHECKSUM_CHARS && presented.is_ascii();
        let (body, given) = is_shaped.then(|| presented.split_at(presented.len() - KEY_CHECKSUM_CHARS))?;
        (checksum(body) == given).then(|| Self(presented.to_owned()))
    }

    pub fn hash(&self) -> SecretHash {
        SecretHash::of(&self.0)
    }

    /// The first characters, which a list may show.
    pub fn shown_prefix(&self) -> &str {
        &self.0[..SHOWN_PREFIX_CHARS]
    }

    /// The whole key, for the one response that shows it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Random characters that whoever shows them holds something by: minted here, never by the holder, and looked up by
/// their hash.
macro_rules! random_secret {
    ($(#[$says:meta])* $name:ident, $prefix:expr, $random_chars:expr) => {
        $(#[$says])*
        pub struct $name(String);

        impl $name {
            pub fn mint() -> Self {
                Self(format!("{}{}", $prefix, Alphanumeric.sample_string(&mut rand::rng(), $random_chars)))
            }

            pub fn hash(&self) -> SecretHash {
                SecretHash::of(&self.0)
            }

            /// The whole secret, for the one response or mail that shows it.
            pub fn reveal(&self) -> &str {
                &self.0
            }
        }
    };
    // any opaque string may be shown: what was never minted is found nowhere
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
    /// A user session as its holder sees it, once: the bearer token and the cookie value.
    PlainUserSession,
    "",
    SESSION_RANDOM_CHARS
);
random_secret!(
    /// What a sign-in mail holds: good for one session, once, for a quarter of an hour. As long as a session, because it
    /// is as good as one while it lasts.
    PlainSignInToken,
    "",
    SESSION_RANDOM_CHARS,
    presented as it is
);
random_secret!(
    /// A click token as its holder sees it, once.
    PlainClickToken,
    CLICK_TOKEN_PREFIX,
    CLICK_TOKEN_RANDOM_CHARS,
    presented as it is
);
random_secret!(
    /// What is mailed to somebody who is invited, and claims the invite once.
    PlainInvite,
    INVITE_PREFIX,
    INVITE_RANDOM_CHARS,
    presented as it is
);

random_secret!(
    /// The password of an analyst's account in ClickHouse, as its holder sees it, once.
    PlainAnalystPassword,
    "",
    ANALYST_PASSWORD_RANDOM_CHARS
);

impl PlainUserSession {
    /// Reads a presented session. `None` is a text that was never minted.
    pub fn parse(presented: &str) -> Option<Self> {
        let is_shaped = presented.len() == SESSION_RANDOM_CHARS && presented.bytes().all(|b| b.is_ascii_alphanumeric());
        is_shaped.then(|| Self(presented.to_owned()))
    }
}

/// Where click tokens as [`PlainClickToken::mint`] makes them stand in a text.
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

/// Whether a text holds the prefix of a secret, in any case, or as many letters and digits in a row as a session has.
pub fn looks_like_a_secret(text: &str) -> bool {
    const PREFIXES: [&str; 5] = ["svc_pub_", "svc_pk_", CLICK_TOKEN_PREFIX, WEBHOOK_SECRET_PREFIX, INVITE_PREFIX];
    let lower = text.to_ascii_lowercase();
    let longest_run = text.split(|c: char| !c.is_ascii_alphanumeric()).map(str::len).max().unwrap_or(0);
    PREFIXES.iter().any(|prefix| lower.contains(prefix)) || longest_run >= SESSION_RANDOM_CHARS
}

/// What signs the deliveries to one webhook endpoint. Its bytes as shown, prefix included, are the signing key
/// (docs/api/webhooks.md#signature).
pub struct PlainWebhookSecret(String);

impl PlainWebhookSecret {
    pub fn mint() -> Self {
        Self(format!("{WEBHOOK_SECRET_PREFIX}{}", Alphanumeric.sample_string(&mut rand::rng(), WEBHOOK_SECRET_RANDOM_CHARS)))
    }

    /// The whole secret, for the one response that shows it, for sealing and for signing.
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
    fn a_minted_key_is_read_back_and_has_its_types_prefix() {
        for (org_type, prefix) in
            [(OrgType::ContentOwner, "svc_pub_"), (OrgType::Platform, "svc_pk_"), (OrgType::Agent, "svc_pk_")]
        {
            let key = PlainApiKey::mint(org_type);
            assert!(key.reveal().starts_with(prefix));
            assert_eq!(PlainApiKey::parse(key.reveal()).unwrap().hash(), key.hash());
        }
    }

    #[test]
    fn every_one_character_typo_is_refused() {
        let key = PlainApiKey::mint(OrgType::Platform);
        for at in 0..key.reveal().len() {
            let mut typo = key.reveal().as_bytes().to_vec();
            typo[at] = if typo[at] == b'x' { b'y' } else { b'x' };
            assert!(PlainApiKey::parse(std::str::from_utf8(&typo).unwrap()).is_none(), "position {at}");
        }
    }

    #[test]
    fn what_was_never_minted_is_refused() {
        let key = PlainApiKey::mint(OrgType::ContentOwner);
        let long = "svc_pk_".repeat(2_000);
        for presented in ["", "svc_pk_", "svc_pub_é", &long, &key.reveal().to_lowercase(), &format!("{} ", key.reveal())] {
            assert!(PlainApiKey::parse(presented).is_none());
        }
    }

    #[test]
    fn a_session_is_not_a_key_and_a_key_is_not_a_session() {
        assert!(PlainApiKey::parse(PlainUserSession::mint().reveal()).is_none());
        assert!(PlainUserSession::parse(PlainApiKey::mint(OrgType::Agent).reveal()).is_none());
    }

    #[test]
    fn a_hash_never_shows_in_debug_output() {
        assert_eq!(format!("{:?}", PlainUserSession::mint().hash()), "SecretHash(redacted)");
    }
}
