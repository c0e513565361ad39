//! A request's signature.

use crate::structured_fields::{dictionary, required_integer, required_string, string};
use crate::{CheckedSignature, Key, MAX_SKEW, PublicKey, Reason, Request, Verdict};
use sfv::{BareItem, InnerList, ListEntry, Parameters};

/// What a signature claims. With the key, `base` and `signature` are enough to verify it again (`verify_base`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestSignature {
    /// The signed text.
    pub base: String,
    pub signature: [u8; 64],
    pub key_id: String,
    /// Unix seconds.
    pub created: i64,
    /// Unix seconds, inclusive.
    pub expires: i64,
    pub nonce: Option<String>,
}

/// Returns whether the key signed this signature base.
pub fn verify_base(base: &str, signature: &[u8; 64], key: &PublicKey) -> bool {
    key.verify(base.as_bytes(), signature)
}

impl RequestSignature {
    /// Reads the only signature with this tag, and the components it covers.
    pub(crate) fn read(request: &Request<'_>, tag: &str) -> Result<Option<(Self, InnerList)>, Reason> {
        let Some(inputs) = request.header("signature-input") else { return Ok(None) };
        let inputs = dictionary(&inputs)?;
        let mut tagged = inputs.iter().filter(|(_, entry)| string(parameters(entry), "tag") == Ok(Some(tag)));
        let Some((label, entry)) = tagged.next() else { return Ok(None) };
        let ListEntry::InnerList(input) = entry else { return Err(Reason::Malformed) };
        if tagged.next().is_some() || string(&input.params, "alg")?.is_some_and(|algorithm| algorithm != "ed25519") {
            return Err(Reason::Unsupported);
        }
        let signatures = dictionary(&request.header("signature").ok_or(Reason::Incomplete)?)?;
        let claim = Self {
            base: request.signature_base(input)?,
            signature: signature(signatures.get(label).ok_or(Reason::Incomplete)?).ok_or(Reason::Malformed)?,
            key_id: required_string(&input.params, "keyid")?.to_owned(),
            created: required_integer(&input.params, "created")?,
            expires: required_integer(&input.params, "expires")?,
            nonce: string(&input.params, "nonce")?.map(str::to_owned),
        };
        Ok(Some((claim, input.clone())))
    }

    /// Checks time, key, signature and nonce. `max_lifetime` is in seconds.
    ///
    /// `is_first_use` is called last, only if everything else is valid. It gets the key's thumbprint, the nonce, and the second until which
    /// the nonce must be remembered.
    pub(crate) fn check(
        self,
        keys: &[Key],
        now: i64,
        max_lifetime: i64,
        is_first_use: impl FnOnce(&str, &str, i64) -> bool,
    ) -> CheckedSignature {
        let mut used = None;
        let check = || {
            if !self.is_fresh(now, max_lifetime) {
                return Err(Reason::Stale);
            }
            let mut named = keys.iter().filter(|key| key.is_named(&self.key_id)).peekable();
            named.peek().ok_or(Reason::NoKey)?;
            let key = named.find(|key| key.is_valid_at(now)).ok_or(Reason::ExpiredKey)?;
            used = Some(key.public);
            if !verify_base(&self.base, &self.signature, &key.public) {
                return Err(Reason::BadSignature);
            }
            match &self.nonce {
                Some(nonce) if !is_first_use(&key.public.thumbprint(), nonce, self.expires) => Err(Reason::Replayed),
                _ => Ok(()),
            }
        };
        let verdict = check().map_or_else(Verdict::Invalid, |()| Verdict::Valid);
        CheckedSignature { verdict, claim: Some(self), key: used }
    }

    fn is_fresh(&self, now: i64, max_lifetime: i64) -> bool {
        let lifetime = self.expires - self.created;
        (1..=max_lifetime).contains(&lifetime) && self.created <= now.saturating_add(MAX_SKEW) && now <= self.expires
    }
}

fn parameters(entry: &ListEntry) -> &Parameters {
    match entry {
        ListEntry::Item(item) => &item.params,
        ListEntry::InnerList(list) => &list.params,
    }
}

fn signature(entry: &ListEntry) -> Option<[u8; 64]> {
    match entry {
        ListEntry::Item(item) if item.params.is_empty() => match &item.bare_item {
            BareItem::ByteSequence(bytes) => bytes.as_slice().try_into().ok(),
            _ => None,
        },
        _ => None,
    }
}
