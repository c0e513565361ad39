//! Records as earlier builds wrote them, kept in files: the worker of today makes the same rows of them as the worker of then.
//! And records of a build to come: they are set aside whole, and wait for it.
//!
//! Must not write the files anew from the types of today: a log holds what was written, whatever the types have become. A new
//! version of the record adds a file and changes none.

use crate::world::{World, event, record};
use serde_json::{Value, json};

/// Version 1 as of 2026-11, with every member it has, and the rows that became of it.
const VERSION_1: (&str, &str) = (include_str!("../records/v1.jsonl"), include_str!("../records/v1.rows.jsonl"));

#[tokio::test(flavor = "multi_thread")]
async fn records_of_an_older_version_become_the_same_rows_as_ever() {
    let world = World::new().await;
    let (records, rows) = VERSION_1;
    for record in records.lines() {
        world.log.put(0, record.as_bytes()).await;
    }
    world.work_off(&world.group()).await;
    let question =
        "SELECT formatRowNoNewline('JSONEachRow', *) FROM observations FINAL ORDER BY site, event_key, org_id, observer";
    let found: Vec<String> = world.clickhouse.query(question).fetch_all().await.unwrap();
    let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let expected: Vec<Value> = rows.lines().map(parsed).collect();
    assert_eq!(found.iter().map(|row| parsed(row)).collect::<Vec<_>>(), expected, "{}", found.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_of_a_newer_version_is_set_aside_whole_and_its_neighbours_go_on() {
    let world = World::new().await;
    let mut newer = record(1, crate::world::NEW_YEAR_US, &[event(2)]);
    newer["v"] = json!(4);
    newer["what_a_worker_of_today_would_miss"] = json!(true);
    let text = newer.to_string();
    world
        .put(&[
            (0, record(1, crate::world::NEW_YEAR_US, &[event(1)])),
            (0, newer),
            (0, record(1, crate::world::NEW_YEAR_US, &[event(3)])),
        ])
        .await;
    world.work_off(&world.group()).await;
    assert_eq!(world.raw_rows().await, 2);
    let set_aside = world.log.set_aside().await;
    let [letter] = set_aside.as_slice() else { panic!("one is set aside, not {}", set_aside.len()) };
    assert_eq!(letter.payload, text.as_bytes());
    assert!(letter.reason.contains("record version 4 is newer than this worker's 3"), "{}", letter.reason);
}
