//! Lists of identity as files: every item of the API, and no formula.

use super::Reader;
use super::reader::unescaped;
use crate::demo::Demo;
use serde_json::{Value, json};

#[tokio::test]
async fn every_list_of_identity_is_a_file_of_what_the_api_lists_without_formulas() {
    let demo = Demo::start().await;
    let own = format!("/console/o/{}", demo.env("OWNER_ORG_ID"));
    let post = async |key: &str, path: &str, body: Value| {
        let request =
            demo.client.post(demo.url(&format!("/api/v1/identity/{path}"))).header("x-api-key", demo.env(key)).json(&body);
        crate::demo::answer(request).await.body
    };
    post("OWNER_KEY", "api-keys", json!({"name": "=cmd|' /C calc'!A0"})).await;
    post("OWNER_KEY", "drains", json!({"name": "@drain, \"quoted\"", "provider": "ndjson"})).await;
    post("NETWORK_KEY", "delegation-requests", json!({"domain": "example.com"})).await;
    let hook = json!({"url": "https://receiver.example.net/telemetry", "event_types": ["delegation.created"]});
    let hook = post("OWNER_KEY", "webhooks", hook).await["id"].as_str().unwrap().to_owned();
    post("OWNER_KEY", &format!("webhooks/{hook}/test"), json!({})).await;
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    let organization = demo.env("OWNER_ORG_ID");
    for (screen, list, path) in [
        ("keys", "keys", "api-keys".to_owned()),
        ("members", "members", format!("organizations/{organization}/members")),
        ("partners", "delegation-requests", "delegation-requests?role=grantor".to_owned()),
        ("partners", "delegations", "delegations?role=grantor".to_owned()),
        ("drains", "drains", "drains".to_owned()),
        ("webhooks", "webhooks", "webhooks".to_owned()),
        (&format!("webhooks/{hook}"), "deliveries", format!("webhooks/{hook}/deliveries")),
        ("audit", "audit", "audit".to_owned()),
    ] {
        let page = owner.open(&format!("{own}/{screen}")).await;
        assert!(page.html.contains("The API call behind this"), "{screen}");
        let file = page.all_between("<a href=\"", "\"").map(unescaped).find(|to| to.contains(&format!("/export/{list}.csv")));
        let file = file.unwrap_or_else(|| panic!("{screen} has no file of {list}: {}", page.html));
        let answer = owner.open(&file).await;
        assert_eq!(
            (answer.status, &answer.headers["content-type"]),
            (200, &"text/csv".parse().unwrap()),
            "{file}: {}",
            answer.html
        );
        let listed = demo.client.get(demo.url(&format!("/api/v1/identity/{path}"))).bearer_auth(demo.env("OWNER_SESSION"));
        let listed = crate::demo::answer(listed).await.body;
        let listed = listed.as_array().unwrap_or_else(|| panic!("{path}: {listed}"));
        let mut records = csv::Reader::from_reader(answer.html.as_bytes());
        let names = records.headers().unwrap().clone();
        let records: Vec<csv::StringRecord> = records.records().map(Result::unwrap).collect();
        assert_eq!(records.len(), listed.len(), "{file}");
        for (record, item) in records.iter().zip(listed) {
            for (name, cell) in names.iter().zip(record) {
                assert!(!cell.starts_with(['=', '+', '@', '\t']), "{file}: {cell}");
                let is_told = match item[name].as_str() {
                    Some(text) => cell.trim_start_matches('\'') == text,
                    None => serde_json::from_str::<Value>(cell).is_ok_and(|value| value == item[name]),
                };
                // When a key was last used, every look changes.
                assert!(name == "last_used_at" || is_told, "{file} {name}: {cell} is not {}", item[name]);
            }
        }
        let lines = owner.open(&file.replace(".csv", ".ndjson")).await;
        assert_eq!(lines.html.lines().count(), listed.len(), "{file}");
    }
    let keys = owner.open(&format!("{own}/export/keys.csv")).await.html;
    assert!(keys.contains("'=cmd|"), "{keys}");
    for none in ["deliveries.csv", "deliveries.csv?webhook=01900000-0000-7000-8000-000000000000", "keys.xlsx", "nothing.csv"] {
        let answer = owner.open(&format!("{own}/export/{none}")).await;
        assert_eq!(answer.status, 404, "{none}: {}", answer.html);
    }
    assert_eq!(Reader::nobody(&demo).open(&format!("{own}/export/keys.csv")).await.address, "/sign-in");
    assert_eq!(Reader::signed_in(&demo, "AGENT_SESSION").open(&format!("{own}/export/keys.csv")).await.status, 404);
}
