//! Large pages: above the limit, with a slow client, and with a store that fails during the response.

use crate::test_app::{Query, TestApp, fetch_on, get_as, own_clickhouse};
use futures::future::join_all;
use query_api::ReadSettings;
use rand::distr::Alphanumeric;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::{Response, StatusCode};
use schemas::event::SourceRole::{Agent, Edge};
use schemas::identity::OrgType;
use service_kit::testing::{client, eventually};
use std::time::Duration;

const FORMATS: [&str; 3] = ["application/json", "application/x-ndjson", "text/csv"];
const EVENTS: &str = "/content-owners/events?limit=1000";

/// Inserts a thousand events of 30 KB, more than all buffers hold. The values are random, because ClickHouse compresses its responses.
async fn insert_much(app: &TestApp) {
    let mut random = StdRng::seed_from_u64(6);
    let mut long = || (&mut random).sample_iter(Alphanumeric).take(30_000).map(char::from).collect::<String>();
    let mut row =
        |key: u128| fetch_on("example.com", key).role(Edge).data(&format!(r#"{{"own.note":"{}"}}"#, long())).id(&key.to_string());
    let rows: Vec<_> = (0..1_000).map(&mut row).collect();
    app.insert(&rows).await;
}

async fn get(app: &TestApp, key: &str, accept: &str) -> Response {
    get_encoded(app, key, accept, "identity").await
}

async fn get_encoded(app: &TestApp, key: &str, accept: &str, encoding: &str) -> Response {
    let request = client().get(format!("{}{EVENTS}", app.server.url)).header("x-api-key", key).header("accept", accept);
    request.header("accept-encoding", encoding).send().await.unwrap()
}

#[tokio::test]
async fn r18_too_large_pages_return_413() {
    let app = Query::limited(ReadSettings { read_bytes: 5_000_000, ..ReadSettings::default() }).await;
    let owner = app.seed().owner_of("example.com").await;
    insert_much(&app).await;
    for accept in FORMATS {
        for path in [EVENTS, "/content-owners/events?limit=300"] {
            let (status, kind, _, text) = get_as(&app, accept, &owner.key, path).await;
            assert_eq!((status, kind.as_str()), (413, "application/problem+json"), "{accept}: {text}");
            assert!(text.contains("too_large") && text.contains("smaller limit"), "{text}");
        }
        let (status, .., text) = get_as(&app, accept, &owner.key, "/content-owners/events?limit=100").await;
        assert_eq!(status, 200, "{accept}: {text:.300}");
        assert!(text.len() > 3_000_000);
    }
}

/// The events have the gateway's maximum size (`data`, unknown members, URL and ids), and the page is full.
#[tokio::test]
async fn returns_the_largest_possible_page() {
    let app = Query::limited(ReadSettings::default()).await;
    let agent = app.seed().org("Agent", OrgType::Agent).await;
    let member = |name: &str| format!(r#"{{"{name}":"{}"}}"#, "x".repeat(65_536 - name.len() - 7));
    let (data, extra) = (member("note"), member("other"));
    let url = format!("https://example.com/{}", "u".repeat(8_172));
    for hundred in 0..10 {
        let row = |key: u128| {
            let row = fetch_on("example.com", key)
                .role(Edge)
                .data(&data)
                .url(&url)
                .id(&format!("{key:02048}"))
                .agent(&"a".repeat(2_048));
            crate::test_app::Observation {
                org_id: agent.id.0,
                platform_id: agent.id.0,
                extra: extra.clone(),
                content_telemetry_id: "t".repeat(2_048),
                ..row
            }
        };
        let rows: Vec<_> = (hundred * 100..hundred * 100 + 100).map(row).collect();
        app.insert(&rows).await;
    }
    let (status, _, total, text) = get_as(&app, "application/x-ndjson", &agent.key, "/agent/events?limit=1000").await;
    assert_eq!((status, total.as_str()), (200, "1000"), "{text:.300}");
    assert_eq!(text.lines().count(), 1_000);
    assert!(text.len() > 140_000_000, "{}", text.len());
}

#[tokio::test]
async fn slow_clients_get_the_whole_page() {
    const START_SECONDS: u32 = 3;
    let reads = ReadSettings { read_start_seconds: START_SECONDS, read_seconds: 600, ..ReadSettings::default() };
    let app = Query::limited(reads).await;
    let owner = app.seed().owner_of("example.com").await;
    insert_much(&app).await;
    // On a busy machine, the first row may take longer than the limit here.
    let begun = async || Some(get(&app, &owner.key, "application/x-ndjson").await).filter(|answer| answer.status() == 200);
    let mut answer = eventually("the page begins in time", begun).await;
    let (mut text, mut read_of_step) = (Vec::new(), 0);
    while let Some(piece) = answer.chunk().await.unwrap() {
        text.extend_from_slice(&piece);
        read_of_step += piece.len();
        // 30 steps take twice the first row's time limit.
        if read_of_step >= 1_000_000 {
            read_of_step = 0;
            tokio::time::sleep(Duration::from_millis(u64::from(START_SECONDS) * 2_000 / 30)).await;
        }
    }
    let lines = String::from_utf8(text).unwrap();
    assert_eq!((lines.lines().count(), lines.ends_with('\n')), (1_000, true));
}

/// Requests all formats together, so that ClickHouse is killed in the middle of all responses.
#[tokio::test(flavor = "multi_thread")]
async fn store_failures_abort_every_format() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let folder = tempfile::tempdir().unwrap();
    let (mut own, clickhouse) = own_clickhouse(folder.path()).await;
    let mut app = Query::through(app, clickhouse.clone()).await;
    app.store_in(&clickhouse);
    insert_much(&app).await;
    let whole = get(&app, &owner.key, "text/csv").await.bytes().await.unwrap().len();
    let encodings = ["gzip", "br", "zstd", "identity", "identity", "identity"];
    let asked: Vec<_> = FORMATS.into_iter().cycle().zip(encodings).collect();
    let mut answers = join_all(asked.iter().map(|(accept, encoding)| get_encoded(&app, &owner.key, accept, encoding))).await;
    for answer in &mut answers {
        assert_eq!(answer.status(), StatusCode::OK);
        assert!(answer.chunk().await.unwrap().is_some());
    }
    own.kill_9();
    for (mut answer, accept) in answers.into_iter().zip(asked) {
        let mut read = 0;
        let broken = loop {
            match answer.chunk().await {
                Ok(Some(piece)) => read += piece.len(),
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        assert!(broken.is_some(), "{accept:?}: {read} bytes of about {whole} ended like a complete response");
        assert!(read < whole, "{accept:?}: the response was complete, so the test checked nothing");
    }
}

/// Report content is read only for events on the page.
#[tokio::test]
async fn pages_fetch_only_their_own_reports() {
    // Less than half of the reported bytes.
    let app = Query::limited(ReadSettings { read_memory: 100 << 20, ..ReadSettings::default() }).await;
    let owner = app.seed().owner_of("example.com").await;
    let long = format!(r#"{{"n":"{}"}}"#, "x".repeat(60_000));
    let row = |key: u128| fetch_on("example.com", key).role(Agent).named("content_cited").id(&key.to_string()).data(&long);
    for block in 0..8 {
        app.insert(&(block * 500..block * 500 + 500).map(row).collect::<Vec<_>>()).await;
    }
    let mut expected: Vec<u128> = (0..4_000).collect();
    expected.sort_by_cached_key(|key| row(*key).keys().event());
    for _ in 0..2 {
        let page = app.page(&owner.key, "/content-owners/events", &[("limit", "1"), ("offset", "4")]).await;
        assert_eq!((&page["total"], &page["items"][0]["event_id"]), (&4_000.into(), &expected[4].to_string().into()));
        app.merge().await;
    }
}
