//! Signs and verifies HTTP Message Signatures (RFC 9421) with Ed25519, for reports (docs/api/signatures.md) and for agents that fetch pages
//! (Web Bot Auth).
//!
//! Doesn't open sockets or read clocks: the caller passes the request, the keys, the time and a nonce check.

mod signature_base;
mod request_signature;
pub mod content_telemetry;
mod structured_fields;
mod keys;
pub mod web_bot_auth;

#[cfg(test)]
mod rfc9421_vectors;
#[cfg(test)]
mod testing;

pub use keys::{Key, KeyError, ManifestError, PrivateKey, PublicKey, key_set, manifest_keys};
pub use request_signature::{RequestSignature, verify_base};
pub use signature_base::Request;

/// How far a signer's clock may be ahead, in seconds.
pub const MAX_SKEW: i64 = 60;

/// Result of verifying one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Valid,
    Invalid(Reason),
    /// The request has no signature with this profile's tag.
    None,
}

/// Why a signature is invalid. The first three reasons concern its form; the others are checked afterwards, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A header or parameter has an invalid form, or occurs twice.
    Malformed,
    /// A required component or parameter is missing, or a covered header is not in the request.
    Incomplete,
    /// Another algorithm, component or discovery type, or several signatures with the profile's tag.
    Unsupported,
    /// `Content-Digest` doesn't match the body.
    DigestMismatch,
    /// Expired, created in the future, or valid for too long.
    Stale,
    /// No key has this `keyid`.
    NoKey,
    /// The key is not valid at this time.
    ExpiredKey,
    /// The key did not sign this request.
    BadSignature,
    /// The nonce was used before.
    Replayed,
}

impl Reason {
    pub const ALL: [Self; 9] = [
        Self::Malformed,
        Self::Incomplete,
        Self::Unsupported,
        Self::DigestMismatch,
        Self::Stale,
        Self::NoKey,
        Self::ExpiredKey,
        Self::BadSignature,
        Self::Replayed,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Incomplete => "incomplete",
            Self::Unsupported => "unsupported",
            Self::DigestMismatch => "digest_mismatch",
            Self::Stale => "stale",
            Self::NoKey => "no_key",
            Self::ExpiredKey => "expired_key",
            Self::BadSignature => "bad_signature",
            Self::Replayed => "replayed",
        }
    }
}

/// Result of verifying one request, with the data needed to verify it again later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedSignature {
    pub verdict: Verdict,
    /// `None` if the request has no signature, or one that can't be read.
    pub claim: Option<RequestSignature>,
    /// The key that was used to verify the signature.
    pub key: Option<PublicKey>,
}

impl CheckedSignature {
    fn unread(verdict: Verdict) -> Self {
        Self { verdict, claim: None, key: None }
    }
}
