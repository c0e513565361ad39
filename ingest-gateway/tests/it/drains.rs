//! Tests of `POST /drains/{provider}` with the logs of each provider.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue must fail")]

mod invalid_bodies;
mod bots;
mod coverage;
mod destination_checks;
mod drain_keys;
mod edge_configs;
mod providers;
mod repeated_deliveries;
mod fair_shares;
mod signatures;
mod signed_agents;

use crate::harness::{TestApp, TestResponse};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use reqwest::Method;
use serde_json::{Value, json};

/// Fixtures by provider. Each contains the same six requests.
pub(crate) const FIXTURES: [(&str, &str, &[u8]); 10] = [
    ("cloudflare", "", include_bytes!("../drains/cloudflare.ndjson")),
    ("fastly", "", include_bytes!("../drains/fastly.ndjson")),
    ("ndjson", "", include_bytes!("../drains/ndjson.json")),
    ("firehose", "tsv", include_bytes!("../drains/cloudfront.tsv")),
    ("firehose", "json", include_bytes!("../drains/cloudfront.ndjson")),
    ("akamai", "", include_bytes!("../drains/akamai.ndjson")),
    ("akamai", "spaces", include_bytes!("../drains/akamai.txt")),
    ("vercel", "", include_bytes!("../drains/vercel.ndjson")),
    ("azure", "", include_bytes!("../drains/azure.ndjson")),
    ("combined", "", include_bytes!("../drains/combined.log")),
];

pub(crate) const PERSON: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:141.0) Gecko/20100101 Firefox/141.0";
pub(crate) const BOT: &str = "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)";

/// Returns a body in the provider's format.
pub(crate) fn body(provider: &str, lines: &[u8]) -> Vec<u8> {
    if provider == "firehose" { delivery("delivery-1", &[lines]) } else { lines.to_vec() }
}

pub(crate) fn delivery(id: &str, records: &[&[u8]]) -> Vec<u8> {
    let records: Vec<Value> = records.iter().map(|record| json!({"data": BASE64_STANDARD.encode(record)})).collect();
    json!({"requestId": id, "timestamp": 1_793_527_200_123_i64, "records": records}).to_string().into_bytes()
}

pub(crate) fn line(host: &str, path: &str, user_agent: &str, address: &str, ray: &str) -> String {
    json!({"ClientRequestHost": host, "ClientRequestURI": path, "ClientRequestMethod": "GET", "ClientRequestUserAgent": user_agent,
        "EdgeStartTimestamp": "2026-11-01T10:00:00Z", "EdgeResponseStatus": 200, "EdgeResponseBytes": 10, "ClientIP": address,
        "RayID": ray})
    .to_string()
}

/// Sends a body to a provider's path.
pub(crate) async fn send_log(app: &TestApp, provider: &str, key: &str, body: impl Into<reqwest::Body>) -> TestResponse {
    app.send(Method::POST, key, &format!("/drains/{provider}"), body).await
}
