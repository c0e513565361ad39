//! Signatures of agents that fetch pages (draft-ietf-webbotauth-protocol-01 and two earlier forms of `Signature-Agent`).

use crate::structured_fields::dictionary;
use crate::{CheckedSignature, Key, Reason, Request, RequestSignature};
use sfv::{BareItem, InnerList, Item, ListEntry, Parser, StringRef, TokenRef};
use url::Url;

pub const TAG: &str = "web-bot-auth";
/// Path of an origin's key directory.
const DIRECTORY: &str = "/.well-known/http-message-signatures-directory";

/// A signature and the key set URL that it names. It doesn't identify the sender until `verify` returns `Valid`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedAgent {
    pub claim: RequestSignature,
    /// HTTPS URL of the key set. The sender chooses it, so fetch it with the same precautions as any foreign URL.
    pub key_set: Url,
}

impl SignedAgent {
    /// Reads the signature with the tag `web-bot-auth`. Returns `None` if it is missing.
    pub fn read(request: &Request<'_>) -> Result<Option<Self>, Reason> {
        let Some((claim, input)) = RequestSignature::read(request, TAG)? else { return Ok(None) };
        let covers = |name: &str| input.items.iter().any(|item| name_of(item) == name && item.params.is_empty());
        if !covers("@authority") && !covers("@target-uri") {
            return Err(Reason::Incomplete);
        }
        Ok(Some(Self { claim, key_set: key_set(&agent(request, &input)?)? }))
    }

    /// Returns the key set's origin. A valid signature identifies it as the sender.
    pub fn signed_by(&self) -> String {
        self.key_set.origin().ascii_serialization()
    }

    /// Checks the signature with the keys of `key_set`. `now` is the time of the fetch in Unix seconds.
    ///
    /// `is_first_use` is called only if the signature has a nonce and everything else is valid. It gets the key's thumbprint, the nonce,
    /// and the second until which the nonce must be remembered.
    pub fn verify(self, keys: &[Key], now: i64, is_first_use: impl FnOnce(&str, &str, i64) -> bool) -> CheckedSignature {
        self.claim.check(keys, now, i64::MAX, is_first_use)
    }
}

fn name_of(item: &Item) -> &str {
    item.bare_item.as_string().map_or("", StringRef::as_str)
}

/// Returns the covered member of `Signature-Agent`, or its only value.
fn agent(request: &Request<'_>, input: &InnerList) -> Result<Item, Reason> {
    let mut covered = input.items.iter().filter(|item| name_of(item) == "signature-agent");
    let component = covered.next().ok_or(Reason::Incomplete)?;
    if covered.next().is_some() {
        return Err(Reason::Unsupported);
    }
    let header = request.header("signature-agent").ok_or(Reason::Incomplete)?;
    let key = component.params.get("key").and_then(BareItem::as_string);
    if key.is_none() && header.starts_with('"') {
        return Parser::new(&header).parse().map_err(|_| Reason::Malformed);
    }
    let mut members = dictionary(&header)?;
    let member = match key {
        Some(key) => members.swap_remove(key.as_str()),
        None if members.len() == 1 => members.pop().map(|(_, member)| member),
        None => return Err(Reason::Unsupported),
    };
    match member {
        Some(ListEntry::Item(item)) => Ok(item),
        _ => Err(Reason::Malformed),
    }
}

/// Returns the URL of an agent's key set: the value itself, or the directory below an origin.
fn key_set(agent: &Item) -> Result<Url, Reason> {
    let BareItem::String(address) = &agent.bare_item else { return Err(Reason::Malformed) };
    let mut url = Url::parse(address.as_str()).map_err(|_| Reason::Malformed)?;
    let is_plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    if url.scheme() != "https" || !is_plain {
        return Err(Reason::Unsupported);
    }
    let is_origin = url.path() == "/" && url.query().is_none();
    match agent.params.get("type").map(|kind| kind.as_token().map(TokenRef::as_str)) {
        None if !is_origin => {}
        None | Some(Some("directory")) if is_origin => url.set_path(DIRECTORY),
        Some(Some("jwks_uri")) => {}
        _ => return Err(Reason::Unsupported),
    }
    Ok(url)
}

#[cfg(test)]
mod tests;
