//! Secrets that must be read again, encrypted at rest with a key that only the setting holds: who has a copy of the
//! database has no secret (docs/api/webhooks.md#registering).

use anyhow::{Context, anyhow};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use clap::Args;
use std::fmt;

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
/// First byte of what is sealed: with which cipher, for the day there is another.
const XCHACHA20_POLY1305: u8 = 1;

/// The key of what is encrypted at rest.
#[derive(Args, Clone, Debug, Default)]
pub struct SecretsSettings {
    /// Key that encrypts secrets of webhooks and drains at rest: 32 random bytes in base64, as `openssl rand -base64 32` prints them
    #[arg(long, env = "TELEMETRY_SECRETS_KEY", value_name = "BASE64", hide_env_values = true)]
    pub secrets_key: Option<SecretsKey>,
}

/// A key as it is set; checked only where it is used, because a refused setting is repeated to whoever started us.
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
    pub fn mint() -> Self {
        Self(STANDARD.encode(rand::random::<[u8; KEY_BYTES]>()))
    }

    /// The key as it is set, for the one file that keeps it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl SecretsSettings {
    /// The cipher, or one line that names the fix.
    pub fn sealer(&self) -> anyhow::Result<Sealer> {
        let key = self.secrets_key.as_ref().context(
            "TELEMETRY_SECRETS_KEY is not set: generate a key once with `openssl rand -base64 32`, keep it, and set it at every start",
        )?;
        let bytes = STANDARD.decode(key.0.trim()).ok().and_then(|bytes| <[u8; KEY_BYTES]>::try_from(bytes).ok());
        let bytes =
            bytes.context("TELEMETRY_SECRETS_KEY is not 32 bytes in base64: use what `openssl rand -base64 32` prints")?;
        Ok(Sealer(XChaCha20Poly1305::new(&Key::from(bytes))))
    }
}

/// Seals and opens; cheap to clone.
#[derive(Clone)]
pub struct Sealer(XChaCha20Poly1305);

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer(redacted)")
    }
}

impl Sealer {
    /// Encrypts `secret`, bound to its `place`: in another row it cannot be opened.
    pub fn seal(&self, secret: &str, place: &[u8]) -> anyhow::Result<Vec<u8>> {
        // 192 random bits never repeat in practice, so no counter has to be kept.
        let nonce: [u8; NONCE_BYTES] = rand::random();
        let payload = Payload { msg: secret.as_bytes(), aad: place };
        let encrypted = self.0.encrypt(&XNonce::from(nonce), payload).map_err(|_| anyhow!("a secret cannot be sealed"))?;
        Ok([&[XCHACHA20_POLY1305][..], &nonce, &encrypted].concat())
    }

    /// Decrypts what [`Sealer::seal`] made with the same key for the same `place`.
    pub fn open(&self, sealed: &[u8], place: &[u8]) -> anyhow::Result<String> {
        let refuse = || anyhow!("a sealed secret cannot be opened: TELEMETRY_SECRETS_KEY is not the key that sealed it");
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
    fn what_is_sealed_is_opened_only_with_the_key_and_in_its_place() {
        let (ours, other) = (sealer(SecretsKey::mint().reveal()).unwrap(), sealer(SecretsKey::mint().reveal()).unwrap());
        let sealed = ours.seal("whsec_abc", b"row 1").unwrap();
        assert_eq!(ours.open(&sealed, b"row 1").unwrap(), "whsec_abc");
        assert!(!sealed.windows(9).any(|part| part == b"whsec_abc"));
        assert_ne!(ours.seal("whsec_abc", b"row 1").unwrap(), sealed, "the same secret never looks the same");
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
    fn a_missing_or_bad_key_is_refused_in_one_line_that_does_not_repeat_it() {
        let missing = SecretsSettings::default().sealer().unwrap_err().to_string();
        assert!(missing.contains("TELEMETRY_SECRETS_KEY") && missing.contains("openssl rand -base64 32"), "{missing}");
        for bad in ["", "hunter2", "aHVudGVyMg==", &STANDARD.encode([1; 31]), &STANDARD.encode([1; 33])] {
            let refusal = sealer(bad).unwrap_err().to_string();
            assert!(refusal.starts_with("TELEMETRY_SECRETS_KEY"), "{refusal}");
            assert!(bad.is_empty() || !refusal.contains(bad), "{refusal}");
            assert_eq!(refusal.lines().count(), 1);
        }
        assert!(sealer(&format!("{}\n", SecretsKey::mint().reveal())).is_ok(), "a line end does not matter");
    }

    #[test]
    fn a_key_never_shows_in_debug_output() {
        let key = SecretsKey::mint();
        let shown = format!("{:?} {:?}", SecretsSettings { secrets_key: Some(key.clone()) }, sealer(key.reveal()).unwrap());
        assert!(!shown.contains(key.reveal()) && shown.contains("redacted"), "{shown}");
    }
}
