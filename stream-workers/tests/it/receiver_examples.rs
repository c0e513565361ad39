//! Receivers that users run (the library's example, and the Python and JavaScript code in docs/api/webhooks.md), with real and forged
//! deliveries (V8, V9).

use crate::delivery_fixture::{DeliveryFixture, Endpoint, HOST};
use crate::recording_receiver::{ReceivedRequest, RecordingReceiver};
use chrono::TimeDelta;
use schemas::webhook::verify::{Receiver, Rejection};
use serde_json::{Value, json};
use service_kit::testing::{TestReceiver, client};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

#[path = "../../../schemas/examples/webhook_receiver.rs"]
#[expect(dead_code, reason = "a separate program, here without its main")]
mod example;

const DOCUMENT: &str = include_str!("../../../docs/api/webhooks.md");

/// A request to a receiver, and the expected result.
struct Case {
    letter: ReceivedRequest,
    secret: String,
    seconds_later: i64,
    expected: &'static str,
}

/// Returns real requests, then requests that must be rejected.
fn cases(letters: &[ReceivedRequest], endpoint: &Endpoint) -> Vec<Case> {
    let case = |letter: &ReceivedRequest, expected| Case {
        letter: letter.clone(),
        secret: endpoint.secret.clone(),
        seconds_later: 0,
        expected,
    };
    let mut cases: Vec<Case> = letters.iter().map(|letter| case(letter, "taken")).collect();
    cases.extend(letters.iter().map(|letter| case(letter, "repeated")));
    let letter = &letters[0];
    let mut changed = case(letter, "forged");
    changed.letter.body[10] ^= 1;
    let mut longer = case(letter, "forged");
    longer.letter.body.push(b' ');
    let mut later = case(letter, "forged");
    let timestamp: i64 = letter.headers["x-svc-timestamp"].parse().unwrap();
    later.letter.headers.insert("x-svc-timestamp".to_owned(), (timestamp + 1).to_string());
    let spelled = misspelled(&letter.headers["x-svc-signature"]).into_iter().map(|signature| {
        let mut spelled = case(letter, "forged");
        spelled.letter.headers.insert("x-svc-signature".to_owned(), signature);
        spelled
    });
    cases.extend(spelled);
    let other = Case { secret: "whsec_another".to_owned(), ..case(letter, "forged") };
    let bare = Case { secret: endpoint.secret.strip_prefix("whsec_").unwrap().to_owned(), ..case(letter, "forged") };
    let stale = Case { seconds_later: 302, ..case(letter, "stale") };
    let early = Case { seconds_later: -302, ..case(letter, "stale") };
    cases.extend([changed, longer, later, other, bare, stale, early]);
    cases
}

/// Returns variants of the signature that lenient decoders accept, and invalid signatures.
fn misspelled(signature: &str) -> Vec<String> {
    vec![
        String::new(),
        signature.to_uppercase(),
        format!("{}{}", signature[..32].to_uppercase(), &signature[32..]),
        signature[..63].to_owned(),
        signature[..62].to_owned(),
        format!("{signature}0"),
        format!("{signature}00"),
        format!("{signature}{signature}"),
        format!("{signature}\n"),
        format!("{signature}\r\n"),
        format!("{signature} "),
        format!(" {signature}"),
        format!("{signature}zz"),
        format!("{signature},v1"),
        format!("0x{signature}"),
        format!("sha256={signature}"),
        "é".repeat(32),
        "no signature at all".to_owned(),
    ]
}

/// Returns three requests sent by a real deliverer.
async fn real_letters() -> (Vec<ReceivedRequest>, Endpoint) {
    let (office, inbox, endpoint) = RecordingReceiver::with_endpoint(|_| Some(204)).await;
    let ids = office.enqueue_all(&endpoint, 3).await;
    let deliverer = office.deliverer();
    office.wait_until_delivered(&ids).await;
    deliverer.stop().await;
    (inbox.requests(), endpoint)
}

fn by_the_library(cases: &[Case], endpoint: &Endpoint) -> Vec<&'static str> {
    let mut receiver = Receiver::new(&endpoint.secret);
    let outcome = |case: &Case| {
        let now = case.letter.at + TimeDelta::seconds(case.seconds_later);
        let mut strangers = Receiver::new(&case.secret);
        let receiver = if case.secret == endpoint.secret { &mut receiver } else { &mut strangers };
        match receiver.accept(|name| case.letter.header(name), &case.letter.body, now) {
            Ok(delivery) => {
                receiver.remember(delivery.id());
                "taken"
            }
            Err(Rejection::Repeated) => "repeated",
            Err(Rejection::Forged) => "forged",
            Err(Rejection::Stale) => "stale",
            Err(other) => panic!("{other}"),
        }
    };
    cases.iter().map(outcome).collect()
}

/// Returns the document's code block in this language that contains `receive`.
fn snippet(language: &str) -> &'static str {
    let blocks = DOCUMENT.split("```").skip(1).step_by(2);
    let found: Vec<&str> =
        blocks.filter_map(|block| block.strip_prefix(language)).filter(|block| block.contains("receive(")).collect();
    let [only] = found.as_slice() else { panic!("the document has {} receivers in {language}", found.len()) };
    only
}

/// Runs a program that reads cases as one line of JSON and prints their outcomes as another.
async fn outcomes(program: &str, arguments: &[&str], cases: &[Case]) -> Vec<String> {
    let cases: Vec<Value> = cases
        .iter()
        .map(|case| {
            let now = (case.letter.at + TimeDelta::seconds(case.seconds_later)).timestamp();
            json!({"secret": case.secret, "headers": case.letter.headers, "body": case.letter.body, "now": now})
        })
        .collect();
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap_or_else(|error| panic!("this test needs {program}: {error}"));
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(Value::from(cases).to_string().as_bytes()).await.unwrap();
    drop(stdin);
    let output = child.wait_with_output().await.unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

const PYTHON: &str = r#"
import sys
outcomes = []
for case in json.load(sys.stdin):
    try:
        event = receive(case["secret"], case["headers"], bytes(case["body"]), case["now"])
        outcomes.append("repeated" if event is None else "taken")
        if event:
            seen.add(event["id"])
    except ValueError as refusal:
        outcomes.append(str(refusal))
print(json.dumps(outcomes))
"#;
const JAVASCRIPT: &str = r#"
import { readFileSync } from "node:fs";
const outcomes = JSON.parse(readFileSync(0, "utf8")).map(({ secret, headers, body, now }) => {
  try {
    const event = receive(secret, headers, Buffer.from(body), now);
    if (event) seen.add(event.id);
    return event ? "taken" : "repeated";
  } catch (refusal) {
    return refusal.message;
  }
});
console.log(JSON.stringify(outcomes));
"#;

#[tokio::test]
async fn v8_v9_documented_receivers_agree() {
    let (letters, endpoint) = real_letters().await;
    let cases = cases(&letters, &endpoint);
    let expected: Vec<&str> = cases.iter().map(|case| case.expected).collect();
    assert_eq!(by_the_library(&cases, &endpoint), expected, "the library");
    let python = format!("{}\n{PYTHON}", snippet("python"));
    assert_eq!(outcomes("python3", &["-c", &python], &cases).await, expected, "Python");
    let javascript = format!("{}\n{JAVASCRIPT}", snippet("js"));
    assert_eq!(outcomes("node", &["--input-type=module", "--eval", &javascript], &cases).await, expected, "JavaScript");
}

/// TLS is terminated in front of the example, as at a proxy.
#[tokio::test(flavor = "multi_thread")]
async fn example_receiver_accepts_deliveries_once() {
    let office = DeliveryFixture::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let behind = listener.local_addr().unwrap();
    let proxy = TestReceiver::start(office.authority.server_for(&[HOST]), move |mut stream| async move {
        let mut inside = TcpStream::connect(behind).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut stream, &mut inside).await;
    })
    .await;
    office.open_port(&proxy);
    let endpoint = office.endpoint(&proxy).await;
    let acted: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&acted);
    let app = example::app(&endpoint.secret, Box::new(move |delivery| noted.lock().unwrap().push(delivery.id().to_string())));
    let serving = tokio::spawn(async move { axum::serve(listener, app).await });
    let deliverer = office.deliverer();
    let ids = office.enqueue_all(&endpoint, 5).await;
    office.wait_until_delivered(&ids).await;
    for id in &ids {
        assert_eq!(office.delivery_state(*id).await.last_status_code, Some(204));
        sqlx::query("INSERT INTO webhook_redeliveries (delivery_id, created_at) VALUES ($1, now())")
            .bind(id)
            .execute(&office.pool)
            .await
            .unwrap();
    }
    office.wait_until_delivered(&ids).await;
    let mut once: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let mut acted = acted.lock().unwrap().clone();
    once.sort();
    acted.sort();
    assert_eq!((proxy.connects(), acted), (10, once), "each delivery is sent twice and processed once");
    let forged =
        client().post(format!("http://{behind}/in")).header("x-svc-timestamp", "1").header("x-svc-signature", "00").body("{}");
    assert_eq!(forged.send().await.unwrap().status(), 401);
    deliverer.stop().await;
    serving.abort();
}
