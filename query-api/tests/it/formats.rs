//! Lists as CSV and as newline-delimited JSON.

use crate::lists::OWNERS;
use crate::test_app::{Query, TestApp, fetch_on, get_as};
use schemas::event::SourceRole::{Agent, Edge};
use schemas::identity::OrgType;
use serde_json::Value;

async fn world_of_some_events() -> (TestApp, String, String) {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let agent = app.seed().org("Agent", OrgType::Agent).await;
    let rows: Vec<_> = (0..300_u128)
        .map(|key| {
            let row = fetch_on("example.com", key)
                .role(if key % 2 == 0 { Agent } else { Edge })
                .agent("=cmd(\"x\"),\n1")
                .session(key % 9);
            let row = row.url(&format!("https://example.com/{}", key % 40)).data(r#"{"text":"a,b\"c\"\n","n":1.10}"#);
            row.by_org(agent.id)
        })
        .collect();
    app.insert(&rows).await;
    (app, owner.key, agent.key)
}

#[tokio::test]
async fn ndjson_lines_equal_json_items() {
    let (app, owner, agent) = world_of_some_events().await;
    for (path, key) in OWNERS.map(|path| (path, &owner)).into_iter().chain([("/agent/events", &agent)]) {
        let path = format!("{path}?limit=150&offset=1");
        let page: Value = app.page(key, &path, &[]).await;
        let (status, kind, total, text) = get_as(&app, "application/x-ndjson", key, &path).await;
        assert_eq!((status, kind.as_str()), (200, "application/x-ndjson"), "{path}");
        assert_eq!(total, page["total"].to_string(), "{path}");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(Value::from(lines), page["items"], "{path}");
        assert!(text.is_empty() || text.ends_with('\n'));
    }
}

#[tokio::test]
async fn csv_is_flat_and_contains_no_formulas() {
    let (app, owner, agent) = world_of_some_events().await;
    let funnels = ["/content-owners/funnel?by=url", "/content-owners/funnel?by=day"];
    let lists = OWNERS.into_iter().chain(funnels).map(|path| (path, &owner)).chain([("/agent/events", &agent)]);
    for (path, key) in lists {
        let page: Value = app.page(key, path, &[]).await;
        let (status, kind, total, text) = get_as(&app, "text/csv, */*;q=0.1", key, path).await;
        assert_eq!((status, kind.as_str()), (200, "text/csv; charset=utf-8"), "{path}");
        assert_eq!(total, page["total"].to_string(), "{path}");
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let columns = reader.headers().unwrap().clone();
        let records: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        let items = page["items"].as_array().unwrap();
        assert_eq!(records.len(), items.len(), "{path}");
        for (record, item) in records.iter().zip(items) {
            let cell_of = |name: &str| columns.iter().position(|column| column == name).map(|at| record[at].to_owned());
            for (name, value) in item.as_object().unwrap() {
                match value {
                    // Lists of counts have no column.
                    Value::Array(_) => assert_eq!(cell_of(name), None, "{path} {name}"),
                    Value::Object(members) => {
                        for member in members.keys() {
                            let is_in = cell_of(&format!("{name}_{member}")).is_some_and(|cell| !cell.is_empty());
                            let others = cell_of(&format!("{name}_other")).unwrap();
                            assert!(is_in || others.contains(&format!("{member}: ")), "{path} {name} {member}: {record:?}");
                        }
                    }
                    Value::Null => assert_eq!(cell_of(name).as_deref(), Some(""), "{path} {name}"),
                    Value::String(text) if text.starts_with('=') => assert_eq!(cell_of(name), Some(format!("'{text}"))),
                    Value::String(text) => assert_eq!(cell_of(name).as_ref(), Some(text), "{path} {name}"),
                    other => assert_eq!(cell_of(name), Some(other.to_string()), "{path} {name}"),
                }
            }
            assert!(record.iter().all(|cell| !cell.starts_with(['{', '['])), "{path}: {record:?}");
        }
    }
}

#[tokio::test]
async fn every_format_contains_the_corroboration_note() {
    let (app, owner, _) = world_of_some_events().await;
    let path = "/content-owners/corroboration";
    let page = app.page(&owner, path, &[]).await;
    assert_eq!(page["domains"], serde_json::json!(["example.com"]));
    let note = page["note"].as_str().unwrap().to_owned();
    assert!(note.contains("likely, but not certain"));
    for (accept, told) in [("text/csv", Some(note.as_str())), ("application/x-ndjson", Some(note.as_str())), ("*/*", None)] {
        let request = service_kit::testing::client().get(format!("{}{path}", app.server.url)).header("accept", accept);
        let answer = request.header("x-api-key", &owner).send().await.unwrap();
        let header = answer.headers().get("x-corroboration-note").map(|note| note.to_str().unwrap());
        assert_eq!(header, told, "{accept}");
    }
}

#[tokio::test]
async fn errors_are_problem_json_in_every_format() {
    let (app, owner, _) = world_of_some_events().await;
    for accept in ["text/csv", "application/x-ndjson"] {
        let (status, kind, ..) = get_as(&app, accept, &owner, "/content-owners/events?limit=0").await;
        assert_eq!((status, kind.as_str()), (400, "application/problem+json"));
    }
}

#[tokio::test]
async fn empty_csv_lists_have_only_a_header() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let (_, _, total, text) = get_as(&app, "text/csv", &owner.key, "/content-owners/urls").await;
    assert_eq!(
        (total.as_str(), text.as_str()),
        (
            "0",
            "content_url,total_events,fetched,failed,revalidated,grounded,cited,presented,engagements,visits,unique_sessions,last_seen\n"
        )
    );
    let (_, _, total, text) = get_as(&app, "application/x-ndjson", &owner.key, "/content-owners/urls").await;
    assert_eq!((total.as_str(), text.as_str()), ("0", ""));
}
