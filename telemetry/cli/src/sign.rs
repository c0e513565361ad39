//! `telemetry sign`: creates signing keys and signs requests (docs/api/signatures.md). Uses no network.

use crate::failure::{Failure, file_error};
use crate::output::{json, write};
use crate::terminal::print_message;
use clap::{Args, Subcommand};
use serde_json::json;
use service_kit::clock::Clock;
use service_kit::private_files;
use signatures::content_telemetry::{Signer, sign_request};
use signatures::{PrivateKey, Reason, Request};
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use url::Url;
use uuid::Uuid;

/// Actions on signing keys.
#[derive(Args, Clone, Debug)]
pub struct SignNoun {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Action {
    /// Create a signing key; print its entry for your manifest as JSON
    #[command(after_help = example!("sign keygen agent-2026.jwk --id agent-2026"))]
    Keygen(Keygen),
    /// Print the headers that sign a request, for `curl -H @-`
    #[command(after_help = example!("sign request --key agent-2026.jwk --url https://telemetry.example/events body.json"))]
    Request(Signed),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Keygen {
    /// New file for the private key, readable only by you
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// ID of the key in the manifest [default: the key's thumbprint]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Signed {
    /// File with the private key
    #[arg(id = "signing_key", long = "key", value_name = "FILE")]
    key: PathBuf,
    /// ID of the key in the manifest [default: the key's thumbprint]
    #[arg(long, value_name = "ID")]
    key_id: Option<String>,
    /// Address of the request
    #[arg(id = "target", long = "url", value_name = "URL")]
    url: Url,
    /// Method of the request
    #[arg(long, default_value = "POST", value_name = "METHOD")]
    method: String,
    /// Content-Type header of the request
    #[arg(long, default_value = "application/json", value_name = "TYPE")]
    content_type: String,
    /// Content-Encoding header of the request, if it has one
    #[arg(long, value_name = "ENCODING")]
    content_encoding: Option<String>,
    /// Body as it will be sent, or - for stdin
    #[arg(value_name = "BODYFILE")]
    body: PathBuf,
}

pub(crate) fn run(clock: &Clock, noun: &SignNoun) -> Result<(), Failure> {
    match &noun.action {
        Action::Keygen(what) => keygen(what),
        Action::Request(what) => request(clock, what),
    }
}

fn keygen(what: &Keygen) -> Result<(), Failure> {
    let key = PrivateKey::generate();
    let opened = private_files::open(OpenOptions::new().write(true).create_new(true), &what.file);
    let written = opened.and_then(|mut file| writeln!(file, "{}", key.to_jwk()).and_then(|()| file.sync_all()));
    written.map_err(|error| file_error(&what.file, &error))?;
    print_message(&format!("Wrote the private key to {}. Add this entry to the keys of your manifest:", what.file.display()));
    let public = key.public();
    let id = what.id.clone().unwrap_or_else(|| public.thumbprint());
    json(&json!({"id": id, "type": "Ed25519", "publicKey": public.to_multibase()}))
}

fn request(clock: &Clock, what: &Signed) -> Result<(), Failure> {
    let text = std::fs::read_to_string(&what.key).map_err(|error| file_error(&what.key, &error))?;
    let key = PrivateKey::from_jwk(&text)
        .ok_or_else(|| Failure::Usage(format!("{}: must contain a key of `telemetry sign keygen`", what.key.display())))?;
    let key_id = what.key_id.clone().unwrap_or_else(|| key.public().thumbprint());
    let body = body(&what.body)?;
    let signed = headers(what, &key, &key_id, &body, clock.now().timestamp())
        .map_err(|_| Failure::Usage("method, key ID and headers must be printable ASCII characters".to_owned()))?;
    let lines: Vec<String> = signed.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    write(lines.concat().as_bytes())
}

/// Returns the signed headers and those of the signature.
fn headers(
    what: &Signed,
    key: &PrivateKey,
    key_id: &str,
    body: &[u8],
    created: i64,
) -> Result<Vec<(&'static str, String)>, Reason> {
    let mut url = what.url.clone();
    url.set_fragment(None);
    let mut headers = vec![("content-type", what.content_type.as_str())];
    headers.extend(what.content_encoding.as_deref().map(|encoding| ("content-encoding", encoding)));
    let request = Request { method: &what.method, target_uri: url.as_str(), headers: &headers };
    let nonce = Uuid::new_v4().to_string();
    let signature = sign_request(&request, body, &Signer { key, key_id, created, nonce: &nonce })?;
    Ok(headers.into_iter().map(|(name, value)| (name, value.to_owned())).chain(signature).collect())
}

fn body(file: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") { std::io::stdin().read_to_end(&mut bytes).map(|_| bytes) } else { std::fs::read(file) };
    read.map_err(|error| file_error(file, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use signatures::content_telemetry::verify;
    use signatures::{Key, Verdict};

    #[test]
    fn signs_the_request_as_curl_sends_it() {
        let what = Signed {
            key: PathBuf::new(),
            key_id: None,
            url: "https://TELEMETRY.example:443/events?a=1#part".parse().unwrap(),
            method: "PUT".to_owned(),
            content_type: "text/plain".to_owned(),
            content_encoding: Some("gzip".to_owned()),
            body: PathBuf::new(),
        };
        let key = PrivateKey::generate();
        let signed = headers(&what, &key, "2026", b"body", 1_793_527_200).unwrap();
        let sent: Vec<_> = signed.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let request = Request { method: "PUT", target_uri: "https://telemetry.example/events?a=1", headers: &sent };
        let keys = [Key { id: Some("2026".to_owned()), public: key.public(), not_before: None, expires: None }];
        let checked = verify(&request, b"body", &keys, 1_793_527_200, |_, _, _| true);
        assert_eq!(checked.verdict, Verdict::Valid);
    }
}
