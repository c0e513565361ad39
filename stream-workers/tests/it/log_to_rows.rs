//! What a record becomes, and which of two repeats stays.

use crate::test_app::{NEW_YEAR_US, TestApp, column, event, record};
use serde_json::json;

const NONE: &str = "00000000-0000-0000-0000-000000000000";
/// Every column of an event that says no more than it must.
const BARE: [&str; 33] = [
    "",
    // EventKey::of_report(8, "", 1)
    "3C1D10AED10D4CFDFBA22BE9A01E7EC0",
    "00000000-0000-0000-0000-000000000008",
    "0",
    "",
    "com.example.shared",
    "1970-01-01 00:00:00.000",
    "2026-01-01 00:00:00.000000",
    NONE,
    "00000000-0000-0000-0000-000000000008",
    NONE,
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "unknown",
    "0",
    "0",
    "",
    "0",
    "",
    "",
    "",
];

#[tokio::test(flavor = "multi_thread")]
async fn every_member_of_a_record_lands_in_its_column() {
    let app = TestApp::new().await;
    let full = json!({
        "own_key": "00000000000000000000000000000002", "correlation_key": "b19a1f9e1026bf9713121b883f48e284", "id": "event-1", "type": "content_retrieved",
        "at_ms": 1_793_527_200_123_i64, "source_role": "origin", "site": "com.example.www",
        "content_url": "https://www.example.com/a?b=1", "content_id": "doi:10/1", "content_telemetry_id": "ct-1",
        "session_id": "67e55044-10b1-426f-9247-bb680e5fe0c8", "session_org": "00000000-0000-0000-0000-000000000009", "agent_id": "bot/1", "turn_id": "turn-1", "output_id": "output-1",
        "crawler": {"bot": "GPTBot", "operator": "OpenAI", "purpose": "training", "verified": false, "response_status": 206,
            "response_bytes": 4_294_967_296_u64, "cache_status": "HIT", "asn": 8075, "country": "US", "media_type": "text/html", "bots_version": "2026-11-23"},
    });
    // Written by hand, because a number must not be read and written again on its way here.
    let text = record(7, 1_793_527_200_654_321, &[full]).to_string().replacen(
        "\"own_key\"",
        r#""data":{"n":1.10,"big":18446744073709551616},"extra":{"licence":"x"},"own_key""#,
        1,
    );
    app.log.put(0, text.as_bytes()).await;
    let bare = json!({"own_key": "00000000000000000000000000000001", "type": "com.example.shared", "at_ms": 0});
    app.put(&[(1, record(8, NEW_YEAR_US, &[bare]))]).await;
    app.work_off(&app.group()).await;

    let columns = "site, hex(event_key), org_id, observer, source_role, event_type, at, received_at, session_id, platform_id, issuer_id, link, link_site, agent_id, \
        content_url, content_id, content_telemetry_id, event_id, turn_id, output_id, data, extra, bot, operator, purpose, verified, response_status, response_bytes, \
        cache_status, asn, country, media_type, bots_version";
    let rows = format!("SELECT arrayMap(x -> toString(x), [{}]) FROM observations FINAL ORDER BY site", each_as_text(columns));
    let rows: Vec<Vec<String>> = app.clickhouse.query(&rows).fetch_all().await.unwrap();
    let expected_full = [
        "com.example.www",
        // EventKey::shared("com.example.www", correlation_key)
        "7C972563A7346B49D22972908C45E6E4",
        "00000000-0000-0000-0000-000000000007",
        "3",
        "origin",
        "content_retrieved",
        "2026-11-01 10:00:00.123",
        "2026-11-01 10:00:00.654321",
        "67e55044-10b1-426f-9247-bb680e5fe0c8",
        "00000000-0000-0000-0000-000000000009",
        "00000000-0000-0000-0000-000000000009",
        "other",
        "",
        "bot/1",
        "https://www.example.com/a?b=1",
        "doi:10/1",
        "ct-1",
        "event-1",
        "turn-1",
        "output-1",
        r#"{"n":1.10,"big":18446744073709551616}"#,
        r#"{"licence":"x"}"#,
        "GPTBot",
        "OpenAI",
        "training",
        "no",
        "206",
        "4294967296",
        "HIT",
        "8075",
        "US",
        "text/html",
        "2026-11-23",
    ];
    assert_eq!(rows, [BARE, expected_full]);
    let written =
        "SELECT name FROM system.columns WHERE database = currentDatabase() AND table = 'observations' AND name <> 'version'";
    let all: Vec<String> = app.clickhouse.query(written).fetch_all().await.unwrap();
    assert_eq!(all.len(), columns.split(',').count(), "a column was added: give it a value here");
}

fn each_as_text(columns: &str) -> String {
    columns.split(',').map(|column| format!("toString({column})")).collect::<Vec<_>>().join(", ")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_of_two_repeats_stays_whichever_arrives_first() {
    let app = TestApp::new().await;
    let report = |key: u128, accepted: &str, received_at_us| {
        let mut event = event(key);
        event["agent_id"] = json!(accepted);
        record(1, received_at_us, &[event])
    };
    // One partition, so that the order of the log is the order of reading; key 1 in one block, key 2 in two.
    app.put(&[(0, report(1, "second", NEW_YEAR_US + 1)), (0, report(1, "first", NEW_YEAR_US))]).await;
    app.put(&[(0, report(2, "second", NEW_YEAR_US + 1)), (1, report(3, "first", NEW_YEAR_US))]).await;
    app.work_off(&app.group()).await;
    app.put(&[(0, report(2, "first", NEW_YEAR_US)), (1, report(3, "second", NEW_YEAR_US + 1))]).await;
    app.work_off(&app.group()).await;
    assert_eq!(column(&app, "agent_id").await, ["first", "first", "first"]);
    assert_eq!(app.raw_rows().await, 5, "the repeats of one block were folded, the others were not");
}

#[tokio::test(flavor = "multi_thread")]
async fn observers_of_one_retrieval_are_rows_of_their_own_and_repeats_are_not() {
    let app = TestApp::new().await;
    let seen = |role: &str| {
        let mut event = event(1);
        event["correlation_key"] = event["own_key"].clone();
        event["source_role"] = json!(role);
        event
    };
    let roles = ["agent", "edge", "origin", "index"];
    for round in 0..3 {
        let records: Vec<_> =
            (0..4).map(|n| (n, record(1, NEW_YEAR_US + i64::from(round), &[seen(roles[n as usize])]))).collect();
        app.put(&records).await;
        app.work_off(&app.group()).await;
    }
    app.put(&[(0, record(2, NEW_YEAR_US, &[seen("edge")]))]).await;
    app.work_off(&app.group()).await;
    assert_eq!(column(&app, "observer").await, ["1", "2", "2", "3", "4"], "and one more edge of another organisation");
}
