//! Encrypts secrets at rest with a key that only the configuration contains, so a copy of the database doesn't reveal them
//! (docs/api/webhooks.md#registering).

use anyhow::{Context, anyhow};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use clap::Args;
use std::fmt;

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
/// Version byte of encrypted data. Identifies the cipher.
const XCHACHA20_POLY1305: u8 = 1;

#[derive(Args, Clone, Debug, Default)]
pub struct SecretsSettings {
    /// Key that encrypts webhook and drain secrets at rest: 32 bytes in base64 (`openssl rand -base64 32`)
    #[arg(long, env = "TELEMETRY_SECRETS_KEY", value_name = "BASE64", hide_env_values = true)]
    pub secrets_key: Option<SecretsKey>,
}

/// A key as configured. Validated only on use, because clap would print an invalid value in its error.
#[derive(Clone)]
pub struct SecretsKey(String);

impl From<String> for SecretsKey {
    fn from(base64: String) -> Self {
        Self(base64)
    }
}

impl fmt::Debug for SecretsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretsKey(redacted)")
    }
}

impl SecretsKey {
    pub fn generate() -> Self {
        Self(STANDARD.encode(rand::random::<[u8; KEY_BYTES]>()))
    }

    /// Returns the configured key, for the one file that stores it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl SecretsSettings {
    /// Returns the cipher, or a one-line error that names the fix.
    pub fn sealer(&self) -> anyhow::Result<Sealer> {
        let key = self.secrets_key.as_ref().context(
            "TELEMETRY_SECRETS_KEY is not set: generate a key once with `openssl rand -base64 32`, store it, and use the same key at every start",
        )?;
        let bytes = STANDARD.decode(key.0.trim()).ok().and_then(|bytes| <[u8; KEY_BYTES]>::try_from(bytes).ok());
        let bytes =
            bytes.context("TELEMETRY_SECRETS_KEY is not 32 bytes in base64: use the output of `openssl rand -base64 32`")?;
        Ok(Sealer(XChaCha20Poly1305::new(&Key::from(bytes))))
    }
}

/// Encrypts and decrypts; cheap to clone.
#[derive(Clone)]
pub struct Sealer(XChaCha20Poly1305);

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer(redacted)")
    }
}

impl Sealer {
    /// Encrypts `secret` for one `place`: it can't be decrypted in another row.
    pub fn seal(&self, secret: &str, place: &[u8]) -> anyhow::Result<Vec<u8>> {
        // 192 random bits don't repeat in practice, so a counter isn't needed.
        let nonce: [u8; NONCE_BYTES] = rand::random();
        let payload = Payload { msg: secret.as_bytes(), aad: place };
        let encrypted = self.0.encrypt(&XNonce::from(nonce), payload).map_err(|_| anyhow!("failed to encrypt a secret"))?;
        Ok([&[XCHACHA20_POLY1305][..], &nonce, &encrypted].concat())
    }

    /// Decrypts data that [`Sealer::seal`] encrypted with the same key and `place`.
    pub fn open(&self, sealed: &[u8], place: &[u8]) -> anyhow::Result<String> {
        let refuse = || anyhow!("failed to decrypt a secret: TELEMETRY_SECRETS_KEY is not the key that encrypted it");
        let rest = sealed.strip_prefix(&[XCHACHA20_POLY1305]).ok_or_else(refuse)?;
        let (nonce, encrypted) = rest.split_first_chunk::<NONCE_BYTES>().ok_or_else(refuse)?;
        let payload = Payload { msg: encrypted, aad: place };
        let secret = self.0.decrypt(&XNonce::from(*nonce), payload).map_err(|_| refuse())?;
        String::from_utf8(secret).map_err(|_| refuse())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealer(key: &str) -> anyhow::Result<Sealer> {
        SecretsSettings { secrets_key: Some(key.to_owned().into()) }.sealer()
    }

    #[test]
    fn decrypts_only_with_the_same_key_and_place() {
        let (ours, other) = (sealer(SecretsKey::generate().reveal()).unwrap(), sealer(SecretsKey::generate().reveal()).unwrap());
        let sealed = ours.seal("whsec_abc", b"row 1").unwrap();
        assert_eq!(ours.open(&sealed, b"row 1").unwrap(), "whsec_abc");
        assert!(!sealed.windows(9).any(|part| part == b"whsec_abc"));
        assert_ne!(ours.seal("whsec_abc", b"row 1").unwrap(), sealed, "sealing twice gives different bytes");
        assert!(ours.open(&sealed, b"row 2").is_err(), "not in another row");
        assert!(other.open(&sealed, b"row 1").is_err(), "not with another key");
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(ours.open(&changed, b"row 1").is_err(), "byte {at}");
            assert!(ours.open(&sealed[..at], b"row 1").is_err(), "cut at {at}");
        }
    }

    #[test]
    fn rejects_bad_keys_without_printing_them() {
        let missing = SecretsSettings::default().sealer().unwrap_err().to_string();
        assert!(missing.contains("TELEMETRY_SECRETS_KEY") && missing.contains("openssl rand -base64 32"), "{missing}");
        for bad in ["", "hunter2", "aHVudGVyMg==", &STANDARD.encode([1; 31]), &STANDARD.encode([1; 33])] {
            let refusal = sealer(bad).unwrap_err().to_string();
            assert!(refusal.starts_with("TELEMETRY_SECRETS_KEY"), "{refusal}");
            assert!(bad.is_empty() || !refusal.contains(bad), "{refusal}");
            assert_eq!(refusal.lines().count(), 1);
        }
        assert!(sealer(&format!("{}\n", SecretsKey::generate().reveal())).is_ok(), "a final line end is ignored");
    }

    #[test]
    fn debug_output_hides_the_key() {
        let key = SecretsKey::generate();
        let shown = format!("{:?} {:?}", SecretsSettings { secrets_key: Some(key.clone()) }, sealer(key.reveal()).unwrap());
        assert!(!shown.contains(key.reveal()) && shown.contains("redacted"), "{shown}");
    }
}
