//! The service's own keys, which sign statements.

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::{Value, json};
use service_kit::secret_encryption::SecretsKey;
use signatures::{PrivateKey, PublicKey};

/// Maximum number of keys in a manifest.
const MAX_KEYS: usize = 100;

#[derive(Args, Clone, Debug, Default)]
pub struct StatementSettings {
    /// Keys of statements, separated by commas, each 32 bytes in base64 (`openssl rand -base64 32`): the first signs, all are published
    #[arg(long, env = "TELEMETRY_STATEMENT_KEYS", value_name = "BASE64", hide_env_values = true)]
    pub statement_keys: Option<SecretsKey>,
}

impl StatementSettings {
    pub(super) fn keys(&self) -> anyhow::Result<Option<Keys>> {
        self.statement_keys.as_ref().map(|keys| Keys::parse(keys.reveal()).context("TELEMETRY_STATEMENT_KEYS")).transpose()
    }
}

pub(super) struct Keys {
    signing: PrivateKey,
    published: Vec<PublicKey>,
}

impl Keys {
    /// Parses private keys. After the first, public ones in multibase are allowed too.
    fn parse(text: &str) -> anyhow::Result<Self> {
        let keys: Vec<&str> = text.split(',').map(str::trim).filter(|key| !key.is_empty()).collect();
        ensure!(keys.len() <= MAX_KEYS, "contains more than {MAX_KEYS} keys");
        let first = keys.first().and_then(|key| private(key));
        let signing = first.context("the first key is not 32 bytes in base64: use the output of `openssl rand -base64 32`")?;
        let mut published = Vec::new();
        for (n, key) in keys.iter().enumerate() {
            let key = private(key).map(|key| key.public()).or_else(|| PublicKey::from_multibase(key).ok());
            let key = key.with_context(|| format!("key {} is neither 32 bytes in base64 nor a public key", n + 1))?;
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

fn private(base64: &str) -> Option<PrivateKey> {
    Some(PrivateKey::from_bytes(&STANDARD.decode(base64).ok()?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publishes_old_keys_after_a_rotation() {
        let (new, old) = (SecretsKey::generate(), SecretsKey::generate());
        let (retired, id) =
            (PrivateKey::generate().public(), |key: &SecretsKey| private(key.reveal()).unwrap().public().thumbprint());
        let text = format!("{}, {old},{},\n{old}\n", new.reveal(), retired.to_multibase(), old = old.reveal());
        let keys = Keys::parse(&text).unwrap();
        assert_eq!(keys.key_id(), id(&new));
        let published = signatures::manifest_keys(keys.manifest().to_string().as_bytes()).unwrap();
        let ids: Vec<_> = published.iter().map(|key| key.public.thumbprint()).collect();
        assert_eq!(ids, [id(&new), id(&old), retired.thumbprint()]);
        let signature: [u8; 64] = STANDARD.decode(keys.sign("text")).unwrap().try_into().unwrap();
        assert!(signatures::verify_base("text", &signature, &published[0].public));
    }

    #[test]
    fn rejects_settings_without_a_private_first_key() {
        let (key, public) = (SecretsKey::generate().reveal().to_owned(), PrivateKey::generate().public().to_multibase());
        for text in
            ["", ",", "{}", &key[1..], &public, &format!("{public},{key}"), &format!("{key},x"), &format!("{key},").repeat(101)]
        {
            let error = Keys::parse(text).err().map(|error| error.to_string());
            assert!(error.is_some_and(|error| !error.contains(&key[..8])), "{text}");
        }
    }
}
