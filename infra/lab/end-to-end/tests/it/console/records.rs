//! The audit trail and refused reports: what the console shows is the API's, as text.

use super::Reader;
use super::reader::Page;
use crate::demo::Demo;
use serde_json::json;
use service_kit::testing::eventually;

fn home(demo: &Demo, variable: &str) -> String {
    format!("/console/o/{}", demo.env(variable))
}

/// Opens a page until it says a text.
async fn said(reader: &mut Reader, path: &str, text: &str) -> Page {
    let reader = tokio::sync::Mutex::new(reader);
    eventually(&format!("{path} says {text:?}"), || async {
        let page = reader.lock().await.open(path).await;
        page.html.contains(text).then_some(page)
    })
    .await
}

#[tokio::test]
async fn the_audit_trail_says_who_changed_what_and_shows_one_kind_alone() {
    let demo = Demo::start().await;
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    let own = home(&demo, "OWNER_ORG_ID");
    let page = owner.open(&format!("{own}/keys")).await;
    owner.press(&page, "/keys", &[("name", "<script>alert(1)</script>")]).await;
    let page = owner.open(&format!("{own}/audit?action=api_key.created")).await;
    let entries = demo.get(demo.env("OWNER_KEY"), "/api/v1/identity/audit?action=api_key.created").await.body;
    let newest = &entries[0];
    assert!(page.html.contains(newest["actor"]["name"].as_str().unwrap()), "{newest}: {}", page.html);
    assert!(page.html.contains(newest["object_id"].as_str().unwrap()) && page.html.contains("alert(1)"), "{}", page.html);
    assert!(!page.html.contains("<script>alert") && !page.html.contains("telemetry.read<"), "{}", page.html);
    assert!(page.html.contains(">API key created</a>") && page.html.contains("<dt>Permissions</dt>"), "{}", page.html);
    let rows = page.all_between("<th scope=\"row\">", "</th>").count();
    assert_eq!(Some(rows), entries.as_array().map(Vec::len));
    let page = owner.open(&format!("{own}/audit?action=no.such")).await;
    assert!(page.html.contains("No entries for \u{201c}no.such\u{201d}"), "{}", page.html);
}

#[tokio::test]
async fn a_refused_report_says_its_rule_and_its_request() {
    let demo = Demo::start().await;
    let faulty =
        json!({"events": [{"type": "content_retrieved", "source_role": "agent", "content_url": "https://www.example.com/"}]});
    assert_eq!(demo.post(demo.env("AGENT_KEY"), &faulty).await.status, 422);
    let mut agent = Reader::signed_in(&demo, "AGENT_SESSION");
    let path = format!("{}/refused", home(&demo, "AGENT_ORG_ID"));
    let page = said(&mut agent, &path, "<table>").await;
    let listed = demo.get(demo.env("AGENT_KEY"), "/api/v1/identity/refused-reports").await.body;
    for reason in listed.as_array().unwrap() {
        assert_eq!((&reason["code"], &reason["rule"]), (&json!("invalid_event"), &json!("required")));
        assert!(page.html.contains(">Invalid event</th>") && page.html.contains(">Missing</td>"), "{}", page.html);
        for member in ["field", "last_request_id"] {
            assert!(page.html.contains(reason[member].as_str().unwrap()), "{member} of {reason}: {}", page.html);
        }
    }
    let page = agent.open(&format!("{path}?period=1d")).await;
    assert!(page.html.contains("<table>"), "{}", page.html);
}
