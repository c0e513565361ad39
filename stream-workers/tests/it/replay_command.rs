//! C7 and F26: `telemetry stream-workers replay` with the real binary: under live traffic, repeated, in parts, and with writers that crash.

use crate::click_tokens::{REPORTER, by_token, issue, session};
use crate::rebuild_command::worked_off;
use crate::test_app::{NEW_YEAR_US, PARTITIONS, TestApp, event, record};
use serde_json::json;
use service_kit::testing::eventually;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Points at which a writer crashes during a replay. At the last one, its block is visible but its position isn't stored.
const CRASH_POINTS: [&str; 4] = ["after_reports", "after_events_first", "after_events", "before_replay"];

/// Empties the event tables while no writer runs, and keeps `progress`.
async fn lose(app: &TestApp) {
    for table in ["events", "reports"] {
        app.clickhouse.query(&format!("TRUNCATE TABLE {table}")).execute().await.unwrap();
    }
}

/// Returns the number of records that replays have read so far.
async fn replayed(app: &TestApp) -> u64 {
    app.clickhouse.query("SELECT sum(records) FROM replays FINAL").fetch_one().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn replaying_stored_records_changes_nothing() {
    let app = worked_off(120).await;
    let (before, processed) = (app.table().await, app.processed().await);
    let (code, stdout, stderr) = app.command(&["replay", "--dry-run"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.starts_with("120 records with 160 events were read; nothing was stored;"), "{stdout}");
    for options in [&["--expect-unchanged", "--rate", "1000000"][..], &["--expect-unchanged", "-o", "json"]] {
        let (code, stdout, stderr) = app.replay(options).await;
        assert_eq!(code, Some(0), "{stderr}");
        let expected = "120 records with 160 events were read; 0 rows of events and 0 rows of reports changed;";
        assert!(stdout.starts_with(expected) || stdout.contains(r#""changed_events": 0"#), "{stdout}");
        assert_eq!((app.table().await, app.processed().await), (before.clone(), processed));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replay_restores_missing_rows() {
    let app = worked_off(120).await;
    let whole = app.table().await;
    // By offset: ten records of partition 2.
    lose(&app).await;
    let (code, stdout, stderr) = app.replay(&["--from", "2:5", "--to", "2:15"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("10 rows of events and 10 rows of reports changed"), "{stdout}");
    let expected: Vec<String> = (5..15).map(|n| format!("event-{:06}", 2 + n * PARTITIONS)).collect();
    assert_eq!(app.visible().await, expected);
    let (code, _, stderr) = app.replay(&["--from", "2:5,3:0", "--expect-unchanged"]).await;
    assert_eq!(code, Some(1));
    assert!(stderr.contains("events in the replayed records were missing in the store"), "{stderr}");
    lose(&app).await;
    let org = uuid::Uuid::from_u128(2).to_string();
    let (code, stdout, stderr) = app.replay(&["--org", &org]).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.starts_with("120 records with 80 events"), "{stdout}");
    assert_eq!(app.visible().await, (0..60).map(|n| format!("event-{:06}", 2 * n + 1)).collect::<Vec<_>>());
    // By time: all records are older than tomorrow.
    let tomorrow = (service_kit::clock::Clock::System.now() + chrono::TimeDelta::days(1)).to_rfc3339();
    let (_, stdout, _) = app.replay(&["--from", &tomorrow]).await;
    assert!(stdout.starts_with("0 records"), "{stdout}");
    let (code, _, stderr) = app.replay(&["--from", "2020-01-01T00:00:00Z", "--to", &tomorrow]).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(app.table().await, whole);
}

/// C7: stored rows don't change while everything is replayed under live traffic.
#[tokio::test(flavor = "multi_thread")]
async fn c7_stored_rows_stay_identical_during_replays() {
    const CLOSED: u128 = 3_000;
    let app = Arc::new(worked_off(CLOSED).await);
    let worker = app.worker();
    let stop = CancellationToken::new();
    let (writing, stopped) = (Arc::clone(&app), stop.clone());
    let live = tokio::spawn(async move {
        let mut written = 0_u128;
        while !stopped.is_cancelled() {
            // New events of the next day, and copies of stored ones.
            let records: Vec<_> = (0..20)
                .map(|n| {
                    let now_us = NEW_YEAR_US + 86_400_000_000 + i64::try_from(written + n).unwrap();
                    let key = if n < 10 { CLOSED + 10 * (written / 20) + n } else { (written + n) % CLOSED };
                    (i32::try_from(n).unwrap() % PARTITIONS, record(1 + key % 2, now_us, &[event(key)]))
                })
                .collect();
            writing.put(&records).await;
            written += 20;
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        CLOSED + written / 2
    });
    let before = (NEW_YEAR_US + 86_400_000_000) * 4_096;
    let closed = format!(
        "SELECT toString(arraySort(groupArray(row))) FROM ( \
            SELECT toString(tuple(*)) AS row FROM events FINAL WHERE reports.received[1] < {before} \
            UNION ALL SELECT toString(tuple(*)) AS row FROM reports FINAL WHERE received < {before})"
    );
    let read = || async { app.clickhouse.query(&closed).fetch_one::<String>().await.unwrap() };
    let before = read().await;
    assert!(before.len() > 100_000, "the closed range is empty");
    let mut polls = 0;
    let replaying = async {
        for _ in 0..2 {
            let (code, stdout, stderr) = app.command(&["replay", "--rate", "2000", "--expect-unchanged"]).await;
            assert_eq!(code, Some(0), "{stdout}{stderr}");
        }
    };
    let polling = async {
        loop {
            assert!(read().await == before, "the closed range moved at poll {polls}");
            polls += 1;
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = replaying => {}
        () = polling => {}
    }
    stop.cancel();
    let keys = live.await.unwrap();
    app.caught_up().await;
    worker.stop().await;
    assert!(polls >= 5, "{polls}");
    assert!(read().await == before);
    assert_eq!(u128::from(app.events().await), keys, "live events are missing or counted twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn replays_continue_after_writers_are_killed() {
    let app = worked_off(120).await;
    let whole = app.table().await;
    lose(&app).await;
    let dying = async {
        for point in CRASH_POINTS {
            app.crash_at(point).await;
        }
        app.launch([])
    };
    let ((code, stdout, stderr), mut last) = tokio::join!(app.command(&["replay"]), dying);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert_eq!(app.table().await, whole);
    let (code, stdout, stderr) = app.command(&["replay", "--expect-unchanged"]).await;
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert_eq!(last.terminate().await, Some(0));
}

/// F24
#[tokio::test(flavor = "multi_thread")]
async fn paused_writer_abandons_its_replay() {
    let app = worked_off(2_000).await;
    let whole = app.table().await;
    lose(&app).await;
    let mut former = app.launch([]);
    let takeover = async {
        eventually("the replay has begun", || async { (replayed(&app).await > 200).then_some(()) }).await;
        former.pause();
        let at_pause = replayed(&app).await;
        let standby = app.launch([]);
        eventually("the standby continues", || async { (replayed(&app).await > at_pause).then_some(()) }).await;
        former.resume();
        standby
    };
    let ((code, stdout, stderr), mut standby) = tokio::join!(app.command(&["replay", "--rate", "500"]), takeover);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(stdout.starts_with("2000 records"), "no record is counted twice: {stdout}");
    assert_eq!(app.table().await, whole);
    assert_eq!((former.terminate().await, standby.terminate().await), (Some(0), Some(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn replays_run_one_after_another() {
    let app = worked_off(60).await;
    let whole = app.table().await;
    lose(&app).await;
    let [first, second, third] = [["--from", "0:0"], ["--from", "1:0"], ["--from", "2020-01-01T00:00:00Z"]].map(|options| {
        let app = &app;
        async move { app.command(&[&["replay"], &options[..]].concat()).await }
    });
    let requested = async {
        let count = "SELECT count() FROM replays FINAL WHERE status = 'waiting'";
        let is_there = async || app.clickhouse.query(count).fetch_one::<u64>().await.unwrap() == 3;
        eventually("all are requested", || async { is_there().await.then_some(()) }).await;
        app.worker()
    };
    let (first, second, third, worker) = tokio::join!(first, second, third, requested);
    for (code, stdout, stderr) in [first, second, third] {
        assert_eq!(code, Some(0), "{stdout}{stderr}");
    }
    worker.stop().await;
    assert_eq!(app.table().await, whole);
    let overlapping =
        "SELECT count() FROM replays AS a FINAL CROSS JOIN replays AS b FINAL WHERE a.requested < b.requested AND a.at > b.at";
    assert_eq!(app.clickhouse.query(overlapping).fetch_one::<u64>().await.unwrap(), 0, "the oldest is processed first");
}

#[tokio::test(flavor = "multi_thread")]
async fn replay_fails_if_it_kills_every_writer() {
    let app = worked_off(12).await;
    let dying = async {
        for _ in 0..5 {
            app.crash_at("before_replay").await;
        }
        app.worker()
    };
    let ((code, _, stderr), worker) = tokio::join!(app.command(&["replay"]), dying);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("the replay failed: 5 writers stopped"), "{stderr}");
    app.put(&[(0, record(1, NEW_YEAR_US, &[event(12)]))]).await;
    app.caught_up().await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replay_requires_dead_letters_for_unreadable_records() {
    let app = worked_off(30).await;
    issue(&app.stores.pool, "ctx_gone", 9, session(1), None, NEW_YEAR_US + 1).await;
    // The host of a click without a URL comes from its token's link, so without the token its key can't be computed.
    let mut without_url = by_token(41, "ctx_gone");
    (without_url["content_url"], without_url["site"]) = (json!(null), json!(""));
    let clicks = [by_token(40, "ctx_gone"), without_url, by_token(42, "ctx_unknown")];
    app.put(&clicks.map(|click| (0, record(REPORTER, NEW_YEAR_US, &[click])))).await;
    app.log.put(0, b"poison").await;
    app.process_all().await;
    let whole = app.table().await;
    // A dry run also looks up tokens.
    for ((code, stdout, stderr), did) in [
        (app.command(&["replay", "--dry-run"]).await, "nothing was stored"),
        (app.replay(&["--expect-unchanged"]).await, "0 rows of events and 0 rows of reports changed"),
    ] {
        assert_eq!(code, Some(0), "both have a dead letter: {stderr}");
        let line = format!("34 records with 43 events were read; {did}; 2 records are unreadable, 0 quarantined");
        assert_eq!(stdout.lines().next(), Some(line.as_str()));
    }
    sqlx::query("DELETE FROM click_tokens").execute(&app.stores.pool).await.unwrap();
    let (code, stdout, stderr) = app.replay(&[]).await;
    assert_eq!(code, Some(1), "{stdout}");
    assert!(stderr.contains("2 records can't be read and have no dead letter"), "{stderr}");
    assert!(stderr.contains("the click token is unknown"), "{stderr}");
    assert_eq!((app.table().await, app.log.dead_letters().await.len()), (whole, 2), "a replay sends no dead letter");
}

#[tokio::test(flavor = "multi_thread")]
async fn does_not_decode_quarantined_records() {
    let app = worked_off(6).await;
    let mut bad = event(99);
    bad["data"] = json!("deadly-record:abort");
    let poison = record(1, NEW_YEAR_US, &[bad]).to_string();
    let origin = app.log.put(0, poison.as_bytes()).await;
    app.log.put_dead_letter(&origin, "quarantined: writers died while they decoded it", poison.as_bytes()).await;
    app.empty().await;
    app.process_all().await;
    let (code, stdout, stderr) = app.replay(&["--expect-unchanged"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("0 records are unreadable, 1 quarantined"), "{stdout}");
}
