//! Measures how a request's cost grows with its size: the CPU time at n, 2n, 4n … bytes for every route with a body and for click token
//! manifests, in every shape and nesting depth.
//!
//! It runs in this process without a server, and measures everything but I/O.

mod body;
mod routes;

pub use body::{LEVELS, Shape, body};
pub use routes::{Input, MeasuredRoute, measured_routes};

use crate::options::LinearOptions;
use crate::processes::thread_cpu;
use chrono::{DateTime, Utc};
use ingest_gateway::{Document, Limits, dry_run};
use schemas::log::LogRecord;
use service_kit::clock::Clock;
use std::hint::black_box;
use std::time::Duration;

/// Maximum growth when the size doubles (S14).
const MOST_GROWTH: f64 = 2.2;
/// CPU time after which a measurement ends.
const ENOUGH: Duration = Duration::from_millis(5);

/// Processes a body like the gateway, up to the serialized record. Returns `None` if the gateway would reject the body.
pub fn process(body: &[u8], document: Document, limits: &Limits, now: DateTime<Utc>) -> Option<Vec<u8>> {
    let record: LogRecord = dry_run(body, document, limits, now).ok()?;
    serde_json::to_vec(&record).ok()
}

/// Prints the cost of each route by shape and nesting. Returns the number of lines.
pub fn run(options: &LinearOptions) -> usize {
    let now = Clock::System.now();
    let sizes: Vec<usize> = std::iter::successors(Some(options.least_bytes), |bytes| Some(bytes * 2))
        .take_while(|bytes| *bytes <= options.most_bytes)
        .collect();
    println!("CPU per body in µs (x: rejected), by bytes: {}", sizes.iter().map(|b| format!("{b:>10}")).collect::<String>());
    let (mut worst, mut printed) = ((0.0_f64, String::new()), 0);
    for line in measured_routes() {
        for (shape, levels) in Shape::ALL.into_iter().flat_map(|shape| line.levels().iter().map(move |levels| (shape, *levels))) {
            let (costs, growth) = costs(&line, shape, levels, &sizes, now);
            let name = format!("{} {shape:?} {levels} levels", line.name);
            printed += 1;
            println!("{name:<88} {costs}  grows at most {growth:.2}x per step");
            if growth > worst.0 {
                worst = (growth, name);
            }
        }
    }
    println!("largest step {:.2}x ({}); limit: {MOST_GROWTH}x", worst.0, worst.1);
    printed
}

/// Returns the costs for all sizes that the route accepts, and the largest growth between two of them.
fn costs(line: &MeasuredRoute, shape: Shape, levels: usize, sizes: &[usize], now: DateTime<Utc>) -> (String, f64) {
    let (mut told, mut before, mut growth) = (String::new(), None, 0.0_f64);
    for bytes in sizes.iter().filter(|bytes| **bytes <= line.most_bytes()) {
        let input = line.input(shape, levels, *bytes);
        let is_taken = line.process(&input, now);
        let micros = cost(|| {
            black_box(line.process(&input, now));
        });
        told += &format!("{micros:>9.0}{}", if is_taken { ' ' } else { 'x' });
        // A body above a limit may be cheaper than a smaller one.
        growth = before.map_or(growth, |before: f64| growth.max(micros / before));
        before = Some(micros);
    }
    (told, growth)
}

/// Returns the minimum CPU time of a single run, in microseconds.
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
