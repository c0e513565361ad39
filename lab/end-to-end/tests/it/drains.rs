//! CDN logs through the whole service: what reads return for them, and which of their data isn't stored.

mod histories;
mod logs;
mod model;
mod redelivery;
mod privacy;

use crate::demo::DemoApp;
use chrono::{DateTime, TimeDelta, Utc};
use flate2::Compression;
use flate2::write::GzEncoder;
use loadgen::log_lines::{Format, Request};
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::json;
use service_kit::testing::{TestProcess, TestResponse, client, send_request};
use std::io::Write;
use std::net::TcpStream;
use tempfile::TempDir;

/// User agents of crawlers, as their operators document them.
const BOTS: [&str; 3] = [
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; GPTBot/1.2; +https://openai.com/gptbot",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ClaudeBot/1.0; +claudebot@anthropic.com)",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; PerplexityBot/1.0; +https://perplexity.ai/perplexitybot)",
];

/// Returns a bot's page request, `n` seconds after `begin`.
fn request(begin: DateTime<Utc>, n: usize) -> Request {
    Request {
        at: begin + TimeDelta::seconds(i64::try_from(n).unwrap()),
        id: format!("request-{n}"),
        telemetry_id: String::new(),
        address: "203.0.113.9".to_owned(),
        user_agent: BOTS[n % BOTS.len()].to_owned(),
        host: "www.example.com".to_owned(),
        path: format!("/page/{n}"),
        status: 200,
        bytes: 4_711,
        country: "de",
        cache: "hit",
    }
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// Creates a drain for the owner and returns its key.
async fn drain_key(demo: &DemoApp, format: Format) -> String {
    let provider = format.provider();
    let drain =
        json!({"name": format.name(), "provider": provider, "hosts": ["www.example.com"], "role": provider.default_role()});
    let made = demo.post(demo.env("OWNER_KEY"), "/api/v1/identity/drains", &drain).await.expect(201);
    made.text("key").to_owned()
}

/// Sends a body as a provider does. Uses a new connection, because the service closes a connection whose body it rejects
/// early.
async fn send_log(demo: &DemoApp, format: Format, key: &str, body: &str, is_compressed: bool) -> TestResponse {
    let asked = client().post(demo.url(&format!("/drains/{}", format.provider().as_str()))).header("x-api-key", key);
    send_request(match is_compressed {
        true => asked.header("content-encoding", "gzip").body(gzip(body)),
        false => asked.body(body.to_owned()),
    })
    .await
}

/// Sends a random part of a body, then closes the connection.
fn send_part_and_disconnect(demo: &DemoApp, random: &mut StdRng, format: Format, key: &str, body: &str) {
    let (body, encoding) = match random.random_bool(0.5) {
        true => (gzip(body), "gzip"),
        false => (body.as_bytes().to_vec(), "identity"),
    };
    let address = demo.env("BASE_URL").strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /drains/{} HTTP/1.1\r\nhost: {address}\r\nx-api-key: {key}\r\ncontent-encoding: {encoding}\r\ncontent-length: {}\r\n\r\n",
        format.provider().as_str(),
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // The write fails if the service has rejected the request and closed the connection.
    drop(stream.write_all(&body[..random.random_range(0..body.len())]));
}

/// Imports lines from a file with the `telemetry` command.
async fn import(demo: &DemoApp, random: &mut StdRng, format: Format, key: &str, lines: &[String], trace: &str) {
    let home = TempDir::new().unwrap();
    let (file, text) = (home.path().join("access.log"), lines.join("\n"));
    std::fs::write(&file, if random.random_bool(0.5) { gzip(&text) } else { text.into_bytes() }).unwrap();
    let settings = [("HOME", home.path().to_str().unwrap()), ("TELEMETRY_URL", demo.env("BASE_URL")), ("TELEMETRY_KEY", key)];
    let arguments = ["import", file.to_str().unwrap(), "--provider", format.provider().as_str()];
    let mut import = TestProcess::service(&arguments, &settings);
    assert_eq!(import.exit_code().await, Some(0), "{trace}: {}", import.stderr());
}
