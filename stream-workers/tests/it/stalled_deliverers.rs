//! A deliverer whose PostgreSQL stops responding in the middle of a statement, and one that is paused between a lease and its attempt (F18,
//! W8).

use crate::delivery_fixture::{DeliveryFixture, delivering};
use crate::metrics::wait_for_lines;
use crate::recording_receiver::RecordingReceiver;
use crate::stalled_network::StalledNetwork;
use service_kit::databases;
use service_kit::settings::PostgresSettings;
use service_kit::testing::{eventually, free_address};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;
use stream_workers::deliver::ClockOffset;
use tokio::task::JoinSet;
use uuid::Uuid;

const APPLICATION: &str = "deliverer";
/// Blocks all of the deliverer's statements until it is rolled back.
const LOCK: &str = "LOCK TABLE webhook_queue IN ACCESS EXCLUSIVE MODE";

/// Waits until this number of the deliverer's statements wait for a lock.
async fn waits(office: &DeliveryFixture, statements: i64) {
    eventually("statements are in flight", || async {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND datname = current_database() \
                       AND wait_event_type = 'Lock'";
        let waiting: i64 = sqlx::query_scalar(waiting).bind(APPLICATION).fetch_one(&office.pool).await.unwrap();
        (waiting >= statements).then_some(())
    })
    .await;
}

/// Runs as many statements as a pool has connections, and abandons all of them.
#[tokio::test(flavor = "multi_thread")]
async fn f18_hanging_connections_are_removed_from_the_pool() {
    let office = DeliveryFixture::new().await;
    let network = StalledNetwork::before(&office.stores.postgres.database_url).await;
    let through = PostgresSettings { database_url: network.url(&office.stores.postgres.database_url, APPLICATION) };
    let pool = databases::postgres(&through).unwrap();
    let mut lock = office.pool.begin().await.unwrap();
    sqlx::query(LOCK).execute(&mut *lock).await.unwrap();
    let mut asked = JoinSet::new();
    for _ in 0..pool.options().get_max_connections() {
        let pool = pool.clone();
        asked.spawn(async move { sqlx::query("SELECT FROM webhook_queue").execute(&pool).await.map(drop) });
    }
    waits(&office, pool.options().get_max_connections().into()).await;
    network.swallow_connections();
    asked.shutdown().await;
    lock.rollback().await.unwrap();
    eventually("the pool responds again", || async { sqlx::query("SELECT 1").execute(&pool).await.ok() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f18_claims_deliveries_again_after_a_lost_response() {
    let (office, _inbox, endpoint) = RecordingReceiver::with_endpoint(|_| Some(204)).await;
    let network = StalledNetwork::before(&office.stores.postgres.database_url).await;
    let mut settings = office.settings();
    settings.postgres.database_url = network.url(&settings.postgres.database_url, APPLICATION);
    let deliverer = delivering(settings, ClockOffset::default());
    office.wait_until_delivered(&[office.enqueue(&endpoint).await]).await;
    for _ in 0..2 {
        let mut lock = office.pool.begin().await.unwrap();
        sqlx::query(LOCK).execute(&mut *lock).await.unwrap();
        waits(&office, 1).await;
        network.swallow_connections();
        lock.rollback().await.unwrap();
        office.wait_until_delivered(&[office.enqueue(&endpoint).await]).await;
    }
    deliverer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f18_unconfirmed_outcomes_count_once() {
    let office = DeliveryFixture::new().await;
    let (inbox, release) = RecordingReceiver::held(&office, usize::MAX, |_| 204).await;
    let endpoint = office.endpoint(&inbox.server).await;
    let network = StalledNetwork::before(&office.stores.postgres.database_url).await;
    let mut ids = office.enqueue_all(&endpoint, 2).await;
    let metrics = free_address().to_string();
    let settings = [
        ("DATABASE_URL", network.url(&office.stores.postgres.database_url, APPLICATION)),
        ("TELEMETRY_METRICS_LISTEN", metrics.clone()),
        // An organization gets two of four lanes.
        ("TELEMETRY_DELIVERIES_AT_ONCE", "4".to_owned()),
        ("TELEMETRY_DELIVERY_LEASE", "120".to_owned()),
    ];
    let mut process = office.process_with(&settings).await;
    inbox.wait_for(2).await;
    let mut lock = office.pool.begin().await.unwrap();
    sqlx::query("SELECT FROM webhook_queue WHERE delivery_id = ANY($1) FOR UPDATE").bind(&ids).execute(&mut *lock).await.unwrap();
    release.store(true, Ordering::SeqCst);
    waits(&office, 2).await;
    network.swallow_connections();
    lock.rollback().await.unwrap();
    // Both of the organization's lanes are in use until the deliverer knows the outcome.
    ids.push(office.enqueue(&endpoint).await);
    office.wait_until_delivered(&ids).await;
    let expected = [
        "webhook_attempts_total{outcome=\"delivered\"} 3",
        "webhook_deliveries_delivered_total 3",
        "webhook_leases_lost_total 0",
        "slots_taken{pool=\"webhooks\"} 0",
    ];
    wait_for_lines(&metrics, &expected).await;
    let arrived: Vec<Uuid> = inbox.requests().iter().map(crate::recording_receiver::ReceivedRequest::id).collect();
    assert_eq!((arrived.len(), arrived.into_iter().collect::<BTreeSet<_>>()), (3, ids.into_iter().collect()), "each once");
    assert_eq!(process.terminate().await, Some(0), "{}", process.stderr());
}

/// Exit code 0 also means that it took less than ten seconds. A slower drain exits with another code.
#[tokio::test(flavor = "multi_thread")]
async fn f18_stops_in_time_without_postgres() {
    let office = DeliveryFixture::new().await;
    let (inbox, release) = RecordingReceiver::held(&office, usize::MAX, |_| 204).await;
    let endpoint = office.endpoint(&inbox.server).await;
    let network = StalledNetwork::before(&office.stores.postgres.database_url).await;
    office.enqueue(&endpoint).await;
    let metrics = free_address().to_string();
    let url = network.url(&office.stores.postgres.database_url, APPLICATION);
    let mut process = office.process_with(&[("DATABASE_URL", url), ("TELEMETRY_METRICS_LISTEN", metrics.clone())]).await;
    inbox.wait_for(1).await;
    wait_for_lines(&metrics, &["webhook_claims_failing 0", "slots_taken{pool=\"webhooks\"} 1"]).await;
    let mut lock = office.pool.begin().await.unwrap();
    sqlx::query(LOCK).execute(&mut *lock).await.unwrap();
    release.store(true, Ordering::SeqCst);
    // These statements claim due deliveries and store the attempt's outcome.
    waits(&office, 2).await;
    network.swallow_everything();
    lock.rollback().await.unwrap();
    wait_for_lines(&metrics, &["webhook_claims_failing 1"]).await;
    assert_eq!(process.terminate().await, Some(0), "{}", process.stderr());
}

/// The process gets the lease's response seconds later, when the endpoint is disabled.
#[tokio::test(flavor = "multi_thread")]
async fn w8_paused_deliverer_releases_an_expired_lease() {
    let (office, inbox, endpoint) = RecordingReceiver::with_endpoint(|_| Some(204)).await;
    let url = format!("{}?application_name={APPLICATION}", office.stores.postgres.database_url);
    // Long enough not to expire before the process continues.
    let settings = [("DATABASE_URL", url), ("TELEMETRY_DELIVERY_LEASE", "600".to_owned())];
    let mut process = office.process_with(&settings).await;
    let id = loop {
        let mut lock = office.pool.begin().await.unwrap();
        sqlx::query(LOCK).execute(&mut *lock).await.unwrap();
        waits(&office, 1).await;
        process.pause();
        let id = office.enqueue_in(&mut *lock, &endpoint).await;
        lock.commit().await.unwrap();
        // A claim that the server has just canceled has not seen it, so try again.
        tokio::time::sleep(Duration::from_millis(500)).await;
        if office.delivery_state(id).await.lease.is_some() {
            break id;
        }
        process.resume();
        office.wait_until_delivered(&[id]).await;
    };
    let before = inbox.requests().len();
    office.disable(&endpoint).await;
    // Longer than the maximum age of a lease at the start of its attempt.
    tokio::time::sleep(Duration::from_secs(6)).await;
    process.resume();
    let standing = office.wait_for_state("the lease is released", id, |standing| standing.lease.is_none()).await;
    assert_eq!((standing.attempts, standing.last_attempt_at), (0, None), "{standing:?}");
    assert_eq!(process.terminate().await, Some(0), "{}", process.stderr());
    assert_eq!(inbox.requests().len(), before, "a request was sent to a disabled endpoint");
}
