//! Every read over ten windows, from an hour to everything, with the largest pages: that none is refused for its size, how long
//! it took and how much memory its statements held.
//!
//! Must not be a part of the timings: the store is asked for its memory fifty times a second meanwhile.

use super::{BEGIN_MS, DAY_MS, OTHERS, YEAR_MS, instant};
use crate::client::{Connection, Exchange};
use hyper::header::HeaderValue;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// In hours; the last is everything.
const HOURS: [i64; 10] = [1, 6, 24, 72, 168, 288, 720, 2_160, 4_380, 8_760];
const HOUR_MS: i64 = DAY_MS / 24;
/// Those of the bench with pages of a thousand, and the series in hours where its length allows.
const LARGEST: [(&str, &str); 5] = [
    ("summary", "/content-owners/summary?"),
    ("events, 1,000", "/content-owners/events?limit=1000&"),
    ("urls, 1,000", "/content-owners/urls?limit=1000&"),
    ("series by day and agent", "/content-owners/series?by=day&split=agent&"),
    ("corroboration, 1,000", "/content-owners/corroboration?limit=1000&"),
];
/// Between two looks at what the statements hold.
const LOOK: Duration = Duration::from_millis(20);

/// Prints a line for each read and window.
pub(super) async fn ask(connection: &mut Connection, key: &HeaderValue, client: &clickhouse::Client) -> anyhow::Result<()> {
    println!("\n{:>8}  {:34} {:>10} {:>10} {:>10}", "hours", "read", "status", "ms", "MB held");
    let held = Arc::new(AtomicU64::new(0));
    let looking = tokio::spawn(look(client.clone(), Arc::clone(&held)));
    for hours in HOURS {
        for (what, path) in LARGEST.iter().chain(&OTHERS) {
            let path = format!("{path}{}", window(hours));
            held.store(0, Ordering::Relaxed);
            let begun = Instant::now();
            let status = match connection.get(&path, key).await {
                Exchange::Answered(answer) => answer.status.to_string(),
                _ => "none".to_owned(),
            };
            let (ms, megabytes) = (begun.elapsed().as_millis(), held.load(Ordering::Relaxed) / 1_000_000);
            println!("{hours:>8}  {what:34} {status:>10} {ms:>10} {megabytes:>10}");
        }
    }
    looking.abort();
    Ok(())
}

/// The window in the middle of the year; none for the whole of it.
fn window(hours: i64) -> String {
    if hours * HOUR_MS >= YEAR_MS {
        return String::new();
    }
    let since = BEGIN_MS + (YEAR_MS - hours * HOUR_MS) / 2;
    format!("since={}&until={}", instant(since), instant(since + hours * HOUR_MS))
}

/// Keeps the most that any statement on the database has held, until it is stopped.
async fn look(client: clickhouse::Client, held: Arc<AtomicU64>) -> anyhow::Result<()> {
    let statement = "SELECT toUInt64(max(greatest(peak_memory_usage, 0))) FROM system.processes \
                     WHERE current_database = currentDatabase() AND query NOT LIKE '%system.processes%'";
    loop {
        held.fetch_max(client.query(statement).fetch_one().await?, Ordering::Relaxed);
        tokio::time::sleep(LOOK).await;
    }
}
