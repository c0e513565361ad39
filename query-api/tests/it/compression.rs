//! Compressed reads: in every route, encoding and format, the decoded body equals the uncompressed one.

use crate::click_fixture::{ClickFixture, reported};
use crate::lists::OWNERS;
use crate::test_app::fetch_on;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, VARY};
use schemas::event::SourceRole::Edge;
use serde_json::json;
use service_kit::testing::client;
use std::io::Read;

const ENCODINGS: [&str; 3] = ["gzip", "br", "zstd"];

fn decoded(encoding: &str, bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    match encoding {
        "gzip" => flate2::read::GzDecoder::new(bytes).read_to_end(&mut text).unwrap(),
        "br" => brotli_decompressor::Decompressor::new(bytes, 4_096).read_to_end(&mut text).unwrap(),
        "zstd" => zstd::Decoder::new(bytes).unwrap().read_to_end(&mut text).unwrap(),
        other => panic!("{other}"),
    };
    text
}

/// Returns every read with data, an API key that may read it, and its formats.
async fn reads_with_data() -> (ClickFixture, Vec<(String, String, Vec<&'static str>)>) {
    let clicks = ClickFixture::start().await;
    let rows: Vec<_> = (0..400_u128)
        .map(|key| {
            let row = fetch_on("example.com", key).role(Edge).session(key % 9).after(i64::try_from(key).unwrap() * 3_600_000);
            row.url(&format!("https://example.com/{}", key % 90)).data(r#"{"text":"a,b\"c\"\n","n":1.10}"#)
        })
        .collect();
    clicks.app.insert(&rows).await;
    let session = clicks.session(Some(3)).await;
    let events: Vec<_> = (0..60)
        .map(|ms| {
            let url = format!("https://example.com/{ms}");
            reported(clicks.agent.id, session, "content_grounded", &url).after(ms).data(&json!({"scope": "session"}).to_string())
        })
        .collect();
    clicks.app.insert(&events).await;
    let token = clicks.token(session, "https://example.com/target").await;
    let all = vec!["application/json", "application/x-ndjson", "text/csv"];
    let json = vec!["application/json"];
    let year = "since=2026-01-01&until=2027-01-01";
    let mut reads: Vec<_> = OWNERS.map(|path| (format!("{path}?{year}"), clicks.owner.key.clone(), all.clone())).into();
    reads.push((format!("/content-owners/summary?{year}"), clicks.owner.key.clone(), json.clone()));
    reads.push((format!("/agent/events?{year}"), clicks.agent.key.clone(), all.clone()));
    reads.push((format!("/content-owners/series?{year}&split=type"), clicks.owner.key.clone(), all.clone()));
    reads.push((format!("/agent/series?{year}"), clicks.agent.key.clone(), all));
    reads.push((format!("/agent/summary?{year}"), clicks.agent.key.clone(), json.clone()));
    reads.push((format!("/sessions/{session}/document"), clicks.agent.key.clone(), json.clone()));
    reads.push((format!("/ctx/{token}"), clicks.network.key.clone(), json.clone()));
    reads.push(("/resolve?domain=example.com".to_owned(), clicks.owner.key.clone(), json));
    (clicks, reads)
}

#[tokio::test]
async fn compressed_reads_equal_uncompressed_ones() {
    let (clicks, reads) = reads_with_data().await;
    let http = client();
    let mut compressed = Vec::new();
    for (path, key, formats) in &reads {
        for accept in formats {
            let ask = async |encoding: &str| {
                let request =
                    http.get(format!("{}{path}", clicks.app.server.url)).header("x-api-key", key).header(ACCEPT, *accept);
                let answer = request.header(ACCEPT_ENCODING, encoding).send().await.unwrap();
                assert_eq!(answer.status(), 200, "{path} as {accept} in {encoding}");
                let headers = answer.headers().clone();
                (headers, answer.bytes().await.unwrap())
            };
            let (plain_headers, plain) = ask("identity").await;
            assert!(!plain_headers.contains_key(CONTENT_ENCODING));
            for encoding in ENCODINGS {
                let (headers, bytes) = ask(encoding).await;
                let of = |headers: &reqwest::header::HeaderMap| {
                    headers.iter().filter(|(name, _)| ["content-type", "x-total-count"].contains(&name.as_str())).count()
                };
                assert_eq!(of(&headers), of(&plain_headers));
                let Some(said) = headers.get(CONTENT_ENCODING) else {
                    assert!(plain.len() < 1_024, "{path} as {accept}: {} bytes and not in {encoding}", plain.len());
                    assert_eq!((&bytes, &headers[CONTENT_LENGTH]), (&plain, &plain_headers[CONTENT_LENGTH]), "{path}");
                    continue;
                };
                assert!(said == encoding && headers[VARY] == "accept-encoding", "{path} as {accept}: {headers:?}");
                assert!(!headers.contains_key(CONTENT_LENGTH), "the length is unknown in advance");
                assert_eq!(decoded(encoding, &bytes), plain, "{path} as {accept} in {encoding}");
                assert!(bytes.len() < plain.len(), "{path} as {accept} in {encoding}: {} of {}", bytes.len(), plain.len());
                compressed.push(path.split(['?', '/']).nth(2).unwrap_or_default().to_owned());
            }
        }
    }
    compressed.sort_unstable();
    compressed.dedup();
    assert!(compressed.len() >= 6, "only {compressed:?} were large enough to compress");
}

#[tokio::test]
async fn errors_and_refused_encodings_are_uncompressed() {
    let clicks = ClickFixture::start().await;
    let url = format!("{}/content-owners/events", clicks.app.server.url);
    let refused = client().get(&url).header(ACCEPT_ENCODING, "gzip, br, zstd").send().await.unwrap();
    assert_eq!((refused.status().as_u16(), refused.headers().get(CONTENT_ENCODING)), (401, None));
    for nothing in ["identity;q=0", "*;q=0", "deflate", "gzip;q=0"] {
        let request = client().get(&url).header("x-api-key", &clicks.owner.key).header(ACCEPT_ENCODING, nothing);
        let answer = request.send().await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.headers().get(CONTENT_ENCODING)), (200, None), "{nothing}");
    }
}
