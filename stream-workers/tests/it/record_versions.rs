//! Stored records of each version become the same rows in every build, and records of a newer version become dead letters as a whole.
//!
//! The files in `tests/records/` are never regenerated: a log contains what was written, whatever the current types are. A new record
//! version adds its own files and doesn't change existing ones.

use crate::test_app::{TestApp, Workers, event, record};
use schemas::log::RECORD_VERSION;
use serde_json::{Value, json};

/// Records with every member that becomes a column, and their rows, by version.
const VERSIONS: [(&str, &str); 1] = [(include_str!("../records/v1.jsonl"), include_str!("../records/v1.rows.jsonl"))];

/// Returns the stored rows, with the columns that existed when the file was written.
async fn table(app: &TestApp, kept: &Value) -> Vec<Value> {
    let question = "SELECT formatRowNoNewline('JSONEachRow', *) FROM reports FINAL ORDER BY organization, at, identity, is_issuers \
        SETTINGS output_format_json_quote_64bit_integers = 1";
    let found: Vec<String> = app.clickhouse.query(question).fetch_all().await.unwrap();
    let mut found: Vec<Value> = found.iter().map(|row| serde_json::from_str(row).unwrap()).collect();
    found.iter_mut().for_each(|row| row.as_object_mut().unwrap().retain(|column, _| kept.get(column).is_some()));
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn every_record_version_still_produces_its_rows() {
    for (records, rows) in VERSIONS {
        let app = Workers::start().await;
        for record in records.lines() {
            app.log.put(0, record.as_bytes()).await;
        }
        let expected: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
        app.process_all().await;
        assert_eq!(table(&app, &expected[0]).await, expected);
        app.empty().await;
        let (code, _, stderr) = app.command(&["rebuild"]).await;
        assert_eq!(code, Some(0), "{stderr}");
        assert_eq!(table(&app, &expected[0]).await, expected, "after a rebuild");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn newer_records_become_dead_letters() {
    let app = Workers::start().await;
    let mut newer = record(1, crate::test_app::NEW_YEAR_US, &[event(2)]);
    newer["v"] = json!(RECORD_VERSION + 1);
    newer["what_a_worker_of_today_would_miss"] = json!(true);
    let text = newer.to_string();
    app.put(&[
        (0, record(1, crate::test_app::NEW_YEAR_US, &[event(1)])),
        (0, newer),
        (0, record(1, crate::test_app::NEW_YEAR_US, &[event(3)])),
    ])
    .await;
    app.process_all().await;
    assert_eq!(app.events().await, 2);
    let set_aside = app.log.dead_letters().await;
    let [letter] = set_aside.as_slice() else { panic!("expected one dead letter, found {}", set_aside.len()) };
    assert_eq!(letter.payload, text.as_bytes());
    let reason = format!("record version {} is newer than this worker's {RECORD_VERSION}", RECORD_VERSION + 1);
    assert!(letter.reason.contains(&reason), "{}", letter.reason);
}
