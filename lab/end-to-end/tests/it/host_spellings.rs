//! How a page's URL is spelled affects neither its ownership nor its counts: threats E5 to E7 and E10 to E12, end to end.

use crate::demo::{Demo, DemoApp};
use serde_json::{Value, json};
use service_kit::testing::{eventually, send_request};
use uuid::Uuid;

const SESSION: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedOwner {
    Com,
    Org,
    Unowned,
    /// Rejected, because the event has no valid content URL.
    Refused,
}
use ExpectedOwner::{Com, Org, Refused, Unowned};

/// One owner has `example.com`, the other has `example.org`.
const URLS: &[(&str, ExpectedOwner)] = &[
    ("https://example.com/", Com),
    ("http://example.com", Com),
    ("HTTPS://EXAMPLE.COM/A", Com),
    ("https://www.example.com/", Com),
    ("https://a.b.c.example.com/", Com),
    ("https://example.com./", Com),
    ("https://www.example.com.:8443/x", Com),
    ("https://example.com:443/", Com),
    ("http://example.com:8080/", Com),
    ("https://user:pass@example.com/", Com),
    ("https://example.org@example.com/", Com),
    ("https://example.com/@example.org", Com),
    ("https://example.com\\@example.org/", Com),
    ("https:\\\\example.com\\x", Com),
    ("https:example.com", Com),
    ("https:///example.com/", Com),
    ("https://example.com?x=https://example.org/", Com),
    ("https://example.com#@example.org/", Com),
    ("https://example.com/%2e%2e/x", Com),
    ("https://exa\tmple.com/", Com),
    ("https://exa\nmple.com/", Com),
    (" https://example.com/ ", Com),
    ("https://exam\u{ad}ple.com/", Com),
    ("https://ｅｘａｍｐｌｅ.com/", Com),
    ("https://example。com/", Com),
    ("https://example．com/", Com),
    ("https://ex%61mple.com/", Com),
    ("https://www%2eexample.com/", Com),
    ("https://example.com/?ctx=ctx_secret", Com),
    ("https://example.org/", Org),
    ("https://www.example.org:1/", Org),
    ("https://example.com@example.org/", Org),
    ("https://example.com:80@example.org/", Org),
    ("https://example.com.example.org/", Org),
    ("https://example-com.example.org/", Org),
    ("https://notexample.com/", Unowned),
    ("https://example.com.evil.net/", Unowned),
    ("https://example.comm/", Unowned),
    ("https://xample.com/", Unowned),
    ("https://example-com.net/", Unowned),
    ("https://com/", Unowned),
    ("https://.example.com/", Unowned),
    ("https://www..example.com/", Unowned),
    ("https://example.com../", Unowned),
    ("https://*.example.com/", Unowned),
    ("https://_dmarc.example.com/", Unowned),
    ("https://еxample.com/", Unowned),
    ("https://xn--xample-2of.com/", Unowned),
    ("https://exаmple.org/", Unowned),
    ("http://127.0.0.1/", Unowned),
    ("http://2130706433/", Unowned),
    ("http://0x7f.1/", Unowned),
    ("http://[::1]/", Unowned),
    ("http://[::ffff:127.0.0.1]:80/", Unowned),
    ("http://localhost/", Unowned),
    ("https://example.net/example.com", Unowned),
    ("ftp://example.com/", Refused),
    ("javascript:alert('https://example.com/')", Refused),
    ("data:text/html,https://example.com/", Refused),
    ("//example.com/", Refused),
    ("example.com/", Refused),
    ("https://", Refused),
    ("https://exa mple.com/", Refused),
    ("https://example.com:99999/", Refused),
    ("https://[::1/", Refused),
    ("", Refused),
];

fn event(url: &str) -> Value {
    json!({"type": "content_cited", "timestamp": "2026-11-01T10:00:00Z", "id": Uuid::new_v4(), "session_id": SESSION, "content_url": url})
}

async fn totals(demo: &DemoApp) -> (Option<u64>, Option<u64>) {
    let total = async |key: &str| demo.get(demo.env(key), "/content-owners/summary").await.body["total_events"].as_u64();
    (total("OWNER_KEY").await, total("OTHER_OWNER_KEY").await)
}

#[tokio::test(flavor = "multi_thread")]
async fn rs4_e7_e5_every_spelling_of_a_host_has_one_owner() {
    let demo = Demo::start().await;
    let (mut com, mut org) = (0, 0);
    for (url, whose) in URLS {
        let reported = demo.report(demo.env("AGENT_KEY"), &json!({"events": [event(url)]})).await;
        let expected = if *whose == Refused { 422 } else { 201 };
        assert_eq!(reported.status, expected, "{url:?}: {}", reported.body);
        let address = reqwest::Url::parse_with_params(&demo.url("/resolve"), &[("url", url)]).unwrap();
        let resolved = send_request(demo.client.get(address)).await;
        let organization = resolved.body["organization"]["id"].as_str().map(str::to_owned);
        let owner = match whose {
            Com => Some(demo.env("OWNER_ORG_ID")),
            Org => Some(demo.env("OTHER_OWNER_ORG_ID")),
            Unowned | Refused => None,
        };
        assert_eq!(organization.as_deref(), owner, "{url:?} resolves to {}", resolved.body);
        com += u64::from(*whose == Com);
        org += u64::from(*whose == Org);
    }
    demo.caught_up().await;
    eventually("both owners see theirs", || async { (totals(&demo).await == (Some(com), Some(org))).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e10_repeated_batches_count_once() {
    let demo = Demo::start().await;
    let batch =
        json!({"events": [event("https://example.com/a"), event("https://example.com/b"), event("https://example.org/c")]});
    for _ in 0..5 {
        assert_eq!(demo.report(demo.env("AGENT_KEY"), &batch).await.status, 201);
    }
    let send = || {
        let request = demo.client.post(demo.url("/events")).header("x-api-key", demo.env("AGENT_KEY"));
        tokio::spawn(request.header("content-type", "application/json").body(batch.to_string()).send())
    };
    let parallel: Vec<_> = (0..50).map(|_| send()).collect();
    for sent in parallel {
        assert_eq!(sent.await.unwrap().unwrap().status(), 201);
    }
    demo.caught_up().await;
    eventually("the batch counts once", || async { (totals(&demo).await == (Some(2), Some(1))).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e11_claimed_ids_do_not_displace_real_reports() {
    let demo = Demo::start().await;
    let id = Uuid::new_v4();
    let seen = |url: &str, role: &str| {
        json!({"events": [{"type": "content_retrieved", "timestamp": "2026-11-01T10:00:00Z", "source_role": role,
            "content_url": url, "content_telemetry_id": id, "session_id": SESSION}]})
    };
    for (key, report) in [
        ("NETWORK_KEY", seen("https://evil.net/", "agent")),
        ("NETWORK_KEY", seen("https://example.org/page", "agent")),
        ("OWNER_KEY", seen("https://example.com/page", "edge")),
    ] {
        assert_eq!(demo.report(demo.env(key), &report).await.status, 201);
    }
    demo.caught_up().await;
    eventually("each owner sees its own", || async { (totals(&demo).await == (Some(1), Some(1))).then_some(()) }).await;
    let summary = demo.get(demo.env("OWNER_KEY"), "/content-owners/summary").await.body;
    assert_eq!(summary["events_by_source"][0]["source_role"], "edge", "{summary}");
    assert_eq!(summary["events_by_source"].as_array().map(Vec::len), Some(1), "{summary}");
}

#[tokio::test(flavor = "multi_thread")]
async fn e12_keeps_the_first_payload_of_an_id() {
    let demo = Demo::start().await;
    let first = event("https://example.com/a");
    let mut second = first.clone();
    second["type"] = json!("content_presented");
    second["content_url"] = json!("https://example.com/b");
    for payload in [&first, &second, &second] {
        assert_eq!(demo.report(demo.env("AGENT_KEY"), &json!({"events": [payload]})).await.status, 201);
    }
    demo.caught_up().await;
    let summary = eventually("the event counts", || async {
        let summary = demo.get(demo.env("OWNER_KEY"), "/content-owners/summary").await.body;
        (summary["total_events"] == 1).then_some(summary)
    })
    .await;
    assert_eq!(summary["events_by_type"], json!([{"event_type": "content_cited", "count": 1}]));
}
