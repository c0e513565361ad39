//! Compressed bodies: the size limits of S9 are exact on every route and encoding. Compression bombs are in `overload`.

use crate::harness::{Gateway, TestApp, TestResponse, retrieval, send_request};
use serde_json::json;
use std::io::Write;

const ROUTES: [&str; 5] = ["/events", "/sessions/start", "/sessions/end", "/sessions/bulk", "/click-tokens"];
pub(crate) const ENCODINGS: [&str; 4] = ["gzip", "deflate", "br", "zstd"];

pub(crate) fn compress(encoding: &str, text: &[u8]) -> Vec<u8> {
    match encoding {
        "gzip" => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
            encoder.write_all(text).expect("writing to memory succeeds");
            encoder.finish().expect("writing to memory succeeds")
        }
        "deflate" => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
            encoder.write_all(text).expect("writing to memory succeeds");
            encoder.finish().expect("writing to memory succeeds")
        }
        "br" => {
            let mut wire = Vec::new();
            let mut encoder = brotli::CompressorWriter::new(&mut wire, 4_096, 5, 24);
            encoder.write_all(text).expect("writing to memory succeeds");
            drop(encoder);
            wire
        }
        _ => zstd::encode_all(text, 3).expect("writing to memory succeeds"),
    }
}

async fn send(gateway: &TestApp, path: &str, key: &str, encoding: &str, wire: Vec<u8>) -> TestResponse {
    send_request(gateway.post_request(path, key).header("content-encoding", encoding).body(wire)).await
}

#[tokio::test]
async fn x5_accepts_every_supported_encoding() {
    let (gateway, key) = Gateway::with_agent().await;
    let body = json!({"events": [retrieval("https://a.test/")]}).to_string();
    for encoding in ENCODINGS.into_iter().chain(["GZIP"]) {
        let accepted = send(&gateway, "/events", &key, encoding, compress(&encoding.to_lowercase(), body.as_bytes())).await;
        assert_eq!(accepted.status, 201, "{encoding}: {}", accepted.body);
        let lying = send(&gateway, "/events", &key, encoding, body.clone().into_bytes()).await;
        assert_eq!(lying.status, 400, "{encoding}, not compressed");
    }
    for encoding in ["gzip, gzip", "compress", "x", ""] {
        assert_eq!(send(&gateway, "/events", &key, encoding, body.clone().into_bytes()).await.status, 415, "{encoding}");
    }
}

#[tokio::test]
async fn rejects_data_after_the_first_document() {
    let (gateway, key) = Gateway::with_agent().await;
    for encoding in ENCODINGS {
        let document = |path| compress(encoding, json!({"events": [retrieval(path)]}).to_string().as_bytes());
        let (first, second) = (document("https://a.test/1"), document("https://a.test/2"));
        for behind in [second.as_slice(), b"junk"] {
            let both = [first.as_slice(), behind].concat();
            assert_eq!(send(&gateway, "/events", &key, encoding, both).await.status, 400, "{encoding}");
        }
    }
    assert_eq!(gateway.log.record_count(), 0);
}

#[tokio::test]
async fn s9_inflated_limit_is_exact_on_every_route() {
    const LIMIT: usize = 4 * 1024 * 1024;
    let (gateway, key) = Gateway::with_agent().await;
    let padded = |length: usize| [b"{}".as_slice(), &vec![b' '; length - 2]].concat();
    let (fits, exceeds) = (padded(LIMIT), padded(LIMIT + 1));
    for encoding in ENCODINGS {
        let (fits, exceeds) = (compress(encoding, &fits), compress(encoding, &exceeds));
        for path in ROUTES {
            let inside = send(&gateway, path, &key, encoding, fits.clone()).await.status;
            assert!(inside == 201 || inside == 422, "{path} {encoding}: {inside}");
            assert_eq!(send(&gateway, path, &key, encoding, exceeds.clone()).await.status, 413, "{path} {encoding}");
        }
    }
    for path in ROUTES {
        let plain = |length: usize| send_request(gateway.post_request(path, &key).body(padded(length)));
        assert_ne!(plain(1024 * 1024).await.status, 413, "{path}");
        assert_eq!(plain(1024 * 1024 + 1).await.status, 413, "{path}");
    }
}

#[tokio::test]
async fn x3_empty_frames_do_not_bypass_limits() {
    let (gateway, key) = Gateway::with_agent().await;
    // A skippable zstd frame: 1 KiB on the wire, no output.
    let skippable = [b"\x50\x2a\x4d\x18\xf8\x03\x00\x00".as_slice(), &[0; 1_016]].concat();
    let body = json!({"events": [retrieval("https://a.test/")]}).to_string();
    let behind = |frames: usize| [skippable.repeat(frames), compress("zstd", body.as_bytes())].concat();
    assert_eq!(send(&gateway, "/events", &key, "zstd", behind(1_000)).await.status, 201, "a valid body after empty frames");
    assert_eq!(send(&gateway, "/events", &key, "zstd", skippable.repeat(1_024)).await.status, 400, "no document");
    assert_eq!(
        send(&gateway, "/events", &key, "zstd", behind(1_024)).await.status,
        413,
        "the limit of the compressed size is separate"
    );
}
