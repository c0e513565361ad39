//! Deliverers are killed with `kill -9`, at critical and random moments. Every delivery arrives, and repeats are the same message (S7).

use crate::delivery_fixture::DeliveryFixture;
use crate::recording_receiver::{ReceivedRequest, RecordingReceiver};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use service_kit::testing::{TestProcess, eventually, random_seed, size};
use sqlx::{PgPool, Postgres, Transaction};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use uuid::Uuid;

const EACH: usize = 40;
/// Concurrent attempts, to two endpoints.
const LANES: usize = 8;
/// Statements that wait for a lock to store an attempt's outcome.
const WRITING: &str = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' \
                       AND query LIKE 'UPDATE webhook_queue SET status = $3%'";

/// The moment when a round's deliverer is killed.
#[derive(Clone, Copy, Debug, Default)]
enum Moment {
    #[default]
    Whenever,
    /// The receiver has read the request but not responded.
    Read,
    /// The response has arrived, and the attempt's outcome is about to be stored.
    Answered,
}

const MOMENTS: [Moment; 3] = [Moment::Answered, Moment::Read, Moment::Whenever];

/// Determines what the receiver does, and locks rows so that an attempt's outcome can't be stored.
struct Trap {
    pool: PgPool,
    moment: Mutex<Moment>,
    held: Mutex<Option<Transaction<'static, Postgres>>>,
}

impl Trap {
    async fn answer(&self) -> u16 {
        let moment = *self.moment.lock().await;
        match moment {
            Moment::Whenever => {}
            Moment::Read => std::future::pending().await,
            Moment::Answered => self.hold().await,
        }
        200
    }

    /// Locks the leased deliveries, so that storing their attempts' outcomes must wait.
    async fn hold(&self) {
        let mut held = self.held.lock().await;
        if held.is_none() {
            let mut transaction = self.pool.begin().await.unwrap();
            let leased = "SELECT FROM webhook_queue WHERE lease IS NOT NULL FOR UPDATE";
            sqlx::query(leased).execute(&mut *transaction).await.unwrap();
            *held = Some(transaction);
        }
    }

    /// Waits until an attempt's outcome is being stored, and kills the process. Also ends its statements in PostgreSQL, which would
    /// otherwise be executed for a client that is gone.
    async fn kill_writing(&self, process: &mut TestProcess) {
        let writing = async || -> i64 {
            let count = sqlx::AssertSqlSafe(format!("SELECT count(*) {WRITING}"));
            sqlx::query_scalar(count).fetch_one(&self.pool).await.unwrap()
        };
        eventually("the result of an attempt is being stored", || async { (writing().await > 0).then_some(()) }).await;
        process.kill_9().await;
        eventually("the statement has ended", || async {
            let end = sqlx::AssertSqlSafe(format!("SELECT pg_terminate_backend(pid) {WRITING}"));
            sqlx::query(end).execute(&self.pool).await.unwrap();
            (writing().await == 0).then_some(())
        })
        .await;
        self.held.lock().await.take().expect("the receiver holds the row").rollback().await.unwrap();
    }
}

/// `TEST_ROUNDS` sets the number of kills; by default three, one at each moment.
#[tokio::test(flavor = "multi_thread")]
async fn s7_killed_deliverers_do_not_lose_deliveries() {
    let mut random = StdRng::seed_from_u64(random_seed());
    let office = DeliveryFixture::new().await;
    let trap = Arc::new(Trap { pool: office.pool.clone(), moment: Mutex::default(), held: Mutex::default() });
    let set = Arc::clone(&trap);
    let inbox = RecordingReceiver::open_with(&office, move |_| {
        let trap = Arc::clone(&set);
        async move { trap.answer().await }
    })
    .await;
    let endpoints = [office.endpoint(&inbox.server).await, office.endpoint(&inbox.server).await];
    let (mut posted, mut answered_and_lost) = (Vec::new(), 0);
    for (round, moment) in (0..size("TEST_ROUNDS", 3)).zip(MOMENTS.into_iter().cycle()) {
        *trap.moment.lock().await = moment;
        let before = inbox.requests().len();
        for endpoint in &endpoints {
            posted.extend(office.enqueue_all(endpoint, EACH / 2).await);
        }
        let mut process = office.process().await;
        let most = if matches!(moment, Moment::Read) { LANES } else { EACH };
        match moment {
            Moment::Answered => trap.kill_writing(&mut process).await,
            Moment::Read | Moment::Whenever => {
                inbox.wait_for(before + random.random_range(1..=most)).await;
                tokio::time::sleep(Duration::from_millis(random.random_range(0..30))).await;
                process.kill_9().await;
            }
        }
        let sent: Vec<Uuid> = inbox.requests()[before..].iter().map(ReceivedRequest::id).collect();
        let count = "SELECT count(*) FROM webhook_queue WHERE status = 'pending' AND delivery_id = ANY($1)";
        let lost: i64 = sqlx::query_scalar(count).bind(&sent).fetch_one(&office.pool).await.unwrap();
        eprintln!(
            "round {round}, {moment:?}: killed with {} of {} sent, {lost} of them not yet recorded",
            sent.len(),
            posted.len()
        );
        assert!(lost > 0 || matches!(moment, Moment::Whenever), "round {round}: the deliverer died too late");
        answered_and_lost += if matches!(moment, Moment::Answered) { lost } else { 0 };
    }
    *trap.moment.lock().await = Moment::Whenever;
    let _last = office.process().await;
    office.wait_until_delivered(&posted).await;
    let letters = inbox.requests();
    let arrived: BTreeMap<Uuid, BTreeSet<&[u8]>> = letters.iter().fold(BTreeMap::new(), |mut arrived, letter| {
        arrived.entry(letter.id()).or_default().insert(&letter.body);
        arrived
    });
    let expected: BTreeSet<Uuid> = posted.iter().copied().collect();
    assert_eq!(arrived.keys().copied().collect::<BTreeSet<_>>(), expected, "exactly the posted deliveries arrive");
    assert!(arrived.values().all(|bodies| bodies.len() == 1), "repeats are the same bytes");
    let counted: i64 = sqlx::query_scalar("SELECT sum(attempts) FROM webhook_queue").fetch_one(&office.pool).await.unwrap();
    assert_eq!(usize::try_from(counted).unwrap(), posted.len(), "an attempt without a stored result does not count");
    let repeats = letters.len() - arrived.len();
    assert!(repeats >= usize::try_from(answered_and_lost).unwrap(), "attempts without a stored result are repeated");
    eprintln!("S7 {} deliveries, {} requests, {answered_and_lost} answered and lost", arrived.len(), letters.len());
}
