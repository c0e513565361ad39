//! The service's own keys, which sign statements.

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::{Value, json};
use signatures::{PrivateKey, PublicKey};
use std::path::PathBuf;

/// Maximum number of keys in a manifest.
const MAX_KEYS: usize = 100;

#[derive(Args, Clone, Debug, Default)]
pub struct StatementSettings {
    /// File with the keys of statements, one JWK per line (`telemetry sign keygen`): the first signs, all are published
    #[arg(long, env = "TELEMETRY_STATEMENT_KEYS", value_name = "FILE")]
    pub statement_keys: Option<PathBuf>,
}

impl StatementSettings {
    pub(super) fn keys(&self) -> anyhow::Result<Option<Keys>> {
        let Some(file) = &self.statement_keys else { return Ok(None) };
        let named = || format!("TELEMETRY_STATEMENT_KEYS={}", file.display());
        let text = std::fs::read_to_string(file).with_context(named)?;
        Keys::parse(&text).map(Some).with_context(named)
    }
}

pub(super) struct Keys {
    signing: PrivateKey,
    published: Vec<PublicKey>,
}

impl Keys {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        ensure!(lines.len() <= MAX_KEYS, "contains more than {MAX_KEYS} keys");
        let first = lines.first().context("contains no key; create one with `telemetry sign keygen FILE`")?;
        let signing = PrivateKey::from_jwk(first).context("the first line must be a private Ed25519 key as a JWK")?;
        let mut published = Vec::new();
        for (n, line) in lines.iter().enumerate() {
            let key = public(line).with_context(|| format!("line {} must be an Ed25519 key as a JWK", n + 1))?;
            if !published.contains(&key) {
                published.push(key);
            }
        }
        Ok(Self { signing, published })
    }

    pub(super) fn manifest(&self) -> Value {
        let key = |key: &PublicKey| json!({"id": key.thumbprint(), "type": "Ed25519", "publicKey": key.to_multibase()});
        json!({"keys": self.published.iter().map(key).collect::<Vec<_>>()})
    }

    pub(super) fn key_id(&self) -> String {
        self.signing.public().thumbprint()
    }

    /// Returns the signature in base64.
    pub(super) fn sign(&self, text: &str) -> String {
        STANDARD.encode(self.signing.sign(text.as_bytes()))
    }
}

/// Parses a private or public JWK.
fn public(jwk: &str) -> Option<PublicKey> {
    let private = PrivateKey::from_jwk(jwk).map(|key| key.public());
    private.or_else(|| Some(signatures::key_set(format!(r#"{{"keys":[{jwk}]}}"#).as_bytes()).ok()?.pop()?.public))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publishes_old_keys_after_a_rotation() {
        let (new, old) = (PrivateKey::generate(), PrivateKey::generate());
        let mut retired: Value = serde_json::from_str(&PrivateKey::generate().to_jwk()).unwrap();
        retired.as_object_mut().unwrap().remove("d");
        let keys = Keys::parse(&format!("{}\n\n{}\n{retired}\n{}\n", new.to_jwk(), old.to_jwk(), old.to_jwk())).unwrap();
        assert_eq!(keys.key_id(), new.public().thumbprint());
        let published = signatures::manifest_keys(keys.manifest().to_string().as_bytes()).unwrap();
        let ids: Vec<_> = published.iter().map(|key| key.public.thumbprint()).collect();
        assert_eq!(ids.len(), 3);
        assert_eq!(ids[..2], [new.public().thumbprint(), old.public().thumbprint()]);
        let signature: [u8; 64] = STANDARD.decode(keys.sign("text")).unwrap().try_into().unwrap();
        assert!(signatures::verify_base("text", &signature, &published[0].public));
    }

    #[test]
    fn rejects_files_without_a_private_first_key() {
        let key = PrivateKey::generate().to_jwk();
        let mut public: Value = serde_json::from_str(&key).unwrap();
        public.as_object_mut().unwrap().remove("d");
        for text in [
            "",
            "\n",
            "{}",
            &public.to_string(),
            &format!("{public}\n{key}"),
            &format!("{key}\nx"),
            &format!("{key}\n").repeat(101),
        ] {
            assert!(Keys::parse(text).is_err(), "{text}");
        }
    }
}
