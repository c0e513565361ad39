//! D6: the files in `infra/edge` configure providers to log the fields that the gateway reads.
//!
//! Test lines contain only the fields that these files request.

use super::{FIXTURES, body, send_log};
use crate::harness::Gateway;
use schemas::identity::OrgType;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

const CLOUDFRONT: &str = include_str!("../../../../infra/edge/cloudfront/firehose.tf");
const AKAMAI: &str = include_str!("../../../../infra/edge/akamai/datastream.tf");
const LOGPUSH: &str = include_str!("../../../../infra/edge/cloudflare/logpush-job.json");
const CUSTOM_FIELDS: &str = include_str!("../../../../infra/edge/cloudflare/custom-fields.json");
const FASTLY: &str = include_str!("../../../../infra/edge/fastly/log-format.txt");

/// Returns a JSON fixture's first line, which is a bot's fetch of a page.
fn fixture(provider: &str, variant: &str) -> Map<String, Value> {
    let (.., lines) = FIXTURES.into_iter().find(|(known, of, _)| (*known, *of) == (provider, variant)).unwrap();
    serde_json::from_slice(lines.split(|byte| *byte == b'\n').next().unwrap()).unwrap()
}

/// Returns the quoted strings in a Terraform list that starts with `begin`.
fn list_after<'a>(text: &'a str, begin: &str) -> Vec<&'a str> {
    let list = text.split_once(begin).unwrap_or_else(|| panic!("{begin} is not there")).1.split_once(']').unwrap().0;
    list.split('"').skip(1).step_by(2).collect()
}

fn only(mut line: Map<String, Value>, names: &[&str]) -> Vec<u8> {
    line.retain(|name, _| names.contains(&name.as_str()));
    Value::Object(line).to_string().into_bytes()
}

/// Returns a line of CloudFront's standard log (v2) with only the fields in the file.
fn cloudfront() -> Vec<u8> {
    let logged = fixture("firehose", "json");
    let value = |field: &str| match field {
        "timestamp(ms)" => logged["timestamp"].clone(),
        "cs(User-Agent)" => logged["cs-user-agent"].clone(),
        // Real-time logs have the requested host in another field.
        "x-host-header" => logged["cs-host"].clone(),
        field => logged[field].clone(),
    };
    let fields = list_after(CLOUDFRONT, "record_fields = [").into_iter();
    let line: Map<String, Value> = fields.map(|field| (field.to_owned(), value(field))).collect();
    Value::Object(line).to_string().into_bytes()
}

fn akamai() -> Vec<u8> {
    only(fixture("akamai", ""), &list_after(AKAMAI, "wanted = ["))
}

fn cloudflare() -> Vec<u8> {
    let job: Value = serde_json::from_str(LOGPUSH).unwrap();
    let names: Vec<&str> = job["output_options"]["field_names"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let custom: Value = serde_json::from_str(CUSTOM_FIELDS).unwrap();
    let custom = custom["rules"][0]["action_parameters"]["request_fields"].as_array().unwrap();
    let mut line = fixture("cloudflare", "");
    let headers = line["RequestHeaders"].as_object_mut().unwrap();
    headers.retain(|name, _| custom.iter().any(|field| field["name"] == name.as_str()));
    only(line, &names)
}

/// Returns Fastly's log line: the format with each `%{…}V` replaced by its value.
fn fastly() -> Vec<u8> {
    const VALUES: [(&str, &str); 14] = [
        ("time.start", "2026-11-01T10:00:00+00:00"),
        ("req.http.Host", "www.example.com"),
        ("req.is_ssl", "https"),
        ("req.url", "/article?page=2"),
        ("req.method", "GET"),
        ("User-Agent", "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)"),
        ("resp.status", "200"),
        ("resp.body_bytes_written", "5120"),
        ("Content-Type", "text/html; charset=utf-8"),
        ("client.ip", "132.196.86.7"),
        ("country_code", "us"),
        ("client.as.number", "8075"),
        ("uuid.version4", "5e2c9a3e-7a55-4a5c-9a43-1f8a3a0c9d11"),
        ("Content-Telemetry-ID", "0b1f9e6c-3d6a-4a52-9c4e-0f2a6a1d2e3f"),
    ];
    let values: BTreeMap<&str, &str> = VALUES.into();
    let mut parts = FASTLY.trim_end().split("%{");
    let mut line = parts.next().unwrap().to_owned();
    for part in parts {
        let (expression, rest) = part.split_once("}V").unwrap();
        line += values.iter().find(|(word, _)| expression.contains(**word)).map_or("", |(_, value)| value);
        line += rest;
    }
    line.into_bytes()
}

#[tokio::test]
async fn d6_documented_configurations_send_the_fields_we_read() {
    for (provider, line) in [("firehose", cloudfront()), ("akamai", akamai()), ("cloudflare", cloudflare()), ("fastly", fastly())]
    {
        let gateway = Gateway::start().await;
        let key = gateway.seed().org("network", OrgType::Platform).await.key;
        let taken = send_log(&gateway, provider, &key, body(provider, &line)).await;
        assert_eq!(taken.status, 200, "{provider}: {}", taken.body);
        if provider != "firehose" {
            assert_eq!(taken.body["kept"], 1, "{provider}: {} of {}", taken.body, String::from_utf8_lossy(&line));
        }
        let event = gateway.log.records(1).await.remove(0).events.remove(0);
        assert_eq!(event.content_url.as_deref(), Some("https://www.example.com/article?page=2"), "{provider}");
        // CloudFront can't log individual headers, and all headers include cookies and credentials.
        let telemetry_id = (provider != "firehose").then_some("0b1f9e6c-3d6a-4a52-9c4e-0f2a6a1d2e3f");
        assert_eq!(event.content_telemetry_id.as_deref(), telemetry_id, "{provider}");
        let at_ms = if provider == "fastly" { 1_793_527_200_000 } else { 1_793_527_200_123 };
        assert_eq!(event.at_ms, at_ms, "{provider}");
        let crawler = event.crawler.as_deref().unwrap();
        assert_eq!((crawler.bot.as_str(), crawler.verified), ("GPTBot", Some(true)), "{provider}");
        assert_eq!((crawler.response_status, crawler.response_bytes), (200, 5_120), "{provider}");
        assert_eq!((crawler.asn, crawler.country.as_str()), (8_075, "us"), "{provider}");
        assert_eq!(crawler.media_type, "text/html", "{provider}");
        assert!(event.id.is_some_and(|id| !id.is_empty()), "{provider}: a repeated line has the same id");
    }
}
