//! Records as earlier builds wrote them, kept in files: the worker of today makes the same rows of them as the worker of then.
//! And records of a build to come: they are set aside whole, and wait for it.
//!
//! Must not write the files anew from the types of today: a log holds what was written, whatever the types have become. A new
//! version of the record adds a file and changes none.

use crate::test_app::{TestApp, event, record};
use schemas::log::RECORD_VERSION;
use serde_json::{Value, json};

/// What was written, with every member it has, and the rows that became of it: version 1 as of 2026-11, with sites that begin
/// with `www`, version 4, which knows none, version 5, which says where the link of a click token leads, and version 6, which says
/// who fetched a content. Versions 2 and 3 differ from 1, and
/// 7 from 6, in what is left to look up only; 8 in an order, and 9 in sessions that are left to write, which are no rows.
const VERSIONS: [(&str, &str); 4] = [
    (include_str!("../records/v1.jsonl"), include_str!("../records/v1.rows.jsonl")),
    (include_str!("../records/v4.jsonl"), include_str!("../records/v4.rows.jsonl")),
    (include_str!("../records/v5.jsonl"), include_str!("../records/v5.rows.jsonl")),
    (include_str!("../records/v6.jsonl"), include_str!("../records/v6.rows.jsonl")),
];

/// The table, in the columns that there were when the rows were kept.
async fn table(app: &TestApp, kept: &Value) -> Vec<Value> {
    let question =
        "SELECT formatRowNoNewline('JSONEachRow', *) FROM observations FINAL ORDER BY site, event_key, org_id, observer";
    let found: Vec<String> = app.clickhouse.query(question).fetch_all().await.unwrap();
    let mut found: Vec<Value> = found.iter().map(|row| serde_json::from_str(row).unwrap()).collect();
    found.iter_mut().for_each(|row| row.as_object_mut().unwrap().retain(|column, _| kept.get(column).is_some()));
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_an_older_version_become_the_same_rows_as_ever_also_when_the_store_is_rebuilt() {
    for (records, rows) in VERSIONS {
        let app = TestApp::new().await;
        for record in records.lines() {
            app.log.put(0, record.as_bytes()).await;
        }
        let expected: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
        app.work_off(&app.group()).await;
        assert_eq!(table(&app, &expected[0]).await, expected);
        app.clickhouse.query("TRUNCATE TABLE observations").execute().await.unwrap();
        let (code, _, stderr) = app.command(&["rebuild"]).await;
        assert_eq!(code, Some(0), "{stderr}");
        assert_eq!(table(&app, &expected[0]).await, expected, "keys and sites are those of then");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_of_a_newer_version_is_set_aside_whole_and_its_neighbours_go_on() {
    let app = TestApp::new().await;
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
    app.work_off(&app.group()).await;
    assert_eq!(app.raw_rows().await, 2);
    let set_aside = app.log.set_aside().await;
    let [letter] = set_aside.as_slice() else { panic!("one is set aside, not {}", set_aside.len()) };
    assert_eq!(letter.payload, text.as_bytes());
    let reason = format!("record version {} is newer than this worker's {RECORD_VERSION}", RECORD_VERSION + 1);
    assert!(letter.reason.contains(&reason), "{}", letter.reason);
}
