//! The rows written for a record.

use crate::test_app::{NEW_YEAR_US, Workers, record};
use serde_json::json;

const NONE: &str = "00000000-0000-0000-0000-000000000000";
/// Each column of `reports` except `version` and `is_deleted`, for an event with all members and for one with only the required members.
const COLUMNS: [(&str, &str, &str); 41] = [
    ("organization", "00000000-0000-0000-0000-000000000007", "00000000-0000-0000-0000-000000000008"),
    ("at", "2026-11-01 10:00:00.123", "1970-01-01 00:00:00.000"),
    ("identity", "", ""),
    ("home", "202611", "202601"),
    ("is_issuers", "0", "0"),
    // EventKey::shared("com.example.www", correlation_key)
    ("group_key", "165609066647459118673709621043746170596", "0"),
    ("received", "7346287413880098816", "7238556057600000000"),
    ("site", "com.example.www", ""),
    ("type", "content_retrieved", "com.example.shared"),
    ("source_role", "3", "0"),
    ("role", "3", "0"),
    ("drain", NONE, NONE),
    ("platform", "00000000-0000-0000-0000-000000000009", "00000000-0000-0000-0000-000000000008"),
    ("session", "67e55044-10b1-426f-9247-bb680e5fe0c8", NONE),
    ("link", "other", ""),
    ("link_site", "", ""),
    ("agent", "bot/1", ""),
    ("url", "https://www.example.com/a?b=1", ""),
    ("content_id", "doi:10/1", ""),
    ("content_telemetry_id", "ct-1", ""),
    ("event_id", "event-1", ""),
    ("turn_id", "turn-1", ""),
    ("output_id", "output-1", ""),
    ("data", r#"{"n":1.10,"big":18446744073709551616}"#, ""),
    ("extra", r#"{"licence":"x"}"#, ""),
    ("bot", "GPTBot", ""),
    ("operator", "OpenAI", ""),
    ("purpose", "training", ""),
    ("verified", "no", "unknown"),
    ("status", "206", "0"),
    ("bytes", "4294967296", "0"),
    ("cache_status", "HIT", ""),
    ("asn", "8075", "0"),
    ("country", "US", ""),
    ("media_type", "text/html", ""),
    ("bots_version", "2026-11-29", ""),
    ("signature", "invalid", "none"),
    ("signature_reason", "replayed", ""),
    ("signed_by", "https://agent.example", ""),
    ("signature_proof", r#"{"base":"b","signature":"c2ln","key_id":"k","public_key":"z6Mk"}"#, ""),
    ("origin_partition", "0", "1"),
];

#[tokio::test(flavor = "multi_thread")]
async fn stores_every_member_of_a_record() {
    let app = Workers::start().await;
    let full = json!({
        "own_key": "00000000000000000000000000000002", "correlation_key": "b19a1f9e1026bf9713121b883f48e284", "id": "event-1", "type": "content_retrieved",
        "at_ms": 1_793_527_200_123_i64, "source_role": "origin", "site": "com.example.www",
        "content_url": "https://www.example.com/a?b=1", "content_id": "doi:10/1", "content_telemetry_id": "ct-1",
        "session_id": "67e55044-10b1-426f-9247-bb680e5fe0c8", "session_org": "00000000-0000-0000-0000-000000000009", "link": "other", "agent_id": "bot/1", "turn_id": "turn-1", "output_id": "output-1",
        "signature": {"result": "invalid", "reason": "replayed", "signed_by": "https://agent.example",
            "proof": {"base": "b", "signature": "c2ln", "key_id": "k", "public_key": "z6Mk"}},
        "crawler": {"bot": "GPTBot", "operator": "OpenAI", "purpose": "training", "verified": false, "response_status": 206,
            "response_bytes": 4_294_967_296_u64, "cache_status": "HIT", "asn": 8075, "country": "US", "media_type": "text/html", "bots_version": "2026-11-29"},
    });
    // Written as text, because the number must not be parsed and formatted on its way here.
    let text = record(7, 1_793_527_200_654_321, &[full]).to_string().replacen(
        "\"own_key\"",
        r#""data":{"n":1.10,"big":18446744073709551616},"extra":{"licence":"x"},"own_key""#,
        1,
    );
    app.log.put(0, text.as_bytes()).await;
    let bare = json!({"own_key": "00000000000000000000000000000001", "type": "com.example.shared", "at_ms": 0});
    app.put(&[(1, record(8, NEW_YEAR_US, &[bare]))]).await;
    app.process_all().await;

    let names: String = COLUMNS.iter().map(|(name, ..)| format!("toString({name}), ")).collect();
    let rows = format!("SELECT [{}] FROM reports FINAL WHERE is_issuers = 0 ORDER BY organization", names.trim_end_matches(", "));
    let mut rows: Vec<Vec<String>> = app.clickhouse.query(&rows).fetch_all().await.unwrap();
    // `record_versions` tests identities.
    rows.iter_mut().for_each(|row| row[2].clear());
    let expected = [COLUMNS.map(|(_, full, _)| full), COLUMNS.map(|(.., bare)| bare)];
    assert_eq!(rows, expected);
    let others = "SELECT name FROM system.columns WHERE database = currentDatabase() AND table = 'reports' AND name NOT IN ?";
    let names: Vec<&str> = COLUMNS.iter().map(|(name, ..)| *name).collect();
    let others: Vec<String> = app.clickhouse.query(others).bind(names).fetch_all().await.unwrap();
    assert_eq!(others, ["origin_offset", "version", "is_deleted"], "a column was added: add its value here");
}
