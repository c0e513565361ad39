//! Signatures of reports (docs/api/signatures.md).

use crate::structured_fields::{dictionary, required_string, serialized};
use crate::{CheckedSignature, Key, PrivateKey, Reason, Request, RequestSignature, Verdict};
use data_encoding::BASE64;
use sfv::{BareItem, InnerList, Item, ListEntry, Parameters};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

pub const TAG: &str = "content-telemetry";
/// Maximum time between `created` and `expires`, in seconds.
pub const MAX_LIFETIME: i64 = 300;
/// Minimum and maximum length of a nonce, in characters.
const NONCE_CHARS: std::ops::RangeInclusive<usize> = 16..=128;
const LABEL: &str = "ct";

/// Checks a report. `body` is the body as sent, for example compressed; `now` is in Unix seconds.
///
/// `is_first_use` is called only if everything else is valid. It gets the key's thumbprint, the nonce, and the second until which the nonce
/// must be remembered.
pub fn verify(
    request: &Request<'_>,
    body: &[u8],
    keys: &[Key],
    now: i64,
    is_first_use: impl FnOnce(&str, &str, i64) -> bool,
) -> CheckedSignature {
    match read(request) {
        Ok(Some(claim)) => check(claim, (request, &Sha256::digest(body).into()), keys, now, is_first_use),
        Ok(None) => CheckedSignature::unread(Verdict::None),
        Err(reason) => CheckedSignature::unread(Verdict::Invalid(reason)),
    }
}

/// Checks a signature that was read before. `sha256` is the digest of the body as sent. Otherwise like [`verify`].
pub fn check(
    claim: RequestSignature,
    (request, sha256): (&Request<'_>, &[u8; 32]),
    keys: &[Key],
    now: i64,
    is_first_use: impl FnOnce(&str, &str, i64) -> bool,
) -> CheckedSignature {
    match check_digest(request, sha256) {
        Ok(()) => claim.check(keys, now, MAX_LIFETIME, is_first_use),
        Err(reason) => CheckedSignature { verdict: Verdict::Invalid(reason), claim: Some(claim), key: None },
    }
}

/// Reads the request's signature, so that its keys can be looked up. Returns `None` if no signature has the tag.
pub fn read(request: &Request<'_>) -> Result<Option<RequestSignature>, Reason> {
    let Some((claim, input)) = RequestSignature::read(request, TAG)? else { return Ok(None) };
    let covered: BTreeSet<String> = input.items.iter().map(|item| serialized(&item.clone().into())).collect();
    let required: BTreeSet<String> = components(request).into_iter().map(|name| format!("\"{name}\"")).collect();
    if !required.is_subset(&covered) {
        return Err(Reason::Incomplete);
    }
    if covered != required {
        return Err(Reason::Unsupported);
    }
    required_string(&input.params, "alg")?;
    if !NONCE_CHARS.contains(&required_string(&input.params, "nonce")?.len()) {
        return Err(Reason::Malformed);
    }
    Ok(Some(claim))
}

/// Returns the components that a report's signature must cover. Other components would put secrets into the signature base.
fn components(request: &Request<'_>) -> Vec<&'static str> {
    let mut names = vec!["@method", "@target-uri", "content-type", "content-digest"];
    if request.header("content-encoding").is_some() {
        names.push("content-encoding");
    }
    names
}

fn check_digest(request: &Request<'_>, sha256: &[u8; 32]) -> Result<(), Reason> {
    let digests = dictionary(&request.header("content-digest").ok_or(Reason::Incomplete)?)?;
    match digests.get("sha-256") {
        None => Err(Reason::Unsupported),
        Some(ListEntry::Item(Item { bare_item: BareItem::ByteSequence(digest), params })) if params.is_empty() => {
            if digest[..] == sha256[..] { Ok(()) } else { Err(Reason::DigestMismatch) }
        }
        Some(_) => Err(Reason::Malformed),
    }
}

/// Signs one request.
pub struct Signer<'a> {
    pub key: &'a PrivateKey,
    /// The key's id in the manifest, or its thumbprint.
    pub key_id: &'a str,
    /// Unix seconds.
    pub created: i64,
    /// 16 to 128 printable ASCII characters, unique per request.
    pub nonce: &'a str,
}

/// Returns the headers to add to a request. The request must have a `Content-Type` and, if its body is encoded, a `Content-Encoding`.
pub fn sign_request(request: &Request<'_>, body: &[u8], signer: &Signer<'_>) -> Result<[(&'static str, String); 3], Reason> {
    let digest = format!("sha-256=:{}:", BASE64.encode(&Sha256::digest(body)));
    let headers = [request.headers, &[("content-digest", &digest)]].concat();
    let request = Request { headers: &headers, ..*request };
    let text = |text: &str| sfv::String::try_from(text.to_owned()).map(BareItem::from).map_err(|_| Reason::Malformed);
    let integer = |number: i64| BareItem::try_from(number).map_err(|_| Reason::Malformed);
    let parameters = [
        ("created", integer(signer.created)?),
        ("expires", integer(signer.created.saturating_add(MAX_LIFETIME))?),
        ("keyid", text(signer.key_id)?),
        ("alg", text("ed25519")?),
        ("nonce", text(signer.nonce)?),
        ("tag", text(TAG)?),
    ];
    let parameters: Parameters = parameters.into_iter().map(|(name, value)| (sfv::key_ref(name).to_owned(), value)).collect();
    let items: Result<Vec<Item>, Reason> = components(&request).into_iter().map(|name| text(name).map(Item::new)).collect();
    let input = InnerList::with_params(items?, parameters);
    let signature = signer.key.sign(request.signature_base(&input)?.as_bytes());
    Ok([
        ("content-digest", digest),
        ("signature-input", format!("{LABEL}={}", serialized(&input.into()))),
        ("signature", format!("{LABEL}=:{}:", BASE64.encode(&signature))),
    ])
}

#[cfg(test)]
mod tests;
