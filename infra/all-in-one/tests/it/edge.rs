//! What a customer pastes (`infra/edge`), against the running service: lines that nginx has written by our log formats, a Worker, a
//! service of Fastly Compute, and a server of one's own in Node.js and Python.
//!
//! Must use the files as they are, and must not skip: without Node.js or Python it fails and says so.

use crate::demo::{Demo, answer};
use serde_json::{Value, json};
use service_kit::testing::eventually;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// Lines that nginx 1.22.1 wrote: two pages for bots, one that is not there, and in the combined log a person's.
const NGINX_NDJSON: &str = include_str!("../edge/nginx.ndjson");
const NGINX_COMBINED: &str = include_str!("../edge/nginx.combined");

fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The key of a new drain of the demo's owner.
async fn drain(demo: &Demo, provider: &str) -> Value {
    let request = demo.client.post(demo.url("/api/v1/identity/drains")).header("x-api-key", demo.env("OWNER_KEY"));
    let body = json!({"name": provider, "provider": provider, "hosts": ["www.example.com"], "role": "origin"}).to_string();
    let made = answer(request.header("content-type", "application/json").body(body)).await;
    assert_eq!(made.status, 201, "{}", made.body);
    made.body
}

fn key(drain: &Value) -> &str {
    drain["key"].as_str().unwrap()
}

/// How many retrievals each bot has made, once there are so many in all.
async fn crawlers(demo: &Demo, in_all: u64) -> Vec<(String, u64)> {
    eventually("every line is counted", || async {
        let read = demo.get(demo.env("OWNER_KEY"), "/content-owners/crawlers").await.body;
        let items = read["items"].as_array().cloned().unwrap_or_default();
        let mut told = BTreeMap::<String, u64>::new();
        // From addresses that are the operator's and from others are items of their own.
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
async fn d6_lines_that_nginx_has_written_by_our_formats_are_counted_once_however_often_they_are_sent() {
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

/// Runs a script that tells a drain of what its visitors fetch.
async fn run(program: &'static str, script: &str, demo: &Demo, drain: &Value) {
    let mut command = Command::new(program);
    command.arg(here().join(script)).env("EDGE", here().join("../edge/python"));
    command.env("DRAIN_URL", demo.url(drain["path"].as_str().unwrap())).env("DRAIN_KEY", key(drain));
    let ran = tokio::task::spawn_blocking(move || command.output()).await.unwrap();
    let ran = ran.unwrap_or_else(|error| panic!("this test needs {program}: {error}"));
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn d6_a_worker_compute_and_servers_in_node_and_python_tell_of_agents_and_of_nobody_else() {
    let demo = Demo::start().await;
    let drain = drain(&demo, "ndjson").await;
    run("node", "tests/node/edge.mjs", &demo, &drain).await;
    // Two pages that need escapes are fetched through each server under one id: told as they were asked for, they are one each.
    assert_eq!(crawlers(&demo, 6).await, named(&[("GPTBot", 6)]));
    run("python3", "tests/python/edge.py", &demo, &drain).await;
    assert_eq!(crawlers(&demo, 7).await, named(&[("ClaudeBot", 1), ("GPTBot", 6)]));
    let urls = demo.get(demo.env("OWNER_KEY"), "/content-owners/urls").await.body;
    let mut urls: Vec<&str> =
        urls["items"].as_array().unwrap().iter().map(|item| item["content_url"].as_str().unwrap()).collect();
    urls.sort_unstable();
    let expected = [
        "http://www.example.com/node/1?a=b",
        "http://www.example.com/python/1",
        "https://www.example.com/c%23",
        "https://www.example.com/caf%C3%A9",
        "https://www.example.com/compute/1",
        "https://www.example.com/worker/1",
        "https://www.example.com/worker/2",
    ];
    assert_eq!(urls, expected);
}

#[test]
fn d6_no_filter_that_is_pasted_loses_a_bot_of_the_table() {
    let bots = here().join("../../schemas");
    let mut command = Command::new("node");
    command.arg(here().join("tests/node/filter.mjs")).arg(bots.join("src/bots/user_agents.tsv")).arg(bots.join("data/bots.json"));
    let ran = command.output().unwrap_or_else(|error| panic!("this test needs node: {error}"));
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}
