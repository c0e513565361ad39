//! C8: `rejected list|show|retry` with the real binary. A dead letter is shown unchanged, and requeued once.

use crate::test_app::{NEW_YEAR_US, TestApp, Workers, event, record};

/// Returns an app with an unreadable record, which would clear the screen, between two good ones.
async fn world_with_poison() -> (TestApp, String, Vec<u8>) {
    let app = Workers::start().await;
    let poison = b"{\"v\":1,\"\x1b[2J".to_vec();
    app.put(&[(0, record(1, NEW_YEAR_US, &[event(1)]))]).await;
    let origin = app.log.put(0, &poison).await;
    app.put(&[(0, record(1, NEW_YEAR_US, &[event(3)]))]).await;
    app.process_all().await;
    (app, origin, poison)
}

#[tokio::test(flavor = "multi_thread")]
async fn prints_dead_letters_without_control_characters() {
    let (app, origin, poison) = world_with_poison().await;
    let (code, list, stderr) = app.command(&["rejected", "list"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    let [head, line] = list.lines().collect::<Vec<_>>()[..] else { panic!("{list}") };
    assert!(head.starts_with("ORIGIN ") && line.starts_with(&origin) && line.contains("  12  open   not a record: "), "{list}");
    let (_, json, _) = app.command(&["rejected", "list", "-o", "json"]).await;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let json = &json[0];
    assert_eq!(
        (json["origin"].as_str(), json["bytes"].as_u64(), json["retried"].is_null()),
        (Some(origin.as_str()), Some(12), true)
    );

    let (_, shown, _) = app.command(&["rejected", "show", &origin]).await;
    assert!(shown.contains("{\"v\":1,\"\u{fffd}[2J") && !shown.contains('\u{1b}'), "{shown}");
    let (_, raw, _) = app.command(&["rejected", "show", "--raw", &origin]).await;
    assert_eq!(raw.as_bytes(), poison);
    for (named, exit, said) in [("nothing", 1, "specify TOPIC/PARTITION/OFFSET"), ("test/0/99", 4, "dead letter not found")] {
        let (code, _, stderr) = app.command(&["rejected", "show", named]).await;
        assert_eq!(code, Some(exit));
        assert!(stderr.contains(said) && stderr.trim().lines().count() == 1, "{stderr}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn does_not_retry_unreadable_records() {
    let (app, origin, _) = world_with_poison().await;
    let (code, stdout, stderr) = app.command(&["rejected", "retry", &origin]).await;
    assert_eq!(code, Some(1));
    assert!(stdout.contains(&format!("{origin}  refused  not a record: ")), "{stdout}");
    assert!(stderr.contains("1 of 1 records were not requeued"), "{stderr}");
    assert_eq!(app.not_stored().await, 0, "a record was put on the log");
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_restores_a_record_only_once() {
    let app = Workers::start().await;
    // An older worker, which could not read it, rejected this record; this worker can read it.
    let readable = record(1, NEW_YEAR_US, &[event(1), event(2)]).to_string();
    let neighbour = record(1, NEW_YEAR_US, &[event(3)]).to_string();
    let origin = format!("{}/0/77", app.stores.kafka.topic);
    for _ in 0..2 {
        app.log.put_dead_letter(&origin, "record version 1 is newer than this worker's 0", readable.as_bytes()).await;
    }
    app.log.put(0, neighbour.as_bytes()).await;
    app.process_all().await;
    assert_eq!(app.visible().await, ["event-000003"]);

    let (code, stdout, stderr) = app.command(&["rejected", "retry", "--all"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains(&format!("{origin}  requeued  {}/", app.stores.kafka.topic)), "{stdout}");
    assert_eq!(stdout.lines().count(), 2, "two letters with one origin count once: {stdout}");
    app.process_all().await;
    assert_eq!(app.visible().await, ["event-000001", "event-000002", "event-000003"]);
    let before = app.table().await;

    let (code, stdout, _) = app.command(&["rejected", "retry", &origin]).await;
    assert_eq!(code, Some(0));
    assert!(stdout.contains("  requeued before  "), "{stdout}");
    let (_, nothing, _) = app.command(&["rejected", "retry", "--all"]).await;
    assert_eq!(nothing, "", "no letter is open");
    assert_eq!(app.not_stored().await, 0, "the log has new records");
    let (_, list, _) = app.command(&["rejected", "list"]).await;
    assert!(list.contains("requeued as") && list.lines().count() == 2, "{list}");
    app.process_all().await;
    assert_eq!(app.table().await, before);
}
