//! C7 and F26: `telemetry stream-workers replay` by the real binary, live, twice, in parts.

use crate::clicks::{REPORTER, by_token, issue, session};
use crate::test_app::{NEW_YEAR_US, PARTITIONS, TestApp, event, record};
use serde_json::{Value, json};
use service_kit::testing::eventually;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Records of organisation 1 and 2 in turn, each with a retrieval and, every third time, a repeat.
fn stream(records: u128) -> Vec<(i32, Value)> {
    (0..records)
        .map(|n| {
            let events = if n.is_multiple_of(3) { vec![event(n), event(n)] } else { vec![event(n)] };
            let at = NEW_YEAR_US + i64::try_from(n).unwrap();
            (i32::try_from(n).unwrap() % PARTITIONS, record(1 + n % 2, at, &events))
        })
        .collect()
}

pub(crate) async fn worked_off(records: u128) -> TestApp {
    let app = TestApp::new().await;
    app.put(&stream(records)).await;
    app.work_off().await;
    app
}

/// The figure of a table line of `replay`: before, after, difference.
pub(crate) fn figures<'a>(stdout: &'a str, name: &str) -> Vec<&'a str> {
    let line = stdout.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} is counted:\n{stdout}")).split_whitespace().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_of_what_is_there_changes_nothing_twice_and_a_dry_one_inserts_nothing() {
    let app = worked_off(120).await;
    let before = (app.table().await, app.not_stored().await);
    let rows = app.raw_rows().await;
    let (code, stdout, stderr) = app.command(&["replay", "--dry-run"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        stdout.starts_with("120 records with 160 events were read; 120 observations would be inserted, and nothing was;"),
        "{stdout}"
    );
    assert_eq!(app.raw_rows().await, rows);
    for _ in 0..2 {
        let (code, stdout, stderr) = app.command(&["replay", "--expect-unchanged", "--rate", "1000000"]).await;
        assert_eq!(code, Some(0), "{stderr}");
        assert!(stdout.starts_with("120 records with 160 events were read; 120 observations were inserted;"), "{stdout}");
        assert_eq!(figures(&stdout, "events content_retrieved"), ["120", "120", "+0"]);
        assert_eq!((app.table().await, app.not_stored().await), before);
    }
    assert!(app.raw_rows().await > rows || app.raw_rows().await == 120, "it did insert");
}

/// What the gateway has left to look up is looked up in a dry run too: its figures are those of the run that follows.
#[tokio::test(flavor = "multi_thread")]
async fn a_dry_replay_counts_what_a_real_one_inserts() {
    let app = TestApp::new().await;
    issue(&app.stores.pool, "ctx_good", 9, session(1), Some("bot"), NEW_YEAR_US + 1).await;
    let events = [by_token(1, "ctx_good"), by_token(2, "ctx_unknown")];
    app.put(&events.map(|event| (0, record(REPORTER, NEW_YEAR_US, &[event])))).await;
    app.work_off().await;
    for (options, did) in [(&["replay", "--dry-run"][..], "would be inserted, and nothing was"), (&["replay"], "were inserted")] {
        let (code, stdout, stderr) = app.command(options).await;
        assert_eq!(code, Some(0), "{stderr}");
        let line = format!("2 records with 2 events were read; 1 observations {did}; 1 records are unreadable, 0 quarantined");
        assert_eq!(stdout.lines().next(), Some(line.as_str()));
    }
    assert_eq!(app.visible().await, ["event-000001"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_restores_what_the_store_has_lost_in_its_range_and_of_its_organisation_alone() {
    let app = worked_off(120).await;
    let whole = app.table().await;
    let lose = || async {
        app.clickhouse.query("TRUNCATE TABLE observations").execute().await.unwrap();
    };
    // By offsets: ten records of partition 2, and none of another.
    lose().await;
    let (code, stdout, stderr) = app.command(&["replay", "--from", "2:5", "--to", "2:15"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(figures(&stdout, "observations"), ["0", "10", "+10"]);
    let expected: Vec<String> = (5..15).map(|n| format!("event-{:06}", 2 + n * PARTITIONS)).collect();
    assert_eq!(app.visible().await, expected);
    // What is missing can be made an error; the rest is there already.
    let (code, _, stderr) = app.command(&["replay", "--from", "2:5,3:0", "--expect-unchanged"]).await;
    assert_eq!(code, Some(1));
    assert!(stderr.contains("surprise: the store lacked something of what was replayed"), "{stderr}");
    // By organisation.
    lose().await;
    let org = uuid::Uuid::from_u128(2).to_string();
    let (code, stdout, stderr) = app.command(&["replay", "--org", &org]).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.starts_with("120 records with 80 events"), "{stdout}");
    assert_eq!(app.visible().await, (0..60).map(|n| format!("event-{:06}", 2 * n + 1)).collect::<Vec<_>>());
    // By time: nothing is younger than tomorrow, all is older.
    let tomorrow =
        (chrono::DateTime::from_timestamp_millis(NEW_YEAR_US / 1_000).unwrap() + chrono::TimeDelta::days(36_500)).to_rfc3339();
    let (_, stdout, _) = app.command(&["replay", "--from", &tomorrow]).await;
    assert!(stdout.starts_with("0 records"), "{stdout}");
    let (code, _, stderr) = app.command(&["replay", "--from", "2020-01-01T00:00:00Z", "--to", &tomorrow]).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(app.table().await, whole);
}

/// ClickHouse remembers blocks by their tokens also when it has lost their rows.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_lost_again_after_a_replay_is_restored_again() {
    let app = worked_off(60).await;
    let whole = app.table().await;
    for _ in 0..3 {
        let lose = "ALTER TABLE observations DELETE WHERE event_id < 'event-000040' SETTINGS mutations_sync = 1";
        app.clickhouse.query(lose).execute().await.unwrap();
        assert_eq!(app.visible().await.len(), 20);
        let (code, stdout, stderr) = app.command(&["replay"]).await;
        assert_eq!(code, Some(0), "{stderr}");
        assert_eq!(figures(&stdout, "observations"), ["20", "60", "+40"]);
        assert_eq!(app.table().await, whole);
    }
}

/// C7: what is closed never moves while everything is replayed under live traffic.
#[tokio::test(flavor = "multi_thread")]
async fn closed_ranges_are_bit_identical_at_every_poll_of_a_replay_under_live_traffic() {
    const CLOSED: u128 = 3_000;
    let app = Arc::new(worked_off(CLOSED).await);
    let worker = app.worker();
    let stop = CancellationToken::new();
    let (writing, stopped) = (Arc::clone(&app), stop.clone());
    let live = tokio::spawn(async move {
        let mut written = 0_u128;
        while !stopped.is_cancelled() {
            // New events of today, and repeats of closed ones.
            let records: Vec<_> = (0..20)
                .map(|n| {
                    let now_us = NEW_YEAR_US + 86_400_000_000 + i64::try_from(written + n).unwrap();
                    let key = if n < 10 { CLOSED + 10 * (written / 20) + n } else { (written + n) % CLOSED };
                    (i32::try_from(n).unwrap() % PARTITIONS, record(1 + key % 2, now_us, &[event(key)]))
                })
                .collect();
            writing.put(&records).await;
            written += 20;
        }
        CLOSED + written / 2
    });
    let closed = format!(
        "SELECT toString(groupArray(tuple(*))) FROM (SELECT * FROM observations FINAL \
        WHERE received_at < fromUnixTimestamp64Micro({}) ORDER BY site, event_key, org_id, observer)",
        NEW_YEAR_US + 86_400_000_000
    );
    let read = || async { app.clickhouse.query(&closed).fetch_one::<String>().await.unwrap() };
    let before = read().await;
    let mut polls = 0;
    let replaying = async {
        for _ in 0..2 {
            let (code, stdout, stderr) = app.command(&["replay", "--rate", "2000"]).await;
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
    assert_eq!(app.visible().await.len() as u128, keys, "and live traffic is all there, once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_that_meets_what_it_cannot_bring_about_ends_with_an_error() {
    let app = worked_off(30).await;
    // On the log behind the worker's back: nobody has set it aside.
    let origin = app.log.put(0, b"poison").await;
    let (code, _, stderr) = app.command(&["replay"]).await;
    assert_eq!(code, Some(1));
    assert!(
        stderr
            .contains(&format!("surprise: 1 records cannot be read and are not among the rejected ones ({origin}: not a record")),
        "{stderr}"
    );
    app.work_off().await;
    let (code, stdout, stderr) = app.command(&["replay", "--expect-unchanged"]).await;
    assert_eq!(code, Some(0), "once it is set aside it is none: {stderr}");
    assert!(stdout.contains("; 1 records are unreadable, 0 quarantined"), "{stdout}");
    assert_eq!(app.log.set_aside().await.len(), 1, "and a replay sets nothing aside again");

    // Figures that fall while a replay runs: of a row that is not on the log, and that a replay cannot bring back.
    let before = app.visible().await;
    // What the replays before have brought again would look like this one under way.
    app.clickhouse.query("OPTIMIZE TABLE observations FINAL").execute().await.unwrap();
    let stray = "INSERT INTO observations (site, event_key, event_id, event_type, version) \
        VALUES ('com.example', 999999, 'stray', 'content_retrieved', 18446744073709551615)";
    app.clickhouse.query(stray).execute().await.unwrap();
    let dropping = async {
        eventually("the replay is under way", || async { (app.raw_rows().await > 31).then_some(()) }).await;
        app.clickhouse
            .query("ALTER TABLE observations DELETE WHERE event_id = 'stray' SETTINGS mutations_sync = 1")
            .execute()
            .await
            .unwrap();
    };
    let ((code, _, stderr), ()) = tokio::join!(app.command(&["replay", "--rate", "4"]), dropping);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("events fell from 31 to 30"), "{stderr}");
    assert_eq!(app.visible().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_kills_is_left_out_of_a_replay_once_it_is_quarantined() {
    let app = worked_off(6).await;
    let mut bad = event(99);
    bad["data"] = json!("deadly-record:abort");
    let poison = record(1, NEW_YEAR_US, &[bad]).to_string();
    let origin = app.log.put(0, poison.as_bytes()).await;
    let (code, ..) = app.command(&["replay"]).await;
    assert_eq!(code, None, "it kills a replay as well");
    app.log.put_aside(&origin, "quarantined: 3 processes died while they decoded it", poison.as_bytes()).await;
    let (code, stdout, stderr) = app.command(&["replay", "--expect-unchanged"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("0 records are unreadable, 1 quarantined"), "{stdout}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_has_help_and_refuses_what_it_does_not_know() {
    let app = TestApp::new().await;
    for command in
        [&["replay"][..], &["rebuild"], &["rejected"], &["rejected", "list"], &["rejected", "show"], &["rejected", "retry"]]
    {
        let (code, help, stderr) = app.command(&[command, &["--help"]].concat()).await;
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{command:?}");
        assert!(help.contains("Usage: stream-workers"), "{help}");
        let (code, _, stderr) = app.command(&[command, &["--unknown"]].concat()).await;
        assert_eq!((code, stderr.trim().lines().count()), (Some(2), 1), "{command:?}: {stderr}");
        assert!(stderr.contains("--unknown"), "{stderr}");
    }
    for bad in
        [&["replay", "--from", "yesterday"][..], &["replay", "--rate", "0"], &["replay", "--org", "me"], &["rejected", "retry"]]
    {
        let (code, _, stderr) = app.command(bad).await;
        assert_eq!((code, stderr.trim().lines().count()), (Some(2), 1), "{bad:?}: {stderr}");
    }
}
