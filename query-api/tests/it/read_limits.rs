//! R18: many expensive concurrent reads. Each read is limited, a key has a maximum number in progress, and other callers still get
//! responses.

use crate::test_app::{Query, TestApp, fetch_on};
use chrono::TimeDelta;
use futures::future::join_all;
use query_api::{ReadSettings, Settings, State, router};
use reqwest::header::RETRY_AFTER;
use schemas::event::SourceRole::Edge;
use schemas::identity::{OrgType, Scope};
use schemas::ids::OrgId;
use service_kit::client_address::ClientSettings;
use service_kit::server::{Pace, ServerLimits};
use service_kit::testing::{TestServer, client, eventually};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const LINES: &str = "application/x-ndjson";

/// Inserts events of 30 KB each. A thousand of them exceed all buffers.
async fn insert_long(app: &TestApp, host: &str, count: u128) {
    let long = format!(r#"{{"own.note":"{}"}}"#, "x".repeat(30_000));
    let rows: Vec<_> = (0..count).map(|key| fetch_on(host, key).role(Edge).data(&long).id(&key.to_string())).collect();
    app.insert(&rows).await;
}

/// Returns status, `Retry-After` and length of a read of the whole year.
async fn year(http: &reqwest::Client, app: &TestApp, key: &str, path: &str) -> (u16, Option<String>, usize) {
    let url = format!("{}{path}?since=2026-01-01&until=2026-12-31", app.server.url);
    let response = http.get(url).header("x-api-key", key).send().await.unwrap();
    let wait = response.headers().get(RETRY_AFTER).map(|wait| wait.to_str().unwrap().to_owned());
    (response.status().as_u16(), wait, response.bytes().await.unwrap().len())
}

#[tokio::test(flavor = "multi_thread")]
async fn excess_reads_per_key_return_429() {
    let app = Query::limited(ReadSettings { reads_per_key: 3, reads_at_once: 0, ..ReadSettings::default() }).await;
    let (owner, other) = (app.seed().owner_of("example.com").await, app.seed().owner_of("other.test").await);
    let rows: Vec<_> = (0..20_000)
        .map(|key| {
            fetch_on("example.com", key).role(Edge).after(i64::try_from(key).unwrap() * 1_500_000).url("https://example.com/")
        })
        .collect();
    app.insert(&rows).await;
    let http = client();
    let paths = ["summary", "events", "urls", "corroboration", "funnel"];
    let asked: Vec<String> = (0..100).map(|number| format!("/content-owners/{}", paths[number % 5])).collect();
    let siege = join_all(asked.iter().map(|path| year(&http, &app, &owner.key, path)));
    // Another owner gets responses in the meantime.
    let neighbour = async {
        for _ in 0..5 {
            assert_eq!(year(&http, &app, &other.key, "/content-owners/summary").await.0, 200);
        }
    };
    let (answers, ()) = tokio::join!(siege, neighbour);
    let of = |status: u16| answers.iter().filter(|(found, ..)| *found == status).count();
    assert_eq!(of(200) + of(429), 100, "{answers:?}");
    assert!(of(200) >= 3 && of(429) > 0, "{answers:?}");
    for (status, wait, _) in &answers {
        assert_eq!(wait.as_deref(), (*status == 429).then_some("1"));
    }
    // All slots are free again.
    for path in paths {
        let path = format!("/content-owners/{path}");
        assert_eq!(year(&http, &app, &owner.key, &path).await.0, 200, "{path}");
    }
}

#[tokio::test]
async fn streamed_responses_keep_their_slot() {
    let app = Query::limited(ReadSettings { reads_per_key: 1, reads_at_once: 0, ..ReadSettings::default() }).await;
    let owner = app.seed().owner_of("example.com").await;
    insert_long(&app, "example.com", 1_000).await;
    let url = format!("{}/content-owners/events?limit=1000", app.server.url);
    let begun = client().get(&url).header("x-api-key", &owner.key).header("accept", "application/x-ndjson");
    let begun = begun.send().await.unwrap();
    assert_eq!(begun.status(), 200);
    assert_eq!(app.get_summary(&owner.key, &[]).await.status, 429, "the list is still being sent");
    drop(begun);
    eventually("the slot is free again", || async { (app.get_summary(&owner.key, &[]).await.status == 200).then_some(()) }).await;
}

/// The client sends a request and then doesn't read the response.
#[tokio::test]
async fn stalled_clients_are_disconnected() {
    for accept in [LINES, "application/json"] {
        who_does_not_read_loses_its_place(accept).await;
    }
}

async fn who_does_not_read_loses_its_place(accept: &str) {
    let app = Query::limited(ReadSettings { reads_at_once: 1, read_seconds: 3, ..ReadSettings::default() }).await;
    let (owner, other) = (app.seed().owner_of("example.com").await, app.seed().owner_of("other.test").await);
    insert_long(&app, "example.com", 1_000).await;
    let (mut stalled, status) = ask_and_do_not_read(&app, &owner.key, accept).await;
    assert_eq!(status, "200", "{accept}");
    assert_eq!(app.get_summary(&other.key, &[]).await.status, 503, "{accept}: the unread response keeps its slot");
    eventually("the slot is free again", || async { (app.get_summary(&other.key, &[]).await.status == 200).then_some(()) }).await;
    let mut rest = Vec::new();
    // The connection may be reset or closed. In both cases the last chunk, which ends a response, is missing.
    let _ = stalled.read_to_end(&mut rest).await;
    assert!(rest.len() < 30_000_000 && !rest.ends_with(b"0\r\n\r\n"), "{accept}: {} bytes", rest.len());
}

/// Starts an app with `places` slots whose clients must read something in each `window`, or lose their connection. The settings allow one
/// organization all slots, for an hour each.
async fn world_of_places(places: usize, window: Duration) -> TestApp {
    let reads = ReadSettings {
        reads_per_key: 0,
        reads_per_organization: 0,
        reads_at_once: places,
        read_seconds: 3_600,
        ..ReadSettings::default()
    };
    let app = Query::start().await;
    let settings = Settings { reads, ..Query::settings(&app) };
    let clients = ClientSettings { connections_per_address: 0, ..ClientSettings::default() };
    let limits = ServerLimits { pace: Pace { window, ..Pace::default() }, ..ServerLimits::for_clients(&clients) };
    let server = TestServer::with(limits, router(State::connect(&settings).await.unwrap())).await;
    for host in ["example.com", "other.test"] {
        insert_long(&app, host, 1_000).await;
    }
    Query::served_by(app, server)
}

#[tokio::test]
async fn slow_clients_leave_slots_for_others() {
    let app = world_of_places(8, Duration::from_secs(600)).await;
    let (one, two) = (app.seed().owner_of("example.com").await, app.seed().owner_of("other.test").await);
    let third = app.seed().owner_of("third.test").await;
    let mut stalled = Vec::new();
    for (owner, expected) in [(&one, 2), (&two, 1)] {
        let mut begun = 0;
        for _ in 0..8 {
            let (stream, status) = ask_and_do_not_read(&app, &owner.key, LINES).await;
            begun += usize::from(status == "200");
            stalled.push(stream);
        }
        assert_eq!(begun, expected, "it gets at most half of the slots for large responses");
    }
    assert_eq!(app.get_summary(&third.key, &[]).await.status, 200, "the third gets a response meanwhile");
}

#[tokio::test]
async fn f78_a_persons_keys_and_sessions_share_slots() {
    let app = world_of_places(8, Duration::from_secs(600)).await;
    let seed = app.seed();
    let (one, two) = (seed.owner_of("example.com").await, seed.owner_of("other.test").await);
    let third = seed.owner_of("third.test").await;
    let session = seed.session("ann@a.test", TimeDelta::days(1)).await;
    seed.own("ann@a.test", &[one.id, two.id]).await;
    let by_session = |org| (format!("authorization: Bearer {session}"), format!("&organization_id={org}"));
    let by_key = |key| (format!("x-api-key: {key}"), String::new());
    let (mut stalled, mut begun) = (Vec::new(), 0);
    let credentials = [by_session(one.id), by_session(two.id), by_key(&one.key), by_key(&two.key)];
    for (credential, parameters) in credentials.iter().chain(&credentials) {
        let (stream, status) = stall(&app, credential, parameters, LINES).await;
        begun += usize::from(status == "200");
        stalled.push(stream);
    }
    assert_eq!(begun, 2, "half of the slots for large responses");
    assert_eq!(app.get_summary(&third.key, &[]).await.status, 200);
}

#[tokio::test]
async fn stalled_clients_lose_their_slot_early() {
    let app = world_of_places(1, Duration::from_secs(2)).await;
    let (one, two) = (app.seed().owner_of("example.com").await, app.seed().owner_of("other.test").await);
    let (_stalled, status) = ask_and_do_not_read(&app, &one.key, LINES).await;
    assert_eq!(status, "200");
    eventually("the slot is free", || async { (app.get_summary(&two.key, &[]).await.status == 200).then_some(()) }).await;
}

#[tokio::test]
async fn slow_bodies_take_no_read_slot() {
    let app = Query::limited(ReadSettings { reads_at_once: 1, ..ReadSettings::default() }).await;
    let (owner, none) = (app.seed().owner_of("a.test").await, app.seed().org("none", OrgType::ContentOwner).await);
    let post = async |owner: OrgId| {
        let key = app.seed().key(owner, OrgType::ContentOwner, &[Scope::IdentityWrite]).await;
        let server = app.server.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(server).await.unwrap();
        let request = format!(
            "POST /content-owners/statements HTTP/1.1\r\nhost: {server}\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n\
             content-length: 20\r\n\r\n{{"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    };
    let mut first = [0; 12];
    post(none.id).await.read_exact(&mut first).await.unwrap();
    assert_eq!(&first[9..], b"403", "without a domain, the body isn't awaited");
    let _slow = post(owner.id).await;
    for _ in 0..20 {
        assert_eq!(app.get_summary(&owner.key, &[]).await.status, 200);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Sends a request for a large page and reads only the status of the response.
async fn ask_and_do_not_read(app: &TestApp, key: &str, accept: &str) -> (TcpStream, String) {
    stall(app, &format!("x-api-key: {key}"), "", accept).await
}

/// Like [`ask_and_do_not_read`], with a header and more parameters.
async fn stall(app: &TestApp, credential: &str, parameters: &str, accept: &str) -> (TcpStream, String) {
    let server = app.server.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(server).await.unwrap();
    let request = format!(
        "GET /content-owners/events?limit=1000{parameters} HTTP/1.1\r\nhost: {server}\r\n{credential}\r\naccept: {accept}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.unwrap();
    (stream, String::from_utf8_lossy(&first[9..]).into_owned())
}

/// A JSON page that exceeds the limit for small responses.
#[tokio::test]
async fn large_json_responses_are_complete() {
    let app = Query::limited(ReadSettings { reads_at_once: 1, ..ReadSettings::default() }).await;
    let owner = app.seed().owner_of("example.com").await;
    insert_long(&app, "example.com", 400).await;
    let url = format!("{}/content-owners/events?limit=400", app.server.url);
    let begun = client().get(&url).header("x-api-key", &owner.key).send().await.unwrap();
    assert_eq!(begun.status(), 200);
    assert_eq!(begun.headers()["content-type"], "application/json");
    assert_eq!(app.get_summary(&owner.key, &[]).await.status, 503, "the page is still being sent");
    let page: serde_json::Value = begun.json().await.unwrap();
    let mut ids: Vec<&str> = page["items"].as_array().unwrap().iter().map(|item| item["event_id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), &page["total"], &page["limit"], &page["offset"]), (400, &400.into(), &400.into(), &0.into()));
    eventually("the slot is free again", || async { (app.get_summary(&owner.key, &[]).await.status == 200).then_some(()) }).await;
}
