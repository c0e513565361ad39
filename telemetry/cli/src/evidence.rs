//! `telemetry evidence`: checks the signatures of an event's reports again, without trusting the service
//! (docs/api/signatures.md#check-it-again).

use crate::context::{Context, CredentialKind};
use crate::failure::{Failure, file_error};
use crate::labels;
use crate::output::{text, visible, write};
use crate::reads::Window;
use clap::{Args, Subcommand};
use data_encoding::BASE64;
use schemas::signature::SignatureProof;
use serde::Deserialize;
use serde_json::Value;
use signatures::{Key, PublicKey, manifest_keys, verify_base};
use std::path::PathBuf;
use url::Url;

/// Actions on signatures of stored events.
#[derive(Args, Clone, Debug)]
pub struct EvidenceNoun {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Action {
    /// Check the signatures of an event's reports on your machine
    #[command(after_help = example!("evidence verify 0195f3a0-0000-7000-8000-000000000050 --manifest agent.json"))]
    Verify(Verify),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Verify {
    /// ID of the event
    #[arg(value_name = "EVENT")]
    event: String,
    /// Manifest of the reporter, which must list the keys
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    #[command(flatten)]
    window: Window,
}

pub(crate) async fn run(context: &Context, noun: &EvidenceNoun) -> Result<(), Failure> {
    let Action::Verify(what) = &noun.action;
    let listed = what.manifest.as_ref().map(keys).transpose()?;
    let path = format!("/content-owners/events/{}", path_segment(&what.event));
    let event = context.client(CredentialKind::KeyOrPerson)?.get(&path, &what.window.parameters(context)).await?;
    let reports = event["reports"].as_array().map(Vec::as_slice).unwrap_or_default();
    let checked: Vec<Checked> = reports.iter().map(|report| check(report, listed.as_deref())).collect();
    let lines: String = checked.iter().flat_map(|checked| checked.line.lines()).map(|line| visible(line) + "\n").collect();
    write(lines.as_bytes())?;
    match checked.iter().filter(|checked| !checked.is_consistent).count() {
        0 if checked.iter().any(|checked| checked.is_verified) => Ok(()),
        0 => Err(Failure::Failed("no report of this event has a valid signature".to_owned())),
        wrong => {
            Err(Failure::Failed(format!("the service shows a wrong signature result for {wrong} of {} reports", checked.len())))
        }
    }
}

/// Returns the ID as one encoded segment.
fn path_segment(id: &str) -> String {
    let mut url = Url::parse("https://a.example/").expect("the URL is valid");
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.clear().push(id);
    }
    url.path().trim_start_matches('/').to_owned()
}

fn keys(file: &PathBuf) -> Result<Vec<Key>, Failure> {
    let manifest = std::fs::read(file).map_err(|error| file_error(file, &error))?;
    manifest_keys(&manifest).map_err(|error| Failure::Usage(format!("{}: {error}", file.display())))
}

/// The result for one report.
#[derive(Debug, PartialEq, Eq)]
struct Checked {
    line: String,
    /// Whether the service shows the same result as this check.
    is_consistent: bool,
    /// Whether its key signed the signature base.
    is_verified: bool,
}

fn check(report: &Value, listed: Option<&[Key]>) -> Checked {
    let (role, shown) = (text(&report["source_role"]), text(&report["signature"]));
    let reporter = labels::reporter(&role);
    let reason = text(&report["signature_reason"]);
    let shown = if reason.is_empty() { shown } else { format!("{shown} ({reason})") };
    let Some(proof) = SignatureProof::deserialize(&report["signature_proof"]).ok() else {
        // The reporter of a report without a name isn't shown, so its key isn't either.
        let line = format!("{reporter}: {shown}, nothing to check");
        return Checked { line, is_consistent: true, is_verified: false };
    };
    let is_signed = is_signed(&proof);
    let is_listed = listed.is_none_or(|keys| keys.iter().any(|key| key.public.to_multibase() == proof.public_key));
    let is_verified = is_signed && is_listed;
    let found = match (is_signed, is_listed) {
        (true, true) => "the key signed the request",
        (true, false) => "the key signed the request, but the manifest doesn't list it",
        (false, _) => "the key did not sign the request",
    };
    let is_consistent = if report["signature"] == "valid" { is_verified } else { is_signed != (reason == "bad_signature") };
    let line = format!("{reporter}: {shown}, {found}: {} {}\n{}", proof.key_id, proof.public_key, proof.base);
    Checked { line, is_consistent, is_verified: is_verified && report["signature"] == "valid" }
}

fn is_signed(proof: &SignatureProof) -> bool {
    let key = PublicKey::from_multibase(&proof.public_key).ok();
    let signature = BASE64.decode(proof.signature.as_bytes()).ok().and_then(|bytes| <[u8; 64]>::try_from(bytes).ok());
    key.zip(signature).is_some_and(|(key, signature)| verify_base(&proof.base, &signature, &key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use signatures::PrivateKey;
    use signatures::Request;
    use signatures::content_telemetry::{Signer, read, sign_request};

    /// Returns a report that the key signed, with this signature result.
    fn report(key: &PrivateKey, signature: &str, reason: &str) -> Value {
        let request =
            Request { method: "POST", target_uri: "https://a.example/events", headers: &[("content-type", "application/json")] };
        let signer = Signer { key, key_id: "k", created: 1_793_527_200, nonce: "0123456789abcdef" };
        let signed = sign_request(&request, b"{}", &signer).unwrap();
        let headers: Vec<(&str, &str)> =
            request.headers.iter().copied().chain(signed.iter().map(|(name, value)| (*name, value.as_str()))).collect();
        let claim = read(&Request { headers: &headers, ..request }).unwrap().unwrap();
        json!({"source_role": "agent", "signature": signature, "signature_reason": reason, "signature_proof": {
            "base": claim.base, "signature": BASE64.encode(&claim.signature), "key_id": "k", "public_key": key.public().to_multibase()}})
    }

    #[test]
    fn checks_what_the_service_shows() {
        let (key, other) = (PrivateKey::generate(), PrivateKey::generate());
        let with = |mut report: Value, member: &str, value: &str| {
            report["signature_proof"][member] = json!(value);
            report
        };
        let valid = report(&key, "valid", "");
        let forged = with(valid.clone(), "base", "another text");
        let of_other = with(valid.clone(), "public_key", &other.public().to_multibase());
        let unsigned = json!({"source_role": "edge", "signature": "none", "signature_reason": "", "signature_proof": null});
        let manifest = [Key { id: None, public: key.public(), not_before: None, expires: None }];
        let others_manifest = [Key { public: other.public(), ..manifest[0].clone() }];
        for (name, report, listed, expected) in [
            ("valid", &valid, None, (true, true)),
            ("listed", &valid, Some(&manifest[..]), (true, true)),
            ("not listed", &valid, Some(&others_manifest), (false, false)),
            ("one byte differs", &forged, None, (false, false)),
            ("another key", &of_other, None, (false, false)),
            ("signature isn't base64", &with(valid.clone(), "signature", "?"), None, (false, false)),
            ("unsigned", &unsigned, None, (true, false)),
            ("replayed", &report(&key, "invalid", "replayed"), None, (true, false)),
            ("called a bad signature", &report(&key, "invalid", "bad_signature"), None, (false, false)),
        ] {
            let checked = check(report, listed);
            assert_eq!((checked.is_consistent, checked.is_verified), expected, "{name}: {}", checked.line);
        }
    }

    #[test]
    fn encodes_ids_as_one_segment() {
        assert_eq!(path_segment("a/b?c#d%"), "a%2Fb%3Fc%23d%25");
    }
}
