//! Tables as files: every table of every page, every item of the API, and no formula.

use super::Reader;
use super::browser::{addresses, demo_with_an_event};
use super::drains::{drains, feed, pasted_key};
use super::reader::unescaped;
use crate::demo::Demo;
use serde_json::{Value, json};
use service_kit::testing::eventually;
use std::collections::BTreeSet;
use std::path::Path;

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
        assert!(page.html.contains("API request"), "{screen}");
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

/// What no page of `addresses` would have a table of: a bot that was refused and a report that was.
async fn refusals(demo: &Demo) {
    let now = service_kit::clock::Clock::System.now().to_rfc3339();
    let line = |status: u16| json!({"timestamp": now, "host": "www.example.com", "method": "GET", "url": "/bot", "user_agent": "GPTBot/1.2", "status": status});
    let mut owner = Reader::signed_in(demo, "OWNER_SESSION");
    let page = owner.open(&format!("{}?with=code", drains(demo))).await;
    let page = owner.press(&page, "/drains", &[("name", "refusing")]).await;
    assert_eq!(feed(demo, &pasted_key(&page).unwrap(), &format!("{}\n{}\n", line(200), line(403))).await, 200);
    for key in ["AGENT_KEY", "OWNER_KEY"] {
        assert_eq!(demo.post(demo.env(key), &json!({"events": [{"type": "content_eaten"}]})).await.status, 422);
        eventually("what was refused is told", || async {
            let told = demo.get(demo.env(key), "/api/v1/identity/refused-reports").await.body;
            (!told.as_array()?.is_empty()).then_some(())
        })
        .await;
    }
    demo.counts(3).await;
    eventually("the refused bot is told", || async {
        let told = demo.get(demo.env("OWNER_KEY"), "/content-owners/crawlers").await.body;
        (!told["refused"].as_array()?.is_empty()).then_some(())
    })
    .await;
}

/// The tables that templates name by a text of their own.
fn tables_of_templates() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../console/templates");
    let files = ["", "parts"].iter().flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap());
    let html = files.filter_map(|file| std::fs::read_to_string(file.unwrap().path()).ok()).collect::<String>();
    let named = html.split("aria-label=\"").skip(1).filter_map(|rest| rest.split_once("\"><table"));
    named.map(|(name, _)| name.to_owned()).filter(|name| !name.contains(['{', '<'])).collect()
}

#[tokio::test]
async fn every_table_of_every_page_is_a_file_and_shows_the_call_behind_it() {
    let demo = demo_with_an_event().await;
    let pages = addresses(&demo).await;
    refusals(&demo).await;
    let mut tried = BTreeSet::new();
    for (session, addresses) in pages {
        let mut reader = Reader::signed_in(&demo, session);
        for address in addresses {
            let page = reader.open(address.strip_prefix(demo.env("BASE_URL")).unwrap()).await;
            let sections = page.all_between("<section", "</section>");
            for section in sections.filter(|section| section.contains("<table")) {
                let names = section.split("aria-label=\"").skip(1).filter_map(|rest| rest.split_once("\"><table"));
                let names: BTreeSet<String> = names.map(|(name, _)| unescaped(name)).collect();
                assert!(section.contains("API request"), "{address}: {names:?} has no call behind it");
                let files = section.split("<a href=\"").skip(1).filter_map(|rest| rest.split_once('"'));
                let files: Vec<String> = files.map(|(to, _)| unescaped(to)).filter(|to| to.contains("/export/")).collect();
                assert!(files.len() >= 2, "{address}: {names:?} is no file");
                let mut lines = 0;
                for file in files {
                    let told = reader.open(&file).await;
                    assert_eq!(told.status, 200, "{file}: {}", told.html);
                    lines += told.html.lines().count();
                }
                assert!(lines > 0, "{address}: the files of {names:?} are empty");
                tried.extend(names);
            }
            assert_eq!(
                page.all_between("<table", ">").count(),
                page.all_between("\"><table", ">").count(),
                "{address}: a table has a name"
            );
        }
    }
    let untried: BTreeSet<_> = tables_of_templates().difference(&tried).cloned().collect();
    assert!(untried.is_empty(), "no page of this test shows {untried:?}");
    let operators = "/console/operator/export/organizations.csv";
    assert_eq!(Reader::signed_in(&demo, "OWNER_SESSION").open(operators).await.status, 403);
    let found = Reader::signed_in(&demo, "OPERATOR_SESSION").open(&format!("{operators}?q=Example+Publisher")).await;
    assert!(found.html.contains("Example Publisher") && found.html.lines().count() == 2, "{}", found.html);
    for nobody in ["trusted_partner=true", "provisioned_by=01900000-0000-7000-8000-000000000000"] {
        let found = Reader::signed_in(&demo, "OPERATOR_SESSION").open(&format!("{operators}?{nobody}")).await;
        assert_eq!((found.status, found.html.lines().count()), (200, 1), "{nobody}: {}", found.html);
    }
}
