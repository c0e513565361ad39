//! `telemetry stream-workers rebuild` by the real binary: an empty store is filled from the log, and F27, a log whose beginning is gone.

use crate::replays::{figures, worked_off};
use crate::test_app::{NEW_YEAR_US, event, record};
use rdkafka::Offset;
use service_kit::testing::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_store_is_rebuilt_from_the_log_and_a_store_in_use_is_not_touched() {
    let app = worked_off(200).await;
    let whole = app.table().await;
    let (code, _, stderr) = app.command(&["rebuild"]).await;
    assert_eq!(code, Some(1));
    assert!(
        stderr.contains(
            "observations holds 200 rows: to read the log again into a table in use, run `telemetry stream-workers replay`"
        ),
        "{stderr}"
    );
    assert_eq!(stderr.trim().lines().count(), 1);

    let database = &app.stores.clickhouse.clickhouse_database;
    app.clickhouse.query(&format!("DROP DATABASE {database} SYNC")).execute().await.unwrap();
    let (code, stdout, stderr) = app.command(&["rebuild"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(figures(&stdout, "observations"), ["0", "200", "+200"]);
    assert!(stderr.contains(&format!("{database}.observations is rebuilt: 200 observations")), "{stderr}");
    assert_eq!(app.table().await, whole);

    // A worker that waits for the table inserts as soon as there is one: that is no table in use.
    let mut worker = app.process().await;
    app.put(&[(0, record(1, NEW_YEAR_US, &[event(200)]))]).await;
    app.log.caught_up(&app.group()).await;
    app.clickhouse.query(&format!("DROP DATABASE {database} SYNC")).execute().await.unwrap();
    app.put(&[(0, record(1, NEW_YEAR_US, &[event(201)]))]).await;
    eventually("the worker waits for the table", || async {
        worker.stderr().contains("telemetry stream-workers prepare").then_some(())
    })
    .await;
    let (code, _, stderr) = app.command(&["rebuild"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    app.log.caught_up(&app.group()).await;
    assert_eq!(app.visible().await.len(), 202);
    assert_eq!(worker.terminate().await, Some(0));
}

/// F27: what retention has taken is said, and a rebuild does not pass for whole without it.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_whose_beginning_is_gone_is_said_to_be_so() {
    let app = worked_off(120).await;
    app.log.drop_before([(4, Offset::Offset(3))]).await;

    let (code, stdout, stderr) = app.command(&["replay"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.starts_with("117 records"), "{stdout}");
    assert!(stderr.contains("partition 4 of the log begins at offset 3"), "{stderr}");
    let (code, _, stderr) = app.command(&["replay", "--from", "4:1"]).await;
    assert_eq!(code, Some(1));
    assert!(stderr.contains("--from 4:1: the log has partition 4 from 3 to 20; choose an offset within"), "{stderr}");

    app.clickhouse.query("TRUNCATE TABLE observations").execute().await.unwrap();
    let (code, _, stderr) = app.command(&["rebuild"]).await;
    assert_eq!(code, Some(1));
    assert!(stderr.contains("add --accept-gap to rebuild the rest"), "{stderr}");
    let (code, _, stderr) = app.command(&["rebuild", "--accept-gap"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(app.raw_rows().await, 117);
}
