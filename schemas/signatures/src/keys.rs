//! Ed25519 keys: public keys in Content Telemetry manifests (multibase) and JWK Sets, and private keys.

use chrono::DateTime;
use data_encoding::BASE64URL_NOPAD;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use thiserror::Error;

/// Multicodec prefix of an Ed25519 public key.
const ED25519: [u8; 2] = [0xed, 0x01];
const MAX_KEYS: usize = 100;
const MAX_ID_CHARS: usize = 256;
/// Larger numbers are milliseconds, which some directories publish.
const MAX_SECONDS: f64 = 1e11;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

/// Why a public key is invalid.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum KeyError {
    #[error("publicKey must start with z (base58btc)")]
    NotBase58,
    #[error("publicKey contains characters that base58btc doesn't have")]
    BadBase58,
    #[error("publicKey must start with the bytes 0xed 0x01 (Ed25519)")]
    OtherType,
    #[error("publicKey must contain 32 bytes after 0xed 0x01")]
    BadLength,
    #[error("publicKey is not a safe point of the curve")]
    BadPoint,
}

impl PublicKey {
    /// Rejects low-order keys, for which anyone can forge signatures.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, KeyError> {
        let key = VerifyingKey::from_bytes(bytes).ok().filter(|key| !key.is_weak());
        key.map(Self).ok_or(KeyError::BadPoint)
    }

    /// Parses a multibase key such as `z6Mk…`: `z`, then base58btc of 0xed 0x01 and the 32 bytes.
    pub fn from_multibase(text: &str) -> Result<Self, KeyError> {
        let encoded = text.strip_prefix('z').ok_or(KeyError::NotBase58)?;
        // Decoding takes quadratic time.
        if encoded.len() > MAX_ID_CHARS {
            return Err(KeyError::BadLength);
        }
        let bytes = bs58::decode(encoded).into_vec().map_err(|_| KeyError::BadBase58)?;
        let key = bytes.strip_prefix(&ED25519).ok_or(KeyError::OtherType)?;
        Self::from_bytes(key.try_into().map_err(|_| KeyError::BadLength)?)
    }

    pub fn to_multibase(&self) -> String {
        format!("z{}", bs58::encode([&ED25519[..], self.0.as_bytes()].concat()).into_string())
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// The RFC 7638 thumbprint: base64url of the SHA-256 of the JWK.
    pub fn thumbprint(&self) -> String {
        let jwk = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#, BASE64URL_NOPAD.encode(self.as_bytes()));
        BASE64URL_NOPAD.encode(&Sha256::digest(jwk))
    }

    pub(crate) fn verify(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        self.0.verify_strict(message, &Signature::from_bytes(signature)).is_ok()
    }
}

/// A signing key with its names and validity period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Id in the manifest. Keys from a JWK Set have only a thumbprint.
    pub id: Option<String>,
    pub public: PublicKey,
    /// Unix seconds, inclusive.
    pub not_before: Option<i64>,
    /// Unix seconds, exclusive.
    pub expires: Option<i64>,
}

impl Key {
    pub(crate) fn is_named(&self, key_id: &str) -> bool {
        self.id.as_deref() == Some(key_id) || self.public.thumbprint() == key_id
    }

    pub(crate) fn is_valid_at(&self, now: i64) -> bool {
        self.not_before.is_none_or(|start| start <= now) && self.expires.is_none_or(|end| now < end)
    }
}

/// Why a manifest is rejected.
#[derive(Debug, Error)]
pub enum ManifestError {
    #[error("the manifest is not valid: {0}")]
    NotJson(#[from] serde_json::Error),
    #[error("a manifest may contain at most {MAX_KEYS} keys")]
    TooManyKeys,
    #[error("keys[{0}].id must be 1 to {MAX_ID_CHARS} printable ASCII characters")]
    BadId(usize),
    #[error("keys[{0}].id is the id or thumbprint of another key")]
    DuplicateId(usize),
    #[error("keys[{0}].type must be Ed25519")]
    OtherType(usize),
    #[error("keys[{0}].{1}")]
    BadKey(usize, KeyError),
    #[error("keys[{0}].expires must be an RFC 3339 time")]
    BadExpires(usize),
}

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    keys: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
    r#type: String,
    #[serde(rename = "publicKey")]
    public_key: String,
    expires: Option<String>,
}

/// Returns the keys of a Content Telemetry manifest. One invalid entry rejects the manifest.
pub fn manifest_keys(manifest: &[u8]) -> Result<Vec<Key>, ManifestError> {
    let manifest: Manifest = serde_json::from_slice(manifest)?;
    if manifest.keys.len() > MAX_KEYS {
        return Err(ManifestError::TooManyKeys);
    }
    let mut names = HashSet::new();
    let mut keys = Vec::new();
    for (index, entry) in manifest.keys.into_iter().enumerate() {
        let key = entry.key(index)?;
        // A key may use its own thumbprint as its id.
        let own = HashSet::from([entry.id, key.public.thumbprint()]);
        if own.into_iter().any(|name| !names.insert(name)) {
            return Err(ManifestError::DuplicateId(index));
        }
        keys.push(key);
    }
    Ok(keys)
}

impl Entry {
    fn key(&self, index: usize) -> Result<Key, ManifestError> {
        if !(1..=MAX_ID_CHARS).contains(&self.id.len()) || !self.id.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return Err(ManifestError::BadId(index));
        }
        if self.r#type != "Ed25519" {
            return Err(ManifestError::OtherType(index));
        }
        let public = PublicKey::from_multibase(&self.public_key).map_err(|error| ManifestError::BadKey(index, error))?;
        let expires = self.expires.as_deref().map(DateTime::parse_from_rfc3339).transpose();
        let expires = expires.map_err(|_| ManifestError::BadExpires(index))?.map(|time| time.timestamp());
        Ok(Key { id: Some(self.id.clone()), public, not_before: None, expires })
    }
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    crv: String,
    x: String,
    #[serde(rename = "use")]
    usage: Option<String>,
    alg: Option<String>,
    nbf: Option<f64>,
    exp: Option<f64>,
    d: Option<String>,
}

/// Returns the Ed25519 signing keys in a JWK Set. Ignores other entries, and keys that include the private part.
pub fn key_set(text: &[u8]) -> Result<Vec<Key>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Set {
        keys: Vec<Value>,
    }
    let set: Set = serde_json::from_slice(text)?;
    let jwks = set.keys.into_iter().take(MAX_KEYS).filter_map(|entry| serde_json::from_value::<Jwk>(entry).ok());
    Ok(jwks.filter(|jwk| jwk.d.is_none()).filter_map(|jwk| jwk.key()).collect())
}

impl Jwk {
    fn key(&self) -> Option<Key> {
        let is_ed25519 = self.kty == "OKP" && self.crv == "Ed25519";
        let signs = self.usage.as_deref().is_none_or(|usage| usage == "sig")
            && self.alg.as_deref().is_none_or(|alg| matches!(alg, "EdDSA" | "Ed25519" | "ed25519"));
        let public = (is_ed25519 && signs).then(|| bytes(&self.x)).flatten()?;
        let seconds = |date: f64| (if date > MAX_SECONDS { date / 1_000.0 } else { date }) as i64;
        Some(Key {
            id: None,
            public: PublicKey::from_bytes(&public).ok()?,
            not_before: self.nbf.map(seconds),
            expires: self.exp.map(seconds),
        })
    }
}

fn bytes(base64url: &str) -> Option<[u8; 32]> {
    BASE64URL_NOPAD.decode(base64url.trim_end_matches('=').as_bytes()).ok()?.try_into().ok()
}

/// A private key. Implements neither `Debug` nor `Display`, so it can't be printed by accident.
pub struct PrivateKey(SigningKey);

impl PrivateKey {
    pub fn generate() -> Self {
        Self(SigningKey::from_bytes(&rand::random()))
    }

    pub fn from_bytes(bytes: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(bytes))
    }

    /// Parses a private JWK. Returns `None` if it isn't an Ed25519 key or its public part doesn't match.
    pub fn from_jwk(text: &str) -> Option<Self> {
        let jwk: Jwk = serde_json::from_str(text).ok()?;
        let key = Self(SigningKey::from_bytes(&bytes(jwk.d.as_deref()?)?));
        (jwk.key()?.public == key.public()).then_some(key)
    }

    /// Returns the key as a private JWK, for the file that stores it.
    pub fn to_jwk(&self) -> String {
        let [d, x] = [self.0.as_bytes(), self.public().as_bytes()].map(|bytes| BASE64URL_NOPAD.encode(bytes));
        json!({"kty": "OKP", "crv": "Ed25519", "x": x, "d": d}).to_string()
    }

    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Returns the message's signature.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}

#[cfg(test)]
mod tests;
