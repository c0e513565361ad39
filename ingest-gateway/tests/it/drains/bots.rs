//! Tests of how lines identify bots: by user agent, `Signature-Agent`, and address.

use super::{BOT, send_log};
use crate::harness::Gateway;
use schemas::identity::OrgType;
use serde_json::{Value, json};

const BROWSER: &str =
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36";

fn line(path: &str, user_agent: &str, (name, value): (&str, &str)) -> String {
    let mut line = json!({"timestamp": "2026-11-01T10:00:00Z", "host": "a.test", "url": path, "method": "GET", "status": 200,
        "user_agent": user_agent});
    line[name] = json!(value);
    line.to_string()
}

#[tokio::test]
async fn signature_agent_is_only_a_claim() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("network", OrgType::Platform).await.key;
    let openai = "\"https://chatgpt.com\"";
    let lines = [
        line("/1", BROWSER, ("signature_agent", openai)),
        line("/2", BROWSER, ("http_signature_agent", openai)),
        line("/3", BROWSER, ("signature_agent", "\"https://agent.example\"")),
        line("/4", BROWSER, ("signature_agent", "chatgpt.com")),
        line("/5", BOT, ("signature_agent", openai)),
    ];
    let taken = send_log(&gateway, "ndjson", &key, lines.join("\n")).await;
    assert_eq!((&taken.body["kept"], &taken.body["people"]), (&json!(4), &json!(1)), "{}", taken.body);
    let events = gateway.log.records(1).await.remove(0).events;
    let crawlers: Vec<_> = events.iter().map(|event| event.crawler.as_ref().unwrap()).collect();
    let bots: Vec<&str> = crawlers.iter().map(|crawler| crawler.bot.as_str()).collect();
    assert_eq!(bots, ["ChatGPT-Agent", "ChatGPT-Agent", "other", "GPTBot"]);
    assert!(crawlers.iter().all(|crawler| crawler.verified.is_none()));
    let data: Value = serde_json::from_str(events[0].data.as_ref().unwrap().get()).unwrap();
    assert_eq!((&data["signature_agent"], &data["verified"]), (&json!(openai), &Value::Null));
    assert!(events.iter().all(|event| event.signature.is_none()));
}

#[tokio::test]
async fn non_public_addresses_do_not_verify() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("network", OrgType::Platform).await.key;
    let unknown = ["172.18.0.1", "10.0.0.5", "127.0.0.1", "::1", "100.64.0.9", "fd00::1", "unix:", "-"];
    let addresses = unknown.into_iter().chain(["203.0.113.7", "132.196.86.7"]).enumerate();
    let log: String = addresses
        .map(|(n, address)| {
            format!("{address} - - [01/Nov/2026:10:00:00 +0000] \"GET /{n} HTTP/1.1\" 200 5120 \"-\" \"{BOT}\"\n")
        })
        .collect();
    let taken = send_log(&gateway, "combined?host=a.test", &key, log).await;
    assert_eq!(taken.body["kept"], 10, "{}", taken.body);
    let events = gateway.log.records(1).await.remove(0).events;
    let verified: Vec<Option<bool>> = events.iter().map(|event| event.crawler.as_ref().unwrap().verified).collect();
    assert_eq!(verified, [&[None; 8][..], &[Some(false), Some(true)]].concat());
}

#[tokio::test]
async fn skips_lines_with_a_cdn_user_agent() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("network", OrgType::Platform).await.key;
    let lines = [line("/1", "Amazon CloudFront", ("id", "1")), line("/2", BOT, ("id", "2"))];
    let taken = send_log(&gateway, "ndjson", &key, lines.join("\n")).await;
    assert_eq!((&taken.body["dropped"], &taken.body["people"]), (&json!({"cdn": 1}), &json!(0)), "{}", taken.body);
}
