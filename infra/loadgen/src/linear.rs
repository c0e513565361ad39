//! What a body costs the gateway by its size: CPU at n, 2n, 4n … bytes, on every write route, for every shape and nesting.
//!
//! In this process and without a server: what is measured is everything a request goes through but its I/O.
//!
//! Must not judge: the test beside it counts bytes gone over, which no busy machine changes.

mod body;

pub use body::{LEVELS, Shape, body};

use crate::options::LinearOptions;
use crate::processes::thread_cpu;
use chrono::{DateTime, Utc};
use ingest_gateway::{Document, Limits, dry_run};
use schemas::log::LogRecord;
use service_kit::clock::Clock;
use std::time::Duration;

/// The figure to keep to (S14).
const MOST_GROWTH: f64 = 2.2;
/// CPU after which a body has been worked off often enough.
const ENOUGH: Duration = Duration::from_millis(20);

/// What the gateway makes of a body, down to the bytes of its record; none when it refuses it.
pub fn work_off(body: &[u8], document: Document, limits: &Limits, now: DateTime<Utc>) -> Option<Vec<u8>> {
    let record: LogRecord = dry_run(body, document, limits, now).ok()?;
    serde_json::to_vec(&record).ok()
}

/// Prints a line for each route, shape and nesting; answers how many.
pub fn run(options: &LinearOptions) -> usize {
    let (limits, now) = (Limits::default(), Clock::System.now());
    let sizes: Vec<usize> = std::iter::successors(Some(options.least_bytes), |bytes| Some(bytes * 2))
        .take_while(|bytes| *bytes <= options.most_bytes.min(limits.max_body_bytes))
        .collect();
    println!("CPU per body in µs (x: refused), by its bytes: {}", sizes.iter().map(|b| format!("{b:>10}")).collect::<String>());
    let (mut worst, mut lines) = ((0.0_f64, String::new()), 0);
    for (document, path) in Document::ALL {
        for (shape, levels) in Shape::ALL.into_iter().flat_map(|shape| LEVELS.map(|levels| (shape, levels))) {
            let name = format!("{path} {shape:?} {levels} levels");
            let (mut line, mut before, mut growth) = (String::new(), None, 0.0_f64);
            for bytes in &sizes {
                let body = body(document, shape, levels, *bytes);
                let is_taken = work_off(&body, document, &limits, now).is_some();
                let micros = cost(|| drop(work_off(&body, document, &limits, now)));
                line += &format!("{micros:>9.0}{}", if is_taken { ' ' } else { 'x' });
                // A body that a limit refuses may be cheaper than the one before it.
                growth = before.map_or(growth, |before: f64| growth.max(micros / before));
                before = Some(micros);
            }
            lines += 1;
            println!("{name:<44} {line}  grows at most {growth:.2}x a step");
            if growth > worst.0 {
                worst = (growth, name);
            }
        }
    }
    println!("largest step {:.2}x ({}); to keep to: {MOST_GROWTH}x", worst.0, worst.1);
    lines
}

/// The least CPU that one piece of work took, in microseconds.
fn cost(work: impl Fn()) -> f64 {
    let (begun, mut least) = (thread_cpu(), Duration::MAX);
    loop {
        let before = thread_cpu();
        work();
        let after = thread_cpu();
        least = least.min(after.saturating_sub(before));
        if after.saturating_sub(begun) >= ENOUGH {
            return least.as_secs_f64() * 1e6;
        }
    }
}
