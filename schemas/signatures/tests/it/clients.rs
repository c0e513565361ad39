//! The clients in `infra/clients` sign requests that this crate verifies.

use data_encoding::BASE64;
use serde_json::Value;
use signatures::content_telemetry::verify;
use signatures::{Key, PrivateKey, Request, Verdict};
use std::process::Command;

const CLIENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../infra/clients");
const NOW: i64 = 1_793_527_200;
const URL: &str = "https://telemetry.example/events?a=%20b";
const ID: &str = r#"a "quoted\" id"#;
const BODY: &str = "{\"events\":[\"ü\"]}";

/// Signs with `signRequest`, and reports through a client whose `fetch` fails once.
const JAVASCRIPT: &str = r#"
const [client, jwk, id, now, url, body] = process.argv.slice(1);
const { signRequest, ContentTelemetry } = await import(`${client}/javascript/content-telemetry.mjs`);
const signingKey = { keyId: id, jwk: JSON.parse(jwk) };
const sent = [];
for (const headers of [{ "content-type": "application/json" }, { "content-type": "text/plain", "content-encoding": "gzip" }]) {
  const request = { method: "POST", url, headers, body };
  sent.push({ url, body, headers: { ...headers, ...(await signRequest(signingKey, request, now * 1000)) } });
}
Date.now = () => now * 1000;
const fetch = async (url, { body, headers }) => {
  if (body === undefined) return Response.json({ unsigned: !headers.signature });
  sent.push({ url, body, headers });
  return sent.length === 3 ? new Response("{}", { status: 503 }) : Response.json({});
};
const agent = new ContentTelemetry({ url: "https://telemetry.example", apiKey: "key", signingKey, fetch });
await agent.startSession({ agent_id: "a" });
if (!(await agent.read("/agent/summary")).unsigned) throw new Error("a read is signed");
console.log(JSON.stringify(sent));
"#;

const PYTHON: &str = r#"
import json, sys
sys.dont_write_bytecode = True
client, jwk, id, now, url, body = sys.argv[1:]
sys.path.insert(0, client + "/python")
import content_telemetry, io, time, urllib.error, urllib.response
jwk, now, sent = json.loads(jwk), int(now), []
for headers in ({"content-type": "application/json"}, {"content-type": "text/plain", "content-encoding": "gzip"}):
    signed = content_telemetry.sign_request(id, jwk, "POST", url, headers, body.encode(), now)
    sent.append({"url": url, "body": body, "headers": {**headers, **signed}})
time.time = lambda: now
class Opener:
    def open(self, request, timeout):
        headers = {name.lower(): value for name, value in request.header_items()}
        if request.data is None:
            assert "signature" not in headers
            return io.BytesIO(b"{}")
        sent.append({"url": request.full_url, "body": request.data.decode(), "headers": headers})
        if len(sent) == 3:
            raise urllib.error.HTTPError(request.full_url, 503, "", {}, io.BytesIO(b"{}"))
        return io.BytesIO(b'{"session_id": "1"}')
agent = content_telemetry.ContentTelemetry("https://telemetry.example", "key", signing_key=(id, jwk))
agent._opener = Opener()
agent.start_session(agent_id="a")
agent.read("/agent/summary")
print(json.dumps(sent))
"#;

fn signed_by(program: &str, script: &[&str], key: &PrivateKey) -> Vec<Value> {
    let mut command = Command::new(program);
    command.args(script).args([CLIENTS, &key.to_jwk(), ID, &NOW.to_string(), URL, BODY]);
    let output = command.output().unwrap_or_else(|error| panic!("this test needs {program}: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the script prints no JSON")
}

fn verify_all(program: &str, script: &[&str]) {
    let key = PrivateKey::generate();
    let known = [Key { id: Some(ID.to_owned()), public: key.public(), not_before: None, expires: None }];
    let sent = signed_by(program, script, &key);
    assert_eq!(sent.len(), 4);
    let mut nonces = std::collections::HashSet::new();
    for request in sent {
        let text = |value: &Value| value.as_str().expect("not a string").to_owned();
        let headers: Vec<(String, String)> =
            request["headers"].as_object().expect("no headers").iter().map(|(name, value)| (name.clone(), text(value))).collect();
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let url = text(&request["url"]);
        let (received, body) = (Request { method: "POST", target_uri: &url, headers: &headers }, text(&request["body"]));
        let is_new = |_: &str, nonce: &str, _: i64| nonces.insert(nonce.to_owned());
        let checked = verify(&received, body.as_bytes(), &known, NOW, is_new);
        assert_eq!(checked.verdict, Verdict::Valid, "{request}");
    }
}

#[test]
fn javascript_client_signs_every_attempt() {
    verify_all("node", &["--input-type=module", "--eval", JAVASCRIPT]);
}

#[test]
fn python_client_signs_every_attempt() {
    verify_all("python3", &["-c", PYTHON]);
}

/// RFC 8032 signatures are deterministic, so every implementation returns the same one.
#[test]
fn python_client_signs_like_the_library() {
    const SCRIPT: &str = "import base64, json, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1] + '/python')
from content_telemetry import _ed25519
print(json.dumps([base64.b64encode(_ed25519(bytes([n]) * 32, bytes(n))).decode() for n in range(40)]))";
    let output = Command::new("python3").args(["-c", SCRIPT, CLIENTS]).output().expect("this test needs Python 3.11");
    let signatures: Vec<String> = serde_json::from_slice(&output.stdout).unwrap();
    for (number, signature) in (0_u8..).zip(signatures) {
        let secret = ed25519_dalek::SigningKey::from_bytes(&[number; 32]);
        let expected = ed25519_dalek::Signer::sign(&secret, &vec![0; number.into()]).to_bytes();
        assert_eq!(signature, BASE64.encode(&expected), "{number}");
    }
}
