//! C8 in the console: dead letters are copied to PostgreSQL, and an operator's retry restores a record once.

use crate::test_app::{NEW_YEAR_US, TestApp, Workers, event, record};
use service_kit::testing::eventually;

/// Returns the copies as (origin, reason, bytes, state), sorted by origin.
async fn letters(app: &TestApp) -> Vec<(String, String, i64, String)> {
    let listed = "SELECT origin, reason, bytes, CASE WHEN restored_as IS NOT NULL THEN 'restored' ELSE coalesce(refusal, 'open') END \
                  FROM dead_letters ORDER BY origin";
    sqlx::query_as(listed).fetch_all(&app.stores.pool).await.unwrap()
}

/// Requests a retry of every letter, waits until a worker has executed them, and returns the copies.
async fn retry_all(app: &TestApp) -> Vec<(String, String, i64, String)> {
    let request = "INSERT INTO dead_letter_retries SELECT id, now() FROM dead_letters \
                   ON CONFLICT (dead_letter_id) DO UPDATE SET requested_at = excluded.requested_at";
    sqlx::query(request).execute(&app.stores.pool).await.unwrap();
    let pending = "SELECT count(*) FROM dead_letters l JOIN dead_letter_retries r ON r.dead_letter_id = l.id WHERE restored_as IS NULL \
                   AND (tried_at IS DISTINCT FROM requested_at OR refusal LIKE 'the worker stopped%')";
    eventually("every retry is executed", || async {
        let pending: i64 = sqlx::query_scalar(pending).fetch_one(&app.stores.pool).await.unwrap();
        (pending == 0).then_some(())
    })
    .await;
    letters(app).await
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_retries_restore_a_record_once() {
    let app = Workers::start().await;
    let topic = &app.stores.kafka.topic;
    // An older worker rejected the readable record.
    let readable = record(1, NEW_YEAR_US, &[event(1), event(2)]).to_string();
    let [newer, deadly] = ["77", "78"].map(|offset| format!("{topic}/0/{offset}"));
    app.log.put_dead_letter(&newer, "record version 1 is newer than this worker's 0", readable.as_bytes()).await;
    app.log.put_dead_letter(&deadly, "quarantined: 3 workers stopped", readable.as_bytes()).await;
    let unreadable = app.log.put(1, b"{\"v\":1,").await;
    let worker = app.worker();
    let letters = eventually("the letters are copied", || async {
        let letters = letters(&app).await;
        (letters.len() == 3).then_some(letters)
    })
    .await;
    let (origins, states): (Vec<_>, Vec<_>) = letters.iter().map(|(origin, .., state)| (origin.clone(), state.as_str())).unzip();
    assert_eq!((origins, states), (vec![newer, deadly, unreadable], vec!["open"; 3]));
    assert_eq!((letters[0].1.as_str(), letters[0].2), ("record version 1 is newer than this worker's 0", readable.len() as i64));

    let letters = retry_all(&app).await;
    assert_eq!(letters[0].3, "restored");
    assert!(letters[1].3.starts_with("it could stop the worker; run "), "{letters:?}");
    assert!(letters[2].3.starts_with("not a record: "), "{letters:?}");
    app.caught_up().await;
    assert_eq!(app.visible().await, ["event-000001", "event-000002"]);

    let ends = async || app.progress().await.values().map(|(_, end)| end).sum::<i64>();
    let before = ends().await;
    assert_eq!(retry_all(&app).await, letters);
    assert_eq!(ends().await, before, "nothing else was put on the log");
    let (_, list, _) = app.command(&["rejected", "list"]).await;
    assert_eq!(list.matches("requeued as").count(), 1, "{list}");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_of_expired_dead_letters_are_deleted() {
    let app = Workers::start().await;
    let planted = "INSERT INTO dead_letters (id, origin, reason, rejected_at, bytes) \
                   SELECT gen_random_uuid(), 'old/0/' || hours, 'planted', now() - make_interval(hours => hours), 1 \
                   FROM generate_series(0, 2, 2) AS hours";
    sqlx::query(planted).execute(&app.stores.pool).await.unwrap();
    let unreadable = app.log.put(0, b"x").await;
    let worker = app.worker();
    let origins = eventually("the letter is copied", || async {
        let letters = letters(&app).await;
        letters.iter().any(|(origin, ..)| *origin == unreadable).then_some(letters)
    })
    .await;
    assert_eq!(
        origins.iter().filter(|(.., reason, _, _)| reason == "planted").count(),
        1,
        "another worker may have read it: {origins:?}"
    );
    worker.stop().await;
}
