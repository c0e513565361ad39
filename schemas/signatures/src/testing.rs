//! Requests that tests can modify and sign.

use crate::structured_fields::dictionary;
use crate::{Key, PrivateKey, Request};
use data_encoding::BASE64;
use sfv::ListEntry;

/// 2026-11-01T10:00:00Z.
pub(crate) const NOW: i64 = 1_793_527_200;
/// The Ed25519 key of RFC 9421, appendix B.1.4.
pub(crate) const RFC_KEY: &str = r#"{"kty":"OKP","crv":"Ed25519","kid":"test-key-ed25519","d":"n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU","x":"JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"}"#;
pub(crate) const RFC_THUMBPRINT: &str = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";

pub(crate) fn rfc_key() -> PrivateKey {
    PrivateKey::from_jwk(RFC_KEY).unwrap()
}

pub(crate) fn named(id: &str, key: &PrivateKey) -> Key {
    Key { id: Some(id.to_owned()), public: key.public(), not_before: None, expires: None }
}

/// A modification after signing.
pub(crate) type Change = fn(&mut Sent);

#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) method: String,
    pub(crate) uri: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Sent {
    pub(crate) fn new(method: &str, uri: &str, headers: &[(&str, &str)], body: &[u8]) -> Self {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { method: method.to_owned(), uri: uri.to_owned(), headers, body: body.to_vec() }
    }

    pub(crate) fn read<T>(&self, with: impl FnOnce(&Request<'_>) -> T) -> T {
        let headers: Vec<(&str, &str)> = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        with(&Request { method: &self.method, target_uri: &self.uri, headers: &headers })
    }

    pub(crate) fn header(&mut self, name: &str) -> &mut String {
        &mut self.headers.iter_mut().find(|(each, _)| each == name).unwrap().1
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.remove(name);
        self.headers.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.headers.retain(|(each, _)| each != name);
    }

    /// Replaces text in a header that contains it.
    pub(crate) fn replace(&mut self, name: &str, from: &str, to: &str) {
        let value = self.header(name);
        assert!(value.contains(from), "{name}: {value} has no {from}");
        *value = value.replace(from, to);
    }

    /// Signs with exactly this `Signature-Input`, if it can be signed at all.
    pub(crate) fn sign(&mut self, key: &PrivateKey, input: &str) {
        let label = input.split_once('=').map_or("", |(label, _)| label);
        let base = match dictionary(input).ok().and_then(|inputs| inputs.get(label).cloned()) {
            Some(ListEntry::InnerList(list)) => self.read(|request| request.signature_base(&list)).unwrap_or_default(),
            _ => String::new(),
        };
        self.set("signature-input", input);
        self.set("signature", &format!("{label}=:{}:", BASE64.encode(&key.sign(base.as_bytes()))));
    }

    /// Flips one bit of one byte of a part. Returns `false` if the part is unchanged.
    pub(crate) fn flip(&mut self, part: &str, at: usize, bit: u8) -> bool {
        let flipped = |text: &str| {
            let mut bytes = text.as_bytes().to_vec();
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let text = match part {
            "method" => &mut self.method,
            "uri" => &mut self.uri,
            header => self.header(header),
        };
        let now = flipped(text);
        std::mem::replace(text, now.clone()).trim_matches([' ', '\t']) != now.trim_matches([' ', '\t'])
    }
}
