//! `webhook verify` and `webhook listen`.

use crate::terminal::Terminal;
use crate::test_service::Service;
use crate::webhook_listener::WebhookListener;
use schemas::webhook::signature::sign;
use service_kit::clock::Clock;
use service_kit::testing::{DnsRecord, TestAuthority, TestDns, free_address};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

const SECRET: &str = "whsec_abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG";
const BODY: &str = r#"{"id":"0195f3a0-0000-7000-8000-000000000052","type":"webhook.test","created_at":"2026-11-01T10:00:00.000Z","data":{"webhook":{"id":"0195f3a0-0000-7000-8000-000000000051"}}}"#;

#[test]
fn verifies_signature_age_and_exact_body() {
    let terminal = Terminal::new();
    let (secret, body) = (terminal.file("secret", SECRET), terminal.file("body", BODY));
    let now = Clock::System.now().timestamp();
    let verify = |body: &std::path::Path, at: i64, signature: &str, more: &[&str]| {
        let at = at.to_string();
        let all = ["webhook", "verify", body.to_str().unwrap(), "--secret-file", secret.to_str().unwrap(), "--timestamp", &at];
        terminal.run(&[&all[..], &["--signature", signature], more].concat())
    };
    let signature = sign(SECRET, now, BODY.as_bytes());
    assert!(verify(&body, now, &signature, &[]).ok().stdout.contains("webhook.test"));
    let changed = terminal.file("changed", &format!("{BODY} "));
    let said = verify(&changed, now, &signature, &[]);
    assert!(said.code == 1 && said.stderr.contains("signature") && !said.stderr.contains(SECRET), "{said:?}");
    let old = sign(SECRET, now - 3_600, BODY.as_bytes());
    assert_eq!(verify(&body, now - 3_600, &old, &[]).code, 1, "the timestamp is too old");
    verify(&body, now - 3_600, &old, &["--any-age"]).ok();
}

#[test]
fn receiver_accepts_signed_deliveries_once() {
    let terminal = Terminal::new();
    let secret = terminal.file("secret", SECRET);
    let listen = [
        "webhook",
        "listen",
        "--secret-file",
        secret.to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
        "--count",
        "1",
        "-o",
        "ndjson",
    ];
    let mut running = terminal.start(&listen);
    let mut said = BufReader::new(running.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let address = line.trim().rsplit('/').next().unwrap().to_owned();
    let post = |signature: &str, at: i64| {
        let mut stream = TcpStream::connect(&address).unwrap();
        let head = format!(
            "POST /hook HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nx-svc-signature: {signature}\r\nx-svc-timestamp: {at}\r\ncontent-length: {}\r\n\r\n",
            BODY.len()
        );
        stream.write_all(format!("{head}{BODY}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    let now = Clock::System.now().timestamp();
    assert_eq!(post(&sign("whsec_another", now, BODY.as_bytes()), now), "401");
    assert_eq!(post(&sign(SECRET, now, BODY.as_bytes()), now), "204");
    let output = running.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 1, "one line per delivery");
}

#[tokio::test(flavor = "multi_thread")]
async fn receives_deliveries_with_a_local_certificate() {
    let (authority, terminal, at) = (TestAuthority::new(), Terminal::new(), free_address());
    let (certificate, key) = authority.pem_for(&["localhost"]);
    let (trusted, shown) = (terminal.file("authority", &authority.pem), terminal.file("server", &format!("{certificate}{key}")));
    let here = |name: &str| if name == "localhost" { vec![DnsRecord::Address([127, 0, 0, 1].into())] } else { Vec::new() };
    let dns = TestDns::start(here).await;
    let allowed = [
        ("WEBHOOK_ALLOW", format!("localhost:{}", at.port())),
        ("WEBHOOK_EXTRA_CA", trusted.display().to_string()),
        ("TELEMETRY_DNS_SERVER", dns.address.to_string()),
    ];
    let service = Service::start_with(&allowed).await;
    let (owner, url) = (service.terminal("OWNER_KEY"), format!("https://localhost:{}/", at.port()));
    let made = owner.run(&["webhook", "create", &url, "-o", "json"]).json();
    let secret = terminal.file("secret", made["secret"].as_str().unwrap());
    let (shown, secret, listen) = (shown.to_str().unwrap(), secret.to_str().unwrap(), at.to_string());
    let wrong = terminal.run(&["webhook", "listen", "--tls", secret, "--secret-file", secret, "--listen", &listen]);
    assert!(wrong.code == 2 && wrong.stderr.contains("it contains no private key"), "{wrong:?}");
    let words = ["webhook", "listen", "--tls", shown, "--secret-file", secret, "--listen", &listen, "--count", "1"];
    let listening = WebhookListener::start(&terminal, &words);
    // Clients without TLS, or that send nothing, must not block others.
    let _silent = TcpStream::connect(at).unwrap();
    TcpStream::connect(at).unwrap().write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    owner.run(&["webhook", "send-test", &url, "--wait"]).ok();
    let said = listening.wait().ok();
    assert!(said.stdout.contains("webhook.test") && said.stderr.contains("Listening on https://"), "{said:?}");
}
