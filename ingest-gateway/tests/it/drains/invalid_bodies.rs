//! A1 for drains: invalid bodies get a timely response and never cause an internal error.

use super::{FIXTURES, body, delivery, send_log};
use crate::encodings::compress;
use crate::harness::{Gateway, send_request};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ingest_gateway::DrainSettings;
use schemas::identity::{DrainProvider, OrgType};
use serde_json::json;

fn nasty() -> Vec<(&'static str, Option<&'static str>, Vec<u8>)> {
    let endless = compress("gzip", &vec![b'a'; 64 * 1024 * 1024]);
    let utf16: Vec<u8> = "{\"host\":\"a.test\"}\n".repeat(100).encode_utf16().flat_map(u16::to_le_bytes).collect();
    vec![
        ("nesting", None, format!("{{\"a\":{}\n", "[".repeat(60_000)).into_bytes()),
        ("a nested array", None, "[".repeat(1_000_000).into_bytes()),
        ("nested objects", None, "{\"a\":".repeat(200_000).into_bytes()),
        ("a line of the maximum length", None, [vec![b'x'; 64 * 1024], b"\n{}\n".to_vec()].concat()),
        ("a longer line", None, vec![b'x'; 300_000]),
        ("an endless string", None, format!("[\"{}", "\\\"".repeat(500_000)).into_bytes()),
        ("gzip of one endless line", Some("gzip"), endless),
        ("ten thousand fields", None, "a\t".repeat(10_000).into_bytes()),
        (
            "ten thousand members",
            None,
            format!("{{{}\"z\":1}}", (0..10_000).map(|n| format!("\"m{n}\":1,")).collect::<String>()).into_bytes(),
        ),
        ("repeated members", None, "{\"host\":\"a\",\"host\":\"b\",\"RayID\":1,\"RayID\":[]}\n".repeat(100).into_bytes()),
        ("bad base64", None, br#"{"requestId":"x","records":[{"data":"%%%"},{"data":7},{},null,"x",[[]]]}"#.to_vec()),
        (
            "mixed encodings",
            None,
            [b"\xef\xbb\xbf{}\n".to_vec(), b"\xff\xfe".to_vec(), utf16, b"caf\xe9\n\x00\x00\n".to_vec()].concat(),
        ),
        ("ten thousand fields in a record", None, delivery("x", &["b\t".repeat(10_000).as_bytes()])),
        ("a record that is not text", None, delivery("x", &[&(0..=255).collect::<Vec<u8>>()])),
        ("a wrong encoding", Some("gzip"), b"{}".to_vec()),
        ("a wrong zstd size", Some("zstd"), b"\x28\xb5\x2f\xfd\xff\xff\xff\xff".to_vec()),
        ("a wrong snappy size", Some("snappy"), b"\xff\xff\xff\xff\x0f".to_vec()),
        ("numbers", None, format!("{{\"timestamp\":{},\"status\":-1,\"bytes\":1e400}}\n", "9".repeat(400)).into_bytes()),
        ("quotes", None, format!("1.1.1.1 - - [01/Nov/2026:10:00:00 +0000] {}", "\"\\".repeat(10_000)).into_bytes()),
        (
            "invalid hosts",
            None,
            br#"{"timestamp":1793527200,"host":"a@evil.test/","path":"/","method":"GET","user_agent":"GPTBot/1.2","status":200}"#
                .to_vec(),
        ),
        ("nothing", None, Vec::new()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a1_drain_bodies_never_cause_server_errors() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("network", OrgType::Platform).await.key;
    for provider in DrainProvider::NAMES {
        for (what, encoding, body) in nasty() {
            let request = gateway.post_request(&format!("/drains/{provider}"), &key).body(body);
            let request = encoding.into_iter().fold(request, |request, encoding| request.header("content-encoding", encoding));
            // Rejecting an unread body closes the connection, so the next request needs a new one.
            let told = send_request(request.header("connection", "close")).await;
            // On a busy machine, the response may be 503.
            assert!(matches!(told.status, 200 | 400 | 413 | 422 | 503), "{provider}, {what}: {} {}", told.status, told.body);
            assert_eq!(told.body["kept"].as_u64().unwrap_or_default(), 0, "{provider}, {what}");
        }
    }
    assert_eq!(gateway.log.record_count(), 0);
}

/// Invalid lines, none with a line break.
fn hostile_lines() -> Vec<(&'static str, Vec<u8>)> {
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).filter(|byte| *byte != b'\n').collect::<Vec<u8>>();
    let members = (0..5_000).map(|n| format!("\"m{n}\":{{\"a\":1}},")).collect::<String>();
    vec![
        ("nesting", format!("{{\"proxy\":{}", "{\"a\":[".repeat(10_000)).into_bytes()),
        ("limited nesting", format!("{{\"a\":{}{}}}", "[".repeat(30_000), "]".repeat(30_000)).into_bytes()),
        ("64 KiB", vec![b'x'; 64 * 1024]),
        ("64 KiB and a byte", vec![b'x'; 64 * 1024 + 1]),
        ("a megabyte", vec![b'{'; 1024 * 1024]),
        ("a user agent of 60 KiB", format!("{{\"user_agent\":\"{}\"}}", "GPTBot/1.2 ".repeat(5_500)).into_bytes()),
        ("ten thousand tabs", b"a\t".repeat(10_000)),
        ("ten thousand spaces", b"a ".repeat(10_000)),
        ("ten thousand quotes", b"\"\\".repeat(10_000)),
        ("five thousand members", format!("{{{members}\"z\":1}}").into_bytes()),
        ("bad base64", br#"{"data":"%%%","requestId":"=","records":[{"data":"A"}]}"#.to_vec()),
        ("invalid escapes", format!("{{\"UA\":\"{}\"}}", "%zz%".repeat(10_000)).into_bytes()),
        ("half a surrogate", br#"{"host":"\ud800","user_agent":"GPTBot\udfff"}"#.to_vec()),
        ("Latin-1", b"{\"host\":\"caf\xe9.test\"}".to_vec()),
        ("UTF-16", utf16("{\"host\":\"a.test\"}")),
        ("a byte order mark", b"\xef\xbb\xbf{\"host\":\"a.test\"}".to_vec()),
        ("all bytes", (0..=255).filter(|byte| !matches!(byte, b'\n' | b'\r')).collect()),
        ("numbers", format!("{{\"timestamp\":{},\"status\":-1e400}}", "9".repeat(400)).into_bytes()),
    ]
}

/// Returns a provider's log line for a fetch to be stored.
fn good_line(provider: &str) -> &'static [u8] {
    // The NDJSON fixture is an array; Fastly's lines use the same names.
    let wanted = if provider == "ndjson" { "fastly" } else { provider };
    let (_, _, lines) = FIXTURES.into_iter().find(|(known, ..)| *known == wanted).unwrap();
    lines.split(|byte| *byte == b'\n').next().unwrap()
}

/// Sends each hostile line between two good ones, plain and compressed. Both good lines must be stored.
async fn send_hostile_lines(provider: &'static str) {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("network", OrgType::Platform).await.key;
    let good = good_line(provider);
    let mut sent = 0;
    for (what, hostile) in hostile_lines() {
        let lines = body(provider, &[good, b"\n", &hostile, b"\n", good, b"\n"].concat());
        let compressed = compress("gzip", &lines);
        for (encoding, body) in [("identity", lines), ("gzip", compressed)] {
            let request = gateway.post_request(&format!("/drains/{provider}"), &key).header("content-encoding", encoding);
            let told = send_request(request.body(body)).await;
            assert_eq!(told.status, 200, "{provider}, {what}, {encoding}: {}", told.body);
            sent += 1;
            if provider != "firehose" {
                assert_eq!(
                    (&told.body["lines"], &told.body["kept"]),
                    (&3.into(), &2.into()),
                    "{provider}, {what}: {}",
                    told.body
                );
            }
        }
    }
    let records = gateway.log.records(sent).await;
    assert!(records.iter().all(|record| record.events.len() == 2), "{provider}: a good line beside a bad one is kept");
}

#[tokio::test]
async fn a1_invalid_firehose_records_do_not_affect_others() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("network", OrgType::Platform).await.key;
    let good = json!({"data": BASE64_STANDARD.encode(good_line("firehose"))}).to_string();
    let hostile = [
        r#"{"data":"%%%"}"#.to_owned(),
        r#"{"data":"YQ"}"#.to_owned(),
        format!(r#"{{"data":"{}"}}"#, "A".repeat(3 * 1024 * 1024)),
        r#"{"data":7}"#.to_owned(),
        "{}".to_owned(),
        r#"{"records":[{"data":"YQ=="}]}"#.to_owned(),
        "[".repeat(10_000) + &"]".repeat(10_000),
        "null".to_owned(),
        r#""]}""#.to_owned(),
    ];
    for hostile in &hostile {
        let what = &hostile[..hostile.len().min(40)];
        let told =
            send_log(&gateway, "firehose", &key, format!(r#"{{"requestId":"x","records":[{good},{hostile},{good}]}}"#)).await;
        assert_eq!(told.status, 200, "{what}: {}", told.body);
    }
    let records = gateway.log.records(hostile.len()).await;
    assert!(records.iter().all(|record| record.events.len() == 2), "a good record beside a bad one is kept");
    let bad = "SELECT reason, excerpt FROM drain_bad_lines ORDER BY reason, length(excerpt) LIMIT 1";
    let bad: (String, String) = sqlx::query_as(bad).fetch_one(&gateway.stores.pool).await.unwrap();
    assert_eq!(bad, ("not_a_record".to_owned(), "{}".to_owned()), "the owner sees what a bad record looks like");
    let reasons: Vec<String> = sqlx::query_scalar("SELECT DISTINCT reason FROM drain_bad_lines ORDER BY reason")
        .fetch_all(&gateway.stores.pool)
        .await
        .unwrap();
    assert_eq!(reasons, ["not_a_record", "not_base64", "too_long"]);
}

/// Visitors choose the requested host, and some logs begin with it.
#[tokio::test]
async fn a1_accepts_logs_that_start_with_an_address_in_brackets() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("network", OrgType::Platform).await.key;
    let good = good_line("combined");
    for hostile in ["[::1] ", "[::1]:80 ", "[x ", "  [] "] {
        let told = send_log(&gateway, "combined", &key, [hostile.as_bytes(), good, b"\n", good].concat()).await;
        assert_eq!(
            (told.status, &told.body["lines"], &told.body["kept"]),
            (200, &2.into(), &2.into()),
            "{hostile}: {}",
            told.body
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a1_hostile_lines_do_not_affect_others() {
    DrainProvider::NAMES.into_iter().map(send_hostile_lines).collect::<tokio::task::JoinSet<_>>().join_all().await;
}

#[tokio::test]
async fn drain_body_limits_are_exact() {
    let limits = DrainSettings {
        drain_wire_bytes: 1_000,
        drain_body_bytes: 5_000,
        drain_lines: 10,
        drain_line_bytes: 100,
        ..DrainSettings::default()
    };
    let gateway = Gateway::start_draining(limits).await;
    let key = gateway.seed().org("network", OrgType::Platform).await.key;
    let lines = |count: usize| "x\n".repeat(count).into_bytes();
    let one_line = |bytes: usize| [vec![b'x'; bytes], b"\n".to_vec()].concat();
    let packed = |bytes: usize| compress("gzip", &vec![b'\n'; bytes]);
    for (what, encoding, body, status) in [
        ("wire", "identity", vec![b'\n'; 1_000], 200),
        ("wire", "identity", vec![b'\n'; 1_001], 413),
        ("inflated", "gzip", packed(5_000), 200),
        ("inflated", "gzip", packed(5_001), 413),
        ("lines", "identity", lines(10), 422),
        ("lines", "identity", lines(11), 413),
        ("line", "identity", one_line(100), 422),
        ("line", "identity", one_line(101), 422),
    ] {
        let told =
            send_request(gateway.post_request("/drains/ndjson", &key).header("content-encoding", encoding).body(body)).await;
        assert_eq!(told.status, status, "{what}: {}", told.body);
    }
    let records = |count: usize| format!(r#"{{"records":[{}]}}"#, vec!["{}"; count].join(","));
    for (count, status) in [(10, 400), (11, 413)] {
        assert_eq!(send_log(&gateway, "firehose", &key, records(count)).await.status, status, "{count} records");
    }
    let reasons: Vec<String> = sqlx::query_scalar("SELECT DISTINCT reason FROM drain_bad_lines ORDER BY reason")
        .fetch_all(&gateway.stores.pool)
        .await
        .unwrap();
    assert_eq!(reasons, ["not_a_record", "not_json", "too_long"]);
}
