//! R8: statements never contain callers' text. A proxy in front of ClickHouse records them.

use crate::test_app::{Observation, Query, TestApp, fetch_on};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State as Shared;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::IntoResponse;
use reqwest::StatusCode;
use schemas::identity::OrgType;
use serde_json::json;
use service_kit::settings::ClickHouseSettings;
use service_kit::testing::{TestServer, clickhouse_request};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// Part of every hostile text, and only of those.
const MARK: &str = "zq7";

/// Statements received by a proxy in front of ClickHouse.
#[derive(Clone)]
struct RecordedStatements {
    upstream: String,
    statements: Arc<Mutex<Vec<String>>>,
}

/// Returns a body without values: for a form, without parameters and tables.
fn without_values(body: &str) -> String {
    let Some(boundary) = body.strip_prefix("--").and_then(|rest| rest.lines().next()) else { return body.to_owned() };
    let is_value = |field: &&str| field.contains("name=\"param_") || field.contains("; filename=\"");
    body.split(boundary).filter(|field| !is_value(field)).collect()
}

/// Forwards a request to ClickHouse and records its statement, without values, which are sent as `param_*` and as tables.
async fn listen(
    Shared(heard): Shared<RecordedStatements>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> impl IntoResponse {
    let target = format!("{}{}", heard.upstream.trim_end_matches('/'), uri);
    let parsed = reqwest::Url::parse(&target).unwrap();
    let query = parsed.query_pairs().filter(|(name, _)| !name.starts_with("param_"));
    let outside: String = query.map(|(name, value)| format!("{name}={value} ")).collect();
    heard.statements.lock().unwrap().push(format!("{outside}{}", without_values(&String::from_utf8_lossy(&body))));
    let mut request = clickhouse_request(method, parsed.as_str()).body(body);
    for (name, value) in headers.iter().filter(|(name, _)| *name != "host" && *name != "content-length") {
        request = request.header(name, value);
    }
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let mut answer = (status, response.bytes().await.unwrap()).into_response();
    for (name, value) in headers.iter().filter(|(name, _)| *name != "transfer-encoding" && *name != "content-length") {
        answer.headers_mut().insert(name, value.clone());
    }
    answer
}

/// Returns 520 typical injection strings, each with the mark.
fn corpus() -> Vec<String> {
    const ENDS: [&str; 10] = ["", "'", "\"", "`", "\\", "\\'", "')", "'))", "*/", "\0'"];
    const MIDDLES: [&str; 13] = [
        " OR 1=1",
        " OR '1'='1",
        " UNION ALL SELECT name FROM system.tables",
        "; DROP TABLE events",
        "; SELECT sleep(3)",
        " AND sleep(3)=0",
        "} OR {x:String}",
        " FORMAT TSV SETTINGS readonly=0",
        " INTO OUTFILE '/tmp/x'",
        "||(SELECT version())",
        ") AND (SELECT count() FROM numbers(1e12))",
        ", (SELECT * FROM url('http://127.0.0.1/', CSV))",
        "%27%20OR%201=1",
    ];
    const TAILS: [&str; 4] = [" -- ", " #", " /*", ""];
    let texts = ENDS.iter().flat_map(|end| MIDDLES.iter().map(move |middle| (end, middle)));
    texts.flat_map(|(end, middle)| TAILS.iter().map(move |tail| format!("{MARK}{end}{middle}{tail}"))).collect()
}

/// Returns an app that reads through a proxy, the recorded statements, and the proxy.
async fn overheard() -> (TestApp, RecordedStatements, TestServer) {
    let app = Query::start().await;
    let heard = RecordedStatements { upstream: app.stores.clickhouse.clickhouse_url.clone(), statements: Arc::default() };
    let listener = TestServer::start(Router::new().fallback(listen).with_state(heard.clone())).await;
    let clickhouse = ClickHouseSettings { clickhouse_url: listener.url.clone(), ..app.stores.clickhouse.clone() };
    (Query::through(app, clickhouse).await, heard, listener)
}

const OWNERS: [&str; 7] = [
    "/content-owners/summary",
    "/content-owners/events",
    "/content-owners/urls",
    "/content-owners/corroboration",
    "/content-owners/reconciliation",
    "/content-owners/funnel",
    "/content-owners/series",
];

/// Returns whether a statement reads telemetry; the others check whether ClickHouse responds.
fn is_read(statement: &str) -> bool {
    ["events", "reports", "sites"].iter().any(|table| statement.contains(&format!("FROM {table}")))
}

const AGENTS: [&str; 3] = ["/agent/events", "/agent/summary", "/agent/series"];

impl RecordedStatements {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.statements.lock().unwrap())
    }
}

#[tokio::test]
async fn r8_invalid_parameters_do_not_reach_statements() {
    let (app, heard, _listener) = overheard().await;
    let owner = app.seed().owner_of("example.com").await;
    let partner = app.seed().org("Partner", OrgType::Platform).await;
    app.seed().delegate(owner.id, partner.id).await;
    let corpus = corpus();
    assert!(corpus.len() >= 500);
    heard.take();
    for (number, text) in corpus.iter().enumerate() {
        let path = OWNERS[number % OWNERS.len()];
        let name =
            ["domain", "since", "until", "limit", "offset", "by", "split", "sort", "delegated_from"][number / OWNERS.len() % 9];
        let (path, name) = match (path, name) {
            ("/content-owners/summary", "limit" | "offset") => (path, "domain"),
            other => other,
        };
        let key = if name == "delegated_from" { &partner.key } else { &owner.key };
        let status = app.read(key, path, &[(name, text)]).await.status;
        let expected = if matches!(name, "domain" | "delegated_from") { StatusCode::FORBIDDEN } else { StatusCode::BAD_REQUEST };
        assert_eq!(status, expected, "{path} {name} {text:?}");
    }
    for path in AGENTS {
        let agent = app.read(&partner.key, path, &[("since", &corpus[7])]).await;
        assert_eq!(agent.status, StatusCode::BAD_REQUEST, "{path}");
    }
    let agent = app.read(&partner.key, "/agent/events", &[("reported_by", &corpus[7])]).await;
    assert_eq!(agent.status, StatusCode::BAD_REQUEST);
    let path = format!("/sessions/{}/document", "zq7%27%20OR%201=1");
    assert_eq!(app.read(&partner.key, &path, &[]).await.status, StatusCode::NOT_FOUND);
    // Checks whether ClickHouse responds aren't reads.
    assert_eq!(heard.take().into_iter().filter(|statement| statement.contains("FROM")).collect::<Vec<_>>(), Vec::<String>::new());
}

#[tokio::test]
async fn values_are_not_part_of_statements() {
    let (app, heard, _listener) = overheard().await;
    let owner = app.seed().owner_of("example.com").await;
    let agent = app.seed().org("Agent", OrgType::Agent).await;
    // Hosts that look like statements.
    let hosts = ["www", "zq7-or-1", "zq7--", "select-zq7-from-events", "drop.zq7.table", "zq7e1"];
    app.insert(&hosts.map(|host| fetch_on(&format!("{host}.example.com"), 1).after(1_000))).await;
    for path in OWNERS {
        let mut statements = BTreeSet::new();
        for host in hosts {
            let (domain, since) = (format!("{host}.example.com"), "2026-01-01T00:00:00.777Z");
            heard.take();
            assert_eq!(app.read(&owner.key, path, &[("domain", &domain), ("since", since)]).await.status, StatusCode::OK);
            let said = heard.take();
            let reads: Vec<String> = said.iter().filter(|statement| is_read(statement)).cloned().collect();
            let is_counting =
                |of: &&String| of.contains("FROM events") && !of.contains("-- Names of the agents that claim fetches");
            let counting = reads.iter().filter(is_counting).count();
            assert_eq!(counting, 1, "{path} {domain}: all figures come from one statement: {said:?}");
            assert!(said.iter().all(|statement| !statement.contains(MARK) && !statement.contains("600777")), "{path}: {said:?}");
            statements.insert(reads);
        }
        assert_eq!(statements.len(), 1, "{path}: the statements don't depend on the values");
    }
    for path in AGENTS {
        heard.take();
        assert_eq!(app.read(&agent.key, path, &[("until", "2026-01-01T00:00:00.777Z")]).await.status, StatusCode::OK);
        let said = heard.take();
        let id = agent.id.to_string();
        assert!(said.iter().all(|statement| !statement.contains("600777") && !statement.contains(&id)), "{said:?}");
    }
}

#[tokio::test]
async fn ids_and_filters_are_not_part_of_statements() {
    let (app, heard, _listener) = overheard().await;
    let owner = app.seed().owner_of("example.com").await;
    app.insert(&[fetch_on("example.com", 1).id("own")]).await;
    heard.take();
    for (number, text) in corpus().iter().step_by(7).enumerate() {
        let may_be_asked = !text.contains('\0');
        let expected = if may_be_asked { StatusCode::OK } else { StatusCode::BAD_REQUEST };
        for name in ["agent_id", "event_type", "bot", "operator"] {
            let answer = app.read(&owner.key, "/content-owners/events", &[(name, text)]).await;
            assert_eq!(answer.status, expected, "{name} {text:?}: {}", answer.raw);
        }
        let path = if number % 2 == 0 { format!("/{text}") } else { format!("/{text}*") };
        let is_path = !path.strip_suffix('*').unwrap_or(&path).contains(['*', '?', '#', '\0']);
        let expected = if is_path { StatusCode::OK } else { StatusCode::BAD_REQUEST };
        let answer = app.read(&owner.key, "/content-owners/urls", &[("path", &path)]).await;
        assert_eq!(answer.status, expected, "{path:?}: {}", answer.raw);
        let mut path = reqwest::Url::parse("http://a.test/content-owners/events").unwrap();
        path.path_segments_mut().unwrap().push(text);
        let answer = app.read(&owner.key, path.path(), &[]).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{text:?}: {}", answer.raw);
    }
    let said = heard.take();
    assert!(said.iter().any(|statement| statement.contains("event_id = {event_id:String}")), "the proxy records lookups");
    assert!(said.iter().all(|statement| !statement.contains(MARK)), "{said:?}");
}

#[tokio::test]
async fn stored_text_is_not_part_of_statements() {
    let (app, heard, _listener) = overheard().await;
    let owner = app.seed().owner_of("example.com").await;
    let agent = app.seed().org("Agent", OrgType::Agent).await;
    let corpus = corpus();
    let row = |(key, text): (u128, &String)| Observation {
        agent_id: text.clone(),
        content_url: format!("https://example.com/{text}"),
        event_type: format!("com.{text}"),
        event_id: text.clone(),
        content_telemetry_id: text.clone(),
        data: json!({"x": text}).to_string(),
        ..fetch_on("example.com", key).role(schemas::event::SourceRole::Agent)
    };
    let rows: Vec<Observation> = (0..).zip(&corpus).map(row).map(|row| row.by_org(agent.id)).collect();
    app.insert(&rows).await;
    heard.take();
    let summary = app.summary(&owner.key, &[]).await;
    assert_eq!((summary.total_events, summary.agents.len()), (corpus.len() as u64, corpus.len()));
    let page = app.page(&agent.key, "/agent/events", &[("limit", "1000")]).await;
    let read: BTreeSet<&str> = page["items"].as_array().unwrap().iter().map(|item| item["event_id"].as_str().unwrap()).collect();
    assert_eq!(read, corpus.iter().map(String::as_str).collect());
    let urls = app.page(&owner.key, "/content-owners/urls", &[("limit", "1000")]).await;
    assert_eq!(urls["total"], corpus.len());
    for text in corpus.iter().filter(|text| !text.contains(['*', '?', '#', '\0'])).step_by(9) {
        let found = app.page(&owner.key, "/content-owners/urls", &[("path", &format!("/{text}"))]).await;
        assert_eq!(
            (&found["total"], &found["items"][0]["content_url"]),
            (&json!(1), &json!(format!("https://example.com/{text}")))
        );
    }
    for path in OWNERS {
        assert_eq!(app.read(&owner.key, path, &[]).await.status, StatusCode::OK, "{path}");
    }
    assert!(heard.take().iter().all(|statement| !statement.contains(MARK)), "statements contain no stored text");
}
