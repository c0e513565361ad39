//! Stalls count in the latency, and every exchange has an outcome.

use crate::fake_service::{ResponseBehavior, run_context, start};
use loadgen::drive::{Arrivals, LoadResult, Pace, lock, run_load};
use loadgen::oracle::Fate;
use std::time::Duration;

const STALL: Duration = Duration::from_secs(1);
const STALLING: ResponseBehavior = ResponseBehavior { status: 201, stall: Some((STALL, STALL)) };

fn pace(arrivals: Arrivals) -> Pace {
    Pace { arrivals, duration: STALL * 3, max_requests: None }
}

async fn ridden(manner: ResponseBehavior, pace: Pace) -> LoadResult {
    let server = start(manner).await;
    run_load(&run_context(&server.url, Duration::from_secs(10)), pace).await
}

#[tokio::test(flavor = "multi_thread")]
async fn stalls_add_latency_to_every_due_request() {
    // The stall lasts one second of three. Two thirds of the requests in that second wait at least a third of it.
    let open = ridden(STALLING, pace(Arrivals::Open { per_second: 100.0, max_connections: 1_000 })).await;
    assert_eq!(open.tally.requests(Fate::Acked) + open.tally.never_left, 300, "the schedule does not wait for the service");
    assert!(open.tally.latency.quantile(0.9) > STALL / 2, "{:?}", open.tally.latency.quantile(0.9));
}

#[tokio::test(flavor = "multi_thread")]
async fn stalls_add_full_latency_without_free_connections() {
    let open = ridden(STALLING, pace(Arrivals::Open { per_second: 100.0, max_connections: 1 })).await;
    assert_eq!(open.tally.requests(Fate::Acked) + open.tally.never_left, 300);
    assert!(open.tally.latency.quantile(0.9) > STALL / 2, "{:?}", open.tally.latency.quantile(0.9));
    assert!(open.tally.service.quantile(0.9) < STALL / 2, "a closed loop would measure only one request of the stall");
}

#[tokio::test(flavor = "multi_thread")]
async fn unsent_requests_count_their_waiting_time() {
    let silent = ResponseBehavior { status: 201, stall: Some((Duration::ZERO, Duration::from_secs(3))) };
    let short = Pace { arrivals: Arrivals::Open { per_second: 100.0, max_connections: 1 }, duration: STALL, max_requests: None };
    let open = ridden(silent, short).await;
    assert_eq!(open.tally.never_left, 99);
    assert!(open.tally.latency.quantile(0.5) > STALL / 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn maps_every_status_to_an_outcome() {
    let ten = Pace { max_requests: Some(10), ..pace(Arrivals::Closed { connections: 2 }) };
    for (status, fate) in [
        (200, Fate::Acked),
        (201, Fate::Acked),
        (302, Fate::Unknown),
        (401, Fate::Refused),
        (422, Fate::Refused),
        (429, Fate::Refused),
        (500, Fate::Unknown),
        (503, Fate::Unknown),
    ] {
        let ridden = ridden(ResponseBehavior { status, stall: None }, ten).await;
        assert_eq!(ridden.tally.requests(fate), 10, "{status}");
        assert_eq!(ridden.tally.without_retry_after, if matches!(status, 429 | 503) { 10 } else { 0 }, "{status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn distinguishes_unsent_from_unanswered_requests() {
    let one = Pace { max_requests: Some(1), ..pace(Arrivals::Closed { connections: 1 }) };
    let nobody = run_load(&run_context("http://127.0.0.1:1", STALL), one).await;
    assert_eq!(nobody.tally.requests(Fate::Refused), 1, "{:?}", nobody.tally.answers);

    let server = start(ResponseBehavior { status: 201, stall: Some((Duration::ZERO, STALL * 30)) }).await;
    let course = run_context(&server.url, Duration::from_millis(200));
    let silent = run_load(&course, one).await;
    assert_eq!(silent.tally.requests(Fate::Unknown), 1, "{:?}", silent.tally.answers);
    let oracle = lock(&course.oracle);
    let (acked, possible) = oracle.bounds(0);
    assert_eq!((acked.total, possible.total), (0, 1));
}
