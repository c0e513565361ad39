//! Checks the signature of an agent in a log line (docs/api/signatures.md#signed-agents).
//!
//! Nonces aren't checked, because an edge and an origin log the same request.

use super::key_sets::KeySets;
use super::line_fields::{Field, Fields};
use data_encoding::BASE64;
use schemas::signature::{RecordedSignature, SignatureProof, SignatureResult, UNCHECKED};
use service_kit::auth::Caller;
use signatures::web_bot_auth::SignedAgent;
use signatures::{CheckedSignature, Request, Verdict};

/// Longest signature base.
const MAX_BASE_BYTES: usize = 4_096;

/// Returns the result for a line, as of the time of the request; `None` without a signature. `url` is the requested one.
///
/// Check the line's host first: a key set that isn't known is fetched, for the caller.
pub(super) fn check(
    fields: &Fields<'_>,
    url: &str,
    at_ms: i64,
    (key_sets, caller): (&KeySets, &Caller),
) -> Option<RecordedSignature> {
    let names =
        [("signature-agent", Field::SignatureAgent), ("signature-input", Field::SignatureInput), ("signature", Field::Signature)];
    fields.get(Field::SignatureInput)?;
    let headers: Vec<(&str, &str)> = names.into_iter().filter_map(|(name, field)| Some((name, fields.get(field)?))).collect();
    let target_uri = url.split('#').next().unwrap_or(url);
    let request = Request { method: fields.text(Field::Method), target_uri, headers: &headers };
    let invalid = |reason: &str| Some(RecordedSignature::without_proof(SignatureResult::Invalid, reason));
    let signed = match SignedAgent::read(&request) {
        Ok(Some(signed)) if signed.claim.base.len() <= MAX_BASE_BYTES => signed,
        Ok(Some(_)) => return invalid("malformed"),
        Ok(None) => return None,
        Err(reason) => return invalid(reason.as_str()),
    };
    let signed_by = signed.signed_by();
    match key_sets.find(&signed.key_set, caller) {
        None => Some(RecordedSignature::without_proof(SignatureResult::None, UNCHECKED)),
        Some(keys) => recorded(signed.verify(&keys, at_ms.div_euclid(1_000), |_, _, _| true), signed_by),
    }
}

fn recorded(checked: CheckedSignature, signed_by: String) -> Option<RecordedSignature> {
    let (result, reason, signed_by) = match checked.verdict {
        Verdict::None => return None,
        Verdict::Valid => (SignatureResult::Valid, "", signed_by),
        Verdict::Invalid(reason) => (SignatureResult::Invalid, reason.as_str(), String::new()),
    };
    let proof = checked.claim.zip(checked.key).map(|(claim, key)| SignatureProof {
        base: claim.base,
        signature: BASE64.encode(&claim.signature),
        key_id: claim.key_id,
        key_version: None,
        public_key: key.to_multibase(),
    });
    Some(RecordedSignature { result, reason: reason.to_owned(), signed_by, proof })
}
