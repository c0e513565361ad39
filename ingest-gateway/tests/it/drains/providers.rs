//! D1: recorded logs from each provider.

use super::{BOT, FIXTURES, PERSON, body, line, send_log};
use crate::encodings::compress;
use crate::harness::{Gateway, send_request};
use schemas::bots::Purpose;
use schemas::event::SourceRole;
use schemas::identity::OrgType;
use schemas::log::{FailedFetch, RecordKind};
use serde_json::{Value, json};
use std::io::Write;

#[tokio::test]
async fn d1_every_provider_format_produces_the_same_events() {
    for (provider, variant, lines) in FIXTURES {
        let gateway = Gateway::start().await;
        let org = gateway.seed().org("network", OrgType::Platform).await;
        let taken = send_log(&gateway, provider, &org.key, body(provider, lines)).await;
        assert_eq!(taken.status, 200, "{provider} {variant}: {}", taken.body);
        let counts = json!({"status": "ok", "lines": 6, "kept": 1, "people": 1, "dropped": {"asset": 1, "method": 1}, "refused": 1, "bad": 1});
        match provider {
            "firehose" => assert_eq!(taken.body["requestId"], "delivery-1"),
            _ => assert_eq!(taken.body, counts, "{provider} {variant}"),
        }
        let record = gateway.log.records(1).await.remove(0);
        assert_eq!((record.org, record.kind, record.events.len()), (org.id, RecordKind::Drain, 1), "{provider} {variant}");
        let event = &record.events[0];
        let role = if provider == "combined" { SourceRole::Origin } else { SourceRole::Edge };
        assert_eq!((event.event_type.as_str(), event.source_role), ("content_retrieved", Some(role)), "{provider} {variant}");
        assert_eq!(event.content_url.as_deref(), Some("https://www.example.com/article?page=2"), "{provider} {variant}");
        assert_eq!(event.site, "com.example");
        let at_ms = if provider == "combined" { 1_793_527_200_000 } else { 1_793_527_200_123 };
        assert_eq!(event.at_ms, at_ms, "{provider} {variant}");
        let logged = String::from_utf8_lossy(lines);
        let telemetry_id = Some("0b1f9e6c-3d6a-4a52-9c4e-0f2a6a1d2e3f").filter(|id| logged.contains(id));
        assert_eq!(
            (event.content_telemetry_id.as_deref(), event.correlation_key.is_some()),
            (telemetry_id, telemetry_id.is_some()),
            "{provider} {variant}"
        );
        let crawler = event.crawler.as_deref().unwrap();
        assert_eq!((crawler.bot.as_str(), crawler.operator.as_str()), ("GPTBot", "OpenAI"), "{provider} {variant}");
        assert_eq!((crawler.purpose, crawler.verified), (Some(Purpose::Training), Some(true)), "{provider} {variant}");
        assert_eq!((crawler.response_status, crawler.response_bytes), (200, 5120), "{provider} {variant}");
        let (has_network, has_type) = (logged.contains("8075"), logged.contains("text"));
        assert_eq!(
            (crawler.asn, crawler.country.as_str()),
            if has_network { (8075, "us") } else { (0, "") },
            "{provider} {variant}"
        );
        assert_eq!(crawler.media_type, if has_type { "text/html" } else { "" }, "{provider} {variant}");
        let data: Value = serde_json::from_str(event.data.as_ref().unwrap().get()).unwrap();
        assert!(data["user_agent"].as_str().unwrap().contains("GPTBot/1.2; +https://openai.com/gptbot"), "{provider} {variant}");
        let own_key = record.failed_fetches[0].own_key;
        let expected = FailedFetch {
            own_key,
            at_ms,
            site: "com.example".to_owned(),
            path: "/article".to_owned(),
            bot: "ClaudeBot".to_owned(),
            operator: "Anthropic".to_owned(),
            purpose: Purpose::Training,
            verified: Some(true),
            status: 403,
            signature: None,
        };
        assert_eq!(record.failed_fetches, [expected], "{provider} {variant}");
        assert_ne!(own_key, event.own_key, "{provider} {variant}");
    }
}

/// Only counts of failed fetches are stored.
#[tokio::test]
async fn failed_fetches_omit_address_user_agent_and_query() {
    let gateway = Gateway::start().await;
    let org = gateway.seed().org("network", OrgType::Platform).await;
    let planted = "203.0.113.77";
    let with = |user_agent: &str, status: u16, path: &str, id: &str| {
        let mut line: Value = serde_json::from_str(&line("a.test", path, user_agent, planted, id)).unwrap();
        line["EdgeResponseStatus"] = json!(status);
        line["RequestHeaders"] = json!({"content-telemetry-id": "0b1f9e6c-3d6a-4a52-9c4e-0f2a6a1d2e3f"});
        line.to_string()
    };
    let lines = [
        with(BOT, 404, "/a?secret=query#fragment", "r-1"),
        with(BOT, 304, "/b", "r-2"),
        with(BOT, 301, "/c", "r-3"),
        with(BOT, 500, "/style.css", "r-4"),
        with(PERSON, 404, "/of-a-person", "r-5"),
    ];
    let taken = send_log(&gateway, "cloudflare", &org.key, lines.join("\n")).await;
    let counts = ["kept", "people", "refused", "bad"].map(|name| taken.body[name].as_u64().unwrap());
    assert_eq!((counts, &taken.body["dropped"]), ([0, 1, 3, 0], &json!({"asset": 1})));
    let record = gateway.log.records(1).await.remove(0);
    let kept: Vec<(&str, u16)> = record.failed_fetches.iter().map(|fetch| (fetch.path.as_str(), fetch.status)).collect();
    assert_eq!((record.events.len(), kept), (0, vec![("/a", 404), ("/b", 304), ("/c", 301)]));
    let text = serde_json::to_string(&record).unwrap();
    for trace in [planted, "Mozilla", "secret", "fragment", "of-a-person", "0b1f9e6c", "r-1"] {
        assert!(!text.contains(trace), "{trace}: {text}");
    }
}

#[tokio::test]
async fn decodes_supported_encodings_and_rejects_others() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("network", OrgType::Platform).await.key;
    let lines = [line("a.test", "/", BOT, "", "r-1"), line("a.test", "/", PERSON, "", "r-2")].join("\n");
    let mut framed = snap::write::FrameEncoder::new(Vec::new());
    framed.write_all(lines.as_bytes()).unwrap();
    let block = snap::raw::Encoder::new().compress_vec(lines.as_bytes()).unwrap();
    for (encoding, body) in [
        ("identity", lines.clone().into_bytes()),
        ("gzip", compress("gzip", lines.as_bytes())),
        ("x-gzip", compress("gzip", lines.as_bytes())),
        ("zstd", compress("zstd", lines.as_bytes())),
        ("snappy", framed.into_inner().unwrap()),
        ("snappy", block),
    ] {
        let request =
            |body: Vec<u8>| gateway.post_request("/drains/cloudflare", &key).header("content-encoding", encoding).body(body);
        let taken = send_request(request(body.clone())).await;
        assert_eq!(
            (taken.status, &taken.body["kept"], &taken.body["people"]),
            (200, &json!(1), &json!(1)),
            "{encoding}: {}",
            taken.body
        );
        if encoding != "identity" {
            let cut = send_request(request(body[..body.len() - 4].to_vec())).await;
            assert_eq!(cut.status, 400, "{encoding}: a body that ends early: {}", cut.body);
        }
    }
    for body in [compress("gzip", lines.as_bytes()), compress("zstd", lines.as_bytes())] {
        let taken = send_log(&gateway, "cloudflare", &key, body).await;
        assert_eq!((taken.status, &taken.body["kept"]), (200, &json!(1)), "compressed without a header: {}", taken.body);
    }
    for encoding in ["br", "deflate", "gzip, gzip", "compress"] {
        let refused =
            send_request(gateway.post_request("/drains/ndjson", &key).header("content-encoding", encoding).body("{}")).await;
        assert_eq!(refused.status, 415, "{encoding}");
    }
}

#[tokio::test]
async fn owners_store_only_lines_for_their_hosts() {
    let gateway = Gateway::start().await;
    let owner = gateway.seed().owner_of("example.com").await;
    let lines: Vec<String> =
        ["www.example.com", "blog.example.com:443", "example.org", "notexample.com", "example.com.evil.test"]
            .iter()
            .map(|host| line(host, "/a", BOT, "", host))
            .collect();
    let taken = send_log(&gateway, "cloudflare", &owner.key, lines.join("\n")).await;
    assert_eq!((taken.status, &taken.body["kept"], &taken.body["dropped"]), (200, &json!(2), &json!({"other_host": 3})));
    let sites: Vec<String> = gateway.log.records(1).await.remove(0).events.into_iter().map(|event| event.site).collect();
    assert_eq!(sites, ["com.example", "com.example.blog"]);
}

#[tokio::test]
async fn lines_without_a_host_get_the_given_one() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("network", OrgType::Platform).await.key;
    let log = format!("203.0.113.1 - - [01/Nov/2026:10:00:00 +0000] \"GET /a?b=1 HTTP/1.1\" 200 10 \"-\" \"{BOT}\"\n");
    let without = send_log(&gateway, "combined", &key, log.clone()).await;
    assert_eq!(without.status, 422, "{}", without.body);
    let told = send_log(&gateway, "combined?host=a.test&role=edge", &key, log).await;
    assert_eq!((told.status, &told.body["kept"]), (200, &json!(1)));
    let event = gateway.log.records(1).await.remove(0).events.remove(0);
    assert_eq!((event.content_url.as_deref(), event.source_role), (Some("https://a.test/a?b=1"), Some(SourceRole::Edge)));
    for query in ["host=a.test&host=b.test", "role=agent", "key=secret"] {
        assert_eq!(send_log(&gateway, &format!("combined?{query}"), &key, "").await.status, 400, "{query}");
    }
    assert_eq!(send_log(&gateway, "nobody", &key, "").await.status, 404);
}

#[tokio::test]
async fn cdn_requests_are_not_fetches_but_cdns_identify_bots() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("network", OrgType::Platform).await.key;
    let with = |ray: &str, user_agent: &str, member: &str, value: &str| {
        let mut line: Value = serde_json::from_str(&line("a.test", "/", user_agent, "", ray)).unwrap();
        line[member] = json!(value);
        line.to_string()
    };
    let lines = [
        with("r-1", BOT, "ParentRayID", "8f0a"),
        with("r-2", BOT, "ClientRequestSource", "edgeWorkerFetch"),
        with("r-3", BOT, "ParentRayID", "00"),
        with("r-4", "NewAssistant/1.0", "VerifiedBotCategory", "AI Assistant"),
        with("r-5", "NewMonitor/1.0", "VerifiedBotCategory", "Monitoring & Analytics"),
    ];
    let taken = send_log(&gateway, "cloudflare", &key, lines.join("\n")).await;
    assert_eq!(
        (&taken.body["dropped"], &taken.body["kept"], &taken.body["people"]),
        (&json!({"subrequest": 2}), &json!(2), &json!(1))
    );
    let events = gateway.log.records(1).await.remove(0).events;
    let bots: Vec<&str> = events.iter().map(|event| event.crawler.as_ref().unwrap().bot.as_str()).collect();
    assert_eq!(bots, ["GPTBot", "other"]);
}

/// Standard logging (v2) in JSON with its default fields.
#[tokio::test]
async fn d1_reads_cloudfront_standard_logs_through_firehose() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("network", OrgType::Platform).await.key;
    let line = json!({
        "date": "2026-11-01", "time": "10:00:00", "x-edge-location": "FRA2-C1", "sc-bytes": "5120", "c-ip": "132.196.86.7",
        "cs-method": "GET", "cs(Host)": "d111111abcdef8.cloudfront.net", "cs-uri-stem": "/article", "sc-status": "200",
        "cs(Referer)": "-", "cs(User-Agent)": BOT.replace(' ', "%20"), "cs-uri-query": "page=2", "cs(Cookie)": "-",
        "x-edge-result-type": "Hit", "x-edge-request-id": "r-1", "x-host-header": "www.example.com", "cs-protocol": "https",
        "cs-bytes": "123", "time-taken": "0.001", "x-forwarded-for": "-", "sc-content-type": "text/html",
    });
    let taken = send_log(&gateway, "firehose", &key, body("firehose", line.to_string().as_bytes())).await;
    assert_eq!(taken.status, 200, "{}", taken.body);
    let event = gateway.log.records(1).await.remove(0).events.remove(0);
    assert_eq!((event.at_ms, event.content_url.as_deref()), (1_793_527_200_000, Some("https://www.example.com/article?page=2")));
    let crawler = event.crawler.as_deref().unwrap();
    assert_eq!((crawler.bot.as_str(), crawler.verified, crawler.response_bytes), ("GPTBot", Some(true), 5_120));
}

#[tokio::test]
async fn agent_name_in_a_line_is_only_a_claim() {
    const CLAIM: &str = r#""https://agent.test""#;
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("network", OrgType::Platform).await.key;
    let mut of_cloudflare: Value = serde_json::from_str(&line("a.test", "/", BOT, "", "ray-1")).unwrap();
    of_cloudflare["RequestHeaders"] = json!({"signature-agent": CLAIM});
    let of_nginx = json!({"timestamp": "1793527200.869", "host": "a.test", "url": "/", "method": "GET", "user_agent": BOT,
        "status": "200", "signature_agent": CLAIM});
    for (provider, line) in [("cloudflare", of_cloudflare), ("ndjson", of_nginx)] {
        assert_eq!(send_log(&gateway, provider, &key, line.to_string()).await.body["kept"], 1, "{provider}");
    }
    for event in gateway.log.records(2).await.into_iter().flat_map(|record| record.events) {
        let data: Value = serde_json::from_str(event.data.as_ref().unwrap().get()).unwrap();
        assert_eq!(data["signature_agent"], CLAIM);
    }
}

/// Senders and backups must notice a body without a readable line.
#[tokio::test]
async fn rejects_body_without_a_readable_line() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("network", OrgType::Platform).await.key;
    let refused = send_log(&gateway, "cloudflare", &key, "not json\n{\"RayID\":1}\n").await;
    assert_eq!((refused.status, &refused.body["code"]), (422, &json!("invalid_request")), "{}", refused.body);
    assert!(refused.body["detail"].as_str().unwrap().contains("not_json"), "{}", refused.body);
    let delivery = send_log(&gateway, "firehose", &key, body("firehose", b"too\tfew")).await;
    assert_eq!((delivery.status, &delivery.body["requestId"]), (400, &json!("delivery-1")), "{}", delivery.body);
    let lines = format!("not json\n{}", line("a.test", "/", PERSON, "", "r-1"));
    let taken = send_log(&gateway, "cloudflare", &key, lines).await;
    assert_eq!((taken.status, &taken.body["bad"]), (200, &json!(1)), "one readable line is enough: {}", taken.body);
    assert_eq!(send_log(&gateway, "cloudflare", &key, "\n\n").await.status, 200, "an empty body is not an unreadable line");
    let reasons: Vec<String> = sqlx::query_scalar("SELECT DISTINCT reason FROM drain_bad_lines ORDER BY reason")
        .fetch_all(&gateway.stores.pool)
        .await
        .unwrap();
    assert_eq!(reasons, ["no_time", "not_json", "too_few_fields"], "the owner sees why");
}

#[tokio::test]
async fn unanswered_requests_become_failed_fetches() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("network", OrgType::Platform).await.key;
    let with = |status: Value, ray: &str| {
        let mut line: Value = serde_json::from_str(&line("a.test", "/", BOT, "", ray)).unwrap();
        line["EdgeResponseStatus"] = status;
        line.to_string()
    };
    let answered = with(json!(404), "r-0");
    let unanswered =
        [json!(0), json!(-1), json!("-"), json!("000"), Value::Null].into_iter().zip(["r-1", "r-2", "r-3", "r-4", "r-5"]);
    let lines: Vec<String> =
        unanswered.map(|(status, ray)| with(status, ray)).chain([answered, with(json!("x"), "r-6")]).collect();
    let taken = send_log(&gateway, "cloudflare", &key, lines.join("\n")).await;
    assert_eq!((&taken.body["refused"], &taken.body["bad"]), (&json!(6), &json!(1)), "{}", taken.body);
    let statuses: Vec<u16> = gateway.log.records(1).await.remove(0).failed_fetches.iter().map(|fetch| fetch.status).collect();
    assert_eq!(statuses, [0, 0, 0, 0, 0, 404]);
}

/// A line that lacks a required field is neither a person's nor skipped.
#[tokio::test]
async fn rejects_missing_fields_but_accepts_empty_ones() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("network", OrgType::Platform).await.key;
    let without = |name: &str, user_agent: &str| {
        let mut line: Value = serde_json::from_str(&line("a.test", "/", user_agent, "", "r-1")).unwrap();
        line.as_object_mut().unwrap().remove(name);
        line.to_string()
    };
    for (name, reason) in [
        ("ClientRequestUserAgent", "no_user_agent"),
        ("ClientRequestMethod", "no_method"),
        ("EdgeResponseStatus", "no_status"),
        ("ClientRequestURI", "no_path"),
        ("ClientRequestHost", "no_host"),
        ("EdgeStartTimestamp", "no_time"),
    ] {
        let refused = send_log(&gateway, "cloudflare", &key, without(name, BOT)).await;
        let detail = refused.body["detail"].as_str().unwrap_or_default();
        assert!(refused.status == 422 && detail.contains(reason), "{name}: {}", refused.body);
    }
    for user_agent in ["", "-"] {
        let taken = send_log(&gateway, "cloudflare", &key, line("a.test", "/", user_agent, "", "r-1")).await;
        assert_eq!((taken.status, &taken.body["people"]), (200, &json!(1)), "the visitor sent no user agent: {}", taken.body);
    }
}
