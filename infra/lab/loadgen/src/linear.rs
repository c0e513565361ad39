//! What a request costs by its size: CPU at n, 2n, 4n … bytes, on every route that takes a body and for the manifest of a click
//! token, for every shape and nesting.
//!
//! In this process and without a server: what is measured is everything a request goes through but its I/O.

mod body;
mod line;

pub use body::{LEVELS, Shape, body};
pub use line::{Input, Line, lines};

use crate::options::LinearOptions;
use crate::processes::thread_cpu;
use chrono::{DateTime, Utc};
use ingest_gateway::{Document, Limits, dry_run};
use schemas::log::LogRecord;
use service_kit::clock::Clock;
use std::hint::black_box;
use std::time::Duration;

/// The figure to keep to (S14).
const MOST_GROWTH: f64 = 2.2;
/// CPU after which a body has been worked off often enough.
const ENOUGH: Duration = Duration::from_millis(5);

/// What the gateway makes of a body, down to the bytes of its record; none when it refuses it.
pub fn work_off(body: &[u8], document: Document, limits: &Limits, now: DateTime<Utc>) -> Option<Vec<u8>> {
    let record: LogRecord = dry_run(body, document, limits, now).ok()?;
    serde_json::to_vec(&record).ok()
}

/// Prints what each route costs by shape and nesting; answers how many lines those are.
pub fn run(options: &LinearOptions) -> usize {
    let now = Clock::System.now();
    let sizes: Vec<usize> = std::iter::successors(Some(options.least_bytes), |bytes| Some(bytes * 2))
        .take_while(|bytes| *bytes <= options.most_bytes)
        .collect();
    println!("CPU per body in µs (x: refused), by its bytes: {}", sizes.iter().map(|b| format!("{b:>10}")).collect::<String>());
    let (mut worst, mut printed) = ((0.0_f64, String::new()), 0);
    for line in lines() {
        for (shape, levels) in Shape::ALL.into_iter().flat_map(|shape| line.levels().iter().map(move |levels| (shape, *levels))) {
            let (costs, growth) = costs(&line, shape, levels, &sizes, now);
            let name = format!("{} {shape:?} {levels} levels", line.name);
            printed += 1;
            println!("{name:<88} {costs}  grows at most {growth:.2}x a step");
            if growth > worst.0 {
                worst = (growth, name);
            }
        }
    }
    println!("largest step {:.2}x ({}); to keep to: {MOST_GROWTH}x", worst.0, worst.1);
    printed
}

/// What each size costs that the route takes, and the largest step between two of them.
fn costs(line: &Line, shape: Shape, levels: usize, sizes: &[usize], now: DateTime<Utc>) -> (String, f64) {
    let (mut told, mut before, mut growth) = (String::new(), None, 0.0_f64);
    for bytes in sizes.iter().filter(|bytes| **bytes <= line.most_bytes()) {
        let input = line.input(shape, levels, *bytes);
        let is_taken = line.work_off(&input, now);
        let micros = cost(|| {
            black_box(line.work_off(&input, now));
        });
        told += &format!("{micros:>9.0}{}", if is_taken { ' ' } else { 'x' });
        // A body that a limit refuses may be cheaper than the one before it.
        growth = before.map_or(growth, |before: f64| growth.max(micros / before));
        before = Some(micros);
    }
    (told, growth)
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
