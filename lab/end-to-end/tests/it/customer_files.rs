//! The files for customers in `infra/edge`, against the running service: nginx log formats, the Worker, Fastly Compute, servers in Node.js
//! and Python, the Azure Function, and the setup scripts for Cloudflare and Vercel. `tests/node/hostile` renders every format for visitors
//! with forged headers.

use crate::demo::{Demo, DemoApp};
use chrono::DateTime;
use loadgen::log_lines::{Format, Request};
use serde_json::{Value, json};
use service_kit::testing::{eventually, npm_package, send_request};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

/// Lines written by nginx 1.22.1: two pages fetched by bots, a missing page, and, in the combined log, a person's request.
const NGINX_NDJSON: &str = include_str!("../edge/nginx.ndjson");
const NGINX_COMBINED: &str = include_str!("../edge/nginx.combined");

fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Creates a drain for the demo's owner and returns it.
async fn drain(demo: &DemoApp, provider: &str) -> Value {
    let body = json!({"name": provider, "provider": provider, "hosts": ["www.example.com"], "role": "origin"});
    demo.post(demo.env("OWNER_KEY"), "/api/v1/identity/drains", &body).await.expect(201).body
}

fn key(drain: &Value) -> &str {
    drain["key"].as_str().unwrap()
}

/// Waits for `in_all` fetches and returns their number per bot.
async fn crawlers(demo: &DemoApp, in_all: u64) -> Vec<(String, u64)> {
    eventually("every line is counted", || async {
        let read = demo.get(demo.env("OWNER_KEY"), "/content-owners/crawlers").await.body;
        let items = read["items"].as_array().cloned().unwrap_or_default();
        let mut told = BTreeMap::<String, u64>::new();
        // A bot has separate items for IP addresses of its operator and for others.
        for item in items {
            *told.entry(item["bot"].as_str().unwrap().to_owned()).or_default() += item["retrievals"].as_u64().unwrap();
        }
        (told.values().sum::<u64>() == in_all).then(|| told.into_iter().collect())
    })
    .await
}

fn named(bots: &[(&str, u64)]) -> Vec<(String, u64)> {
    bots.iter().map(|(bot, retrievals)| ((*bot).to_owned(), *retrievals)).collect()
}

#[tokio::test]
async fn d6_nginx_lines_count_once() {
    for (provider, lines) in [("ndjson", NGINX_NDJSON), ("combined", NGINX_COMBINED)] {
        let demo = Demo::start().await;
        let drain = drain(&demo, provider).await;
        for _ in 0..2 {
            let request = demo.client.post(demo.url(drain["path"].as_str().unwrap())).header("x-api-key", key(&drain));
            let sent = request.header("content-type", "text/plain").body(lines).send().await.unwrap();
            assert!(sent.status().is_success(), "{provider}: {}", sent.text().await.unwrap());
        }
        assert_eq!(crawlers(&demo, 2).await, named(&[("ClaudeBot", 1), ("GPTBot", 1)]), "{provider}");
        let read = demo.get(demo.env("OWNER_KEY"), "/content-owners/crawlers").await.body;
        let refused = json!([{"operator": "Perplexity", "bot": "PerplexityBot", "status": 404, "count": 1}]);
        assert_eq!(read["refused"], refused, "{provider}");
        let coverage = &read["coverage"];
        assert_eq!((&coverage["hours_covered"], &coverage["hours_uncovered"]), (&json!(1), &json!(0)), "{provider}: {coverage}");
    }
}

/// Runs a script that sends its visitors' fetches to a drain.
async fn run(program: &'static str, script: &str, settings: &[(&str, &Path)], demo: &DemoApp, drain: &Value) {
    let mut command = Command::new(program);
    command.arg(here().join(script)).envs(settings.iter().copied());
    command.env("DRAIN_URL", demo.url(drain["path"].as_str().unwrap())).env("DRAIN_KEY", key(drain));
    let ran = tokio::task::spawn_blocking(move || command.output()).await.unwrap();
    let ran = ran.unwrap_or_else(|error| panic!("this test needs {program}: {error}"));
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn d6_cloudflare_worker_reports_agents() {
    let modules = || npm_package("miniflare", "4.20260426.0", env!("CARGO_TARGET_TMPDIR").as_ref());
    let modules = tokio::task::spawn_blocking(modules).await.unwrap();
    let demo = Demo::start().await;
    let drain = drain(&demo, "ndjson").await;
    run("node", "tests/node/workerd.mjs", &[("MODULES", &modules)], &demo, &drain).await;
    assert_eq!(crawlers(&demo, 5).await, named(&[("GPTBot", 5)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn d6_edge_functions_report_only_agents() {
    let demo = Demo::start().await;
    let drain = drain(&demo, "ndjson").await;
    run("node", "tests/node/edge.mjs", &[], &demo, &drain).await;
    // Each of the three servers reports two pages that need escaping, under one id. The servers are one observer, so only the first report
    // joins an event by its id.
    assert_eq!(crawlers(&demo, 13).await, named(&[("ChatGPT-Agent", 3), ("GPTBot", 10)]));
    run("python3", "tests/python/edge.py", &[("EDGE", &here().join("../../infra/edge/python"))], &demo, &drain).await;
    assert_eq!(crawlers(&demo, 17).await, named(&[("ChatGPT-Agent", 4), ("ClaudeBot", 3), ("GPTBot", 10)]));
    // All of them escape the two pages the same way. Servers behind a CDN report the scheme that the visitor used.
    let urls = demo.get(demo.env("OWNER_KEY"), "/content-owners/urls").await.body;
    let mut urls: Vec<&str> =
        urls["items"].as_array().unwrap().iter().map(|item| item["content_url"].as_str().unwrap()).collect();
    urls.sort_unstable();
    let expected = [
        "http://www.example.com/c%23",
        "http://www.example.com/caf%C3%A9",
        "http://www.example.com/node/1?a=b",
        "http://www.example.com/node/3",
        "http://www.example.com/python/1",
        "http://www.example.com/python/3",
        "https://www.example.com/c%23",
        "https://www.example.com/caf%C3%A9",
        "https://www.example.com/compute/1",
        "https://www.example.com/compute/3",
        "https://www.example.com/worker/1",
        "https://www.example.com/worker/2",
        "https://www.example.com/worker/4",
    ];
    assert_eq!(urls, expected);
}

/// Visitors forge every header. Each line contains what the server saw, and the drain accepts every line.
#[tokio::test(flavor = "multi_thread")]
async fn forged_headers_do_not_change_server_fields() {
    let nginx = tokio::task::spawn_blocking(local::test_programs::nginx).await.unwrap().unwrap();
    let demo = Demo::start().await;
    for provider in ["ndjson", "fastly", "combined"] {
        let drain = drain(&demo, provider).await;
        let settings = [("NGINX_PROGRAM", nginx.as_path()), ("PROVIDER", Path::new(provider))];
        run("node", "tests/node/hostile/formats.mjs", &settings, &demo, &drain).await;
    }
}

/// Runs a test that needs no service.
fn run_alone(program: &str, script: &str) {
    let mut command = Command::new(program);
    command.arg(here().join(script)).env("EDGE", here().join("../../infra/edge/python"));
    let ran = command.output().unwrap_or_else(|error| panic!("this test needs {program}: {error}"));
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn forged_headers_do_not_change_wsgi_server_fields() {
    run_alone("python3", "tests/python/hostile.py");
}

#[test]
fn lines_count_as_delivered_only_after_a_direct_2xx() {
    run_alone("node", "tests/node/hostile/delivery.mjs");
}

#[test]
fn scripts_do_not_show_secrets_or_follow_redirects() {
    run_alone("node", "tests/node/hostile/scripts.mjs");
}

#[test]
fn d6_filters_keep_every_known_bot() {
    let bots = here().join("../../schemas");
    let mut command = Command::new("node");
    command.arg(here().join("tests/node/filter.mjs"));
    command.args(["src/bots/corpus/held_out.tsv", "src/bots/corpus/own.tsv", "data/bots.json"].map(|file| bots.join(file)));
    let ran = command.output().unwrap_or_else(|error| panic!("this test needs node: {error}"));
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// Method, path and body of a request to a provider's API.
type ProviderRequest = (String, String, Value);

/// Custom fields that a zone already logs.
const PRESENT: &str = r#"{"result": {"rules": [{"id": "rule-1", "version": "3", "action": "log_custom_field", "expression": "true",
    "action_parameters": {"request_fields": [{"name": "x-own"}], "cookie_fields": [{"name": "own"}]}}]}}"#;

/// Runs a script of `infra/edge` against a fake API of its provider.
async fn run_against_fake_api(script: &str, api_variable: &str, settings: &[(&str, &str)]) -> Vec<ProviderRequest> {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&asked);
    let answer = move |request: axum::extract::Request| {
        let keep = Arc::clone(&keep);
        async move {
            let (parts, body) = request.into_parts();
            let body = axum::body::to_bytes(body, 1_000_000).await.unwrap();
            let signed_in = parts.headers.get("authorization").is_some_and(|token| token == "Bearer token-1");
            assert!(signed_in, "request without the token: {}", parts.uri);
            let body = serde_json::from_slice(&body).unwrap_or_default();
            keep.lock().unwrap().push((parts.method.to_string(), parts.uri.path().to_owned(), body));
            if parts.method == "GET" { PRESENT } else { "{}" }
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let api = tokio::spawn(async move { axum::serve(listener, axum::Router::new().fallback(answer)).await });
    let mut command = Command::new("sh");
    command.arg(here().join("../../infra/edge").join(script)).env(api_variable, address).envs(settings.iter().copied());
    let ran = tokio::task::spawn_blocking(move || command.output()).await.unwrap();
    let ran = ran.unwrap_or_else(|error| panic!("this test needs sh: {error}"));
    api.abort();
    assert!(ran.status.success(), "{script}: {}", String::from_utf8_lossy(&ran.stderr));
    let asked = asked.lock().unwrap();
    asked.clone()
}

/// Returns a log line for a bot's request in the provider's format.
fn line(format: Format) -> String {
    format.line(&Request {
        at: DateTime::from_timestamp(1_793_527_200, 0).unwrap(),
        id: "request-1".to_owned(),
        telemetry_id: String::new(),
        address: "203.0.113.9".to_owned(),
        user_agent: "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)".to_owned(),
        host: "www.example.com".to_owned(),
        path: "/page".to_owned(),
        status: 200,
        bytes: 4_711,
        country: "de",
        cache: "hit",
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn d6_cloudflare_and_vercel_scripts_create_drains() {
    let demo = Demo::start().await;
    let (cloudflare, vercel) = (drain(&demo, "cloudflare").await, drain(&demo, "vercel").await);
    let url = demo.env("BASE_URL");

    let settings =
        [("CLOUDFLARE_API_TOKEN", "token-1"), ("ZONE_ID", "zone-1"), ("TELEMETRY_URL", url), ("DRAIN_KEY", key(&cloudflare))];
    let asked = run_against_fake_api("cloudflare/logpush.sh", "CLOUDFLARE_API", &settings).await;
    let calls: Vec<_> = asked.iter().map(|(method, path, _)| format!("{method} {path}")).collect();
    let fields = "/zones/zone-1/rulesets/phases/http_log_custom_fields/entrypoint";
    assert_eq!(calls, [format!("GET {fields}"), format!("PUT {fields}"), "POST /zones/zone-1/logpush/jobs".to_owned()]);
    let own =
        ["x-own", "content-telemetry-id", "signature-agent", "signature-input", "signature"].map(|name| json!({"name": name}));
    let merged = json!({"rules": [{"id": "rule-1", "action": "log_custom_field", "expression": "true",
        "action_parameters": {"request_fields": own, "cookie_fields": [{"name": "own"}]}}]});
    assert_eq!(asked[1].2, merged, "the zone's own fields are lost");
    // Cloudflare turns the query's `header_` parameters into headers, and sends a test body first.
    let (address, query) = asked[2].2["destination_conf"].as_str().unwrap().split_once('?').unwrap();
    let (header, value) = query.strip_prefix("header_").unwrap().split_once('=').unwrap();
    for (body, kept) in [(r#"{"content":"tests"}"#.to_owned(), 0), (line(Format::Cloudflare), 1)] {
        let taken = send_request(demo.client.post(address).header(header, value).body(body)).await;
        assert_eq!((taken.status, &taken.body["kept"]), (200, &json!(kept)), "{}", taken.body);
    }

    let settings = [
        ("VERCEL_TOKEN", "token-1"),
        ("TEAM_ID", "team-1"),
        ("PROJECT_ID", "project-1"),
        ("TELEMETRY_URL", url),
        ("DRAIN_KEY", key(&vercel)),
        ("DRAIN_SECRET", "secret-1"),
    ];
    let asked = run_against_fake_api("vercel/drain.sh", "VERCEL_API", &settings).await;
    let [(method, path, drain)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!((method.as_str(), path.as_str(), &drain["projectIds"]), ("POST", "/v1/drains", &json!(["project-1"])));
    let delivery = &drain["delivery"];
    assert_eq!((&delivery["encoding"], &delivery["secret"]), (&json!("ndjson"), &json!("secret-1")));
    let (header, value) = delivery["headers"].as_object().unwrap().iter().next().unwrap();
    let request = demo.client.post(delivery["endpoint"].as_str().unwrap()).header(header, value.as_str().unwrap());
    let taken = send_request(request.header("x-vercel-verify", "word-1").body(line(Format::Vercel))).await;
    assert_eq!((taken.status, &taken.body["kept"]), (200, &json!(1)), "{}", taken.body);
    assert_eq!(crawlers(&demo, 2).await, named(&[("GPTBot", 2)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn d6_azure_function_forwards_whole_batches() {
    let demo = Demo::start().await;
    let drain = drain(&demo, "azure").await;
    run("node", "tests/node/azure.mjs", &[("LINE", Path::new(&line(Format::Azure)))], &demo, &drain).await;
    assert_eq!(crawlers(&demo, 1).await, named(&[("GPTBot", 1)]));
}
