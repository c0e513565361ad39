//! Runs every read over ten periods, from ten minutes to everything, with the largest pages. Prints the status, the time and the
//! statements' memory. No read may be rejected for its size.

use super::history::Span;
use super::{DAY_MS, OTHERS};
use crate::client::{Connection, Exchange};
use hyper::header::HeaderValue;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const MINUTE_MS: i64 = DAY_MS / 24 / 60;
/// Names of the periods, and their lengths in minutes. The last one covers everything.
const LENGTHS: [(&str, i64); 10] = [
    ("10 min", 10),
    ("1 h", 60),
    ("6 h", 6 * 60),
    ("1 d", 24 * 60),
    ("3 d", 3 * 24 * 60),
    ("7 d", 7 * 24 * 60),
    ("30 d", 30 * 24 * 60),
    ("90 d", 90 * 24 * 60),
    ("180 d", 180 * 24 * 60),
    ("all", 1_001 * 24 * 60),
];
/// The bench's reads with pages of 1,000, and the series by hour where the length permits it.
const LARGEST: [(&str, &str); 5] = [
    ("summary", "/content-owners/summary?"),
    ("events, 1,000", "/content-owners/events?limit=1000&"),
    ("urls, 1,000", "/content-owners/urls?limit=1000&"),
    ("series by day and agent", "/content-owners/series?by=day&split=agent&"),
    ("corroboration, 1,000", "/content-owners/corroboration?limit=1000&"),
];
const LOOK: Duration = Duration::from_millis(20);

/// Prints a line per read and period.
pub(super) async fn measure(
    connection: &mut Connection,
    key: &HeaderValue,
    client: &clickhouse::Client,
    span: Span,
) -> anyhow::Result<()> {
    println!("\n{:>8}  {:34} {:>10} {:>10} {:>10}", "window", "read", "status", "ms", "MB held");
    let held = Arc::new(AtomicU64::new(0));
    let looking = tokio::spawn(sample_memory(client.clone(), Arc::clone(&held)));
    for (name, minutes) in LENGTHS {
        for (what, path) in LARGEST.iter().chain(&OTHERS) {
            let path = format!("{path}{}", span.window(minutes * MINUTE_MS, |free| free.end / 2));
            held.store(0, Ordering::Relaxed);
            let begun = Instant::now();
            let status = match connection.get(&path, key).await {
                Exchange::Responded(answer) => answer.status.to_string(),
                _ => "none".to_owned(),
            };
            let (ms, megabytes) = (begun.elapsed().as_millis(), held.load(Ordering::Relaxed) / 1_000_000);
            println!("{name:>8}  {what:34} {status:>10} {ms:>10} {megabytes:>10}");
        }
    }
    looking.abort();
    Ok(())
}

/// Records the maximum memory of any statement on the database until it is aborted.
async fn sample_memory(client: clickhouse::Client, held: Arc<AtomicU64>) -> anyhow::Result<()> {
    let statement = "SELECT toUInt64(max(greatest(peak_memory_usage, 0))) FROM system.processes \
                     WHERE current_database = currentDatabase() AND query NOT LIKE '%system.processes%'";
    loop {
        held.fetch_max(client.query(statement).fetch_one().await?, Ordering::Relaxed);
        tokio::time::sleep(LOOK).await;
    }
}
