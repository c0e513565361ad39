//! A fetch counts once, even if its observers spell the page's URL differently: E11, end to end.

use crate::pipeline::Pipeline;
use schemas::identity::OrgType;
use serde_json::{Value, json};
use service_kit::testing::Seed;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Each observer's role, and the URL in its report of the page.
const SPELLINGS: [(&str, &str); 3] =
    [("edge", "https://www.a.example/x/?utm_source=b"), ("origin", "http://a.example/x"), ("agent", "https://a.example/x#y")];
/// All orders in which the three reports can arrive.
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

fn retrieval(id: Uuid, role: &str, url: &str) -> Value {
    let mut event = json!({"type": "content_retrieved", "timestamp": "2026-11-01T10:00:00Z", "source_role": role,
        "content_url": url, "content_telemetry_id": id});
    if role == "agent" {
        event["session_id"] = json!("67e55044-10b1-426f-9247-bb680e5fe0c8");
    }
    json!({"events": [event]})
}

/// Returns a list's counts by the member `name`.
fn counts(list: &Value, name: &str) -> BTreeMap<String, u64> {
    let of = |item: &Value| (item[name].as_str().unwrap().to_owned(), item["count"].as_u64().unwrap());
    list.as_array().unwrap().iter().map(of).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn e11_all_spellings_of_a_url_count_as_one_fetch() {
    let pipeline = Pipeline::start().await;
    let seed = Seed(&pipeline.stores.pool);
    // Registered with `www.`, which is the same domain.
    let owner = seed.owner_of("www.a.example").await;
    let (network, agent) = (seed.org("network", OrgType::Platform).await, seed.org("agent", OrgType::Agent).await);
    let key_of = |role: &str| match role {
        "origin" => &owner.key,
        "edge" => &network.key,
        _ => &agent.key,
    };
    for order in ORDERS {
        let id = Uuid::new_v4();
        for (role, url) in order.map(|place| SPELLINGS[place]) {
            pipeline.post("/events", key_of(role), &retrieval(id, role, url)).await;
        }
        // Other pages with the same id, each reported by two observers.
        for page in ["https://a.example/y?a=1&b=2", "https://a.example/X"] {
            pipeline.post("/events", &network.key, &retrieval(id, "edge", page)).await;
        }
        for page in ["http://www.a.example/y/?b=2&gclid=3&a=1", "http://a.example/%58"] {
            pipeline.post("/events", &agent.key, &retrieval(id, "agent", page)).await;
        }
    }
    pipeline.run_worker_until_idle().await;

    let summary: Value = serde_json::from_str(&pipeline.read(&owner.key, "/content-owners/summary").await).unwrap();
    assert_eq!((&summary["total_events"], &summary["domains"]), (&json!(18), &json!(["a.example"])), "{summary}");
    let by_role = [("agent", 18), ("edge", 18), ("origin", 6)].map(|(role, count)| (role.to_owned(), count));
    assert_eq!(counts(&summary["events_by_source"], "source_role"), by_role.into(), "{summary}");

    let page: Value = serde_json::from_str(&pipeline.read(&owner.key, "/content-owners/events").await).unwrap();
    assert_eq!(page["total"], 18);
    let mut seen: BTreeMap<(String, String), u64> = BTreeMap::new();
    for item in page["items"].as_array().unwrap() {
        let observers = item["event_data"]["observers"].to_string();
        *seen.entry((item["content_url"].as_str().unwrap().to_owned(), observers)).or_default() += 1;
    }
    let (all, two) = (r#"["agent","edge","origin"]"#, r#"["agent","edge"]"#);
    let told = [("https://a.example/x", all), ("http://www.a.example/y/?b=2&gclid=3&a=1", two), ("http://a.example/%58", two)];
    let told = told.map(|(url, observers)| ((url.to_owned(), observers.to_owned()), 6));
    assert_eq!(seen, told.into(), "each must have the URL of the agent's report, which represents it");

    // Each reporter sees its own URLs.
    let own: Value = serde_json::from_str(&pipeline.read(&network.key, "/agent/events").await).unwrap();
    let urls: Vec<&str> = own["items"].as_array().unwrap().iter().map(|item| item["content_url"].as_str().unwrap()).collect();
    assert_eq!(urls.iter().filter(|url| **url == SPELLINGS[0].1).count(), 6, "{urls:?}");
}
