//! A body's cost depends only on its size. It is counted in bytes that the gateway processes, which doesn't depend on the machine's load.
//! `cargo load -- linear` measures the same bodies in CPU time.

use chrono::{DateTime, Utc};
use ingest_gateway::{Document, Limits, dry_run, visited_bytes};
use loadgen::linear::{self, LEVELS, Shape, body, measured_routes};
use loadgen::options::LinearOptions;
use schemas::openapi::{self, Surface};
use std::collections::BTreeSet;

/// Maximum number of times that each byte is processed: parsed as body, list, event and object, checked, stripped, serialized.
const MOST_PASSES: f64 = 16.0;
/// Maximum growth when the size doubles.
const MOST_GROWTH: f64 = 2.2;

fn passes(document: Document, shape: Shape, levels: usize, bytes: usize) -> (bool, f64, u64) {
    let now: DateTime<Utc> = DateTime::from_timestamp(1_790_000_000, 0).expect("a valid time");
    let body = body(document, shape, levels, bytes);
    let before = visited_bytes();
    let is_taken = dry_run(&body, document, &Limits::default(), now).is_ok();
    let visited = visited_bytes() - before;
    #[expect(clippy::cast_precision_loss, reason = "a few million")]
    let each = visited as f64 / body.len() as f64;
    (is_taken, each, visited)
}

#[test]
fn a1_cost_per_byte_is_bounded_at_any_nesting() {
    let mut most: f64 = 0.0;
    for (document, path) in Document::ALL {
        for (shape, levels) in Shape::ALL.into_iter().flat_map(|shape| LEVELS.map(|levels| (shape, levels))) {
            let mut before = None;
            for bytes in [15_000, 30_000, 60_000, 120_000, 240_000] {
                let (is_taken, each, visited) = passes(document, shape, levels, bytes);
                let what = format!("{path} {shape:?} {levels} levels {bytes} bytes");
                assert!(each <= MOST_PASSES, "{what}: each byte is processed {each:.1} times");
                #[expect(clippy::cast_precision_loss, reason = "a few million")]
                let growth = before.map_or(0.0, |before| visited as f64 / before as f64);
                assert!(growth <= MOST_GROWTH, "{what}: costs {growth:.2} times as much as half of it");
                assert!(is_taken == (levels <= 30) || bytes > 60_000 || document == Document::ClickToken, "{what}: {is_taken}");
                (before, most) = (Some(visited), most.max(each));
            }
        }
    }
    println!("each byte is processed at most {most:.1} times");
}

#[test]
fn a1_bodies_over_a_limit_are_not_processed() {
    for (document, path) in Document::ALL {
        for shape in Shape::ALL {
            // The body is parsed, and its characters and depth are checked, but nothing more.
            let (is_taken, each, _) = passes(document, shape, 120, 1_000_000);
            assert!(!is_taken && each <= 3.1, "{path} {shape:?}: {each:.1}");
        }
    }
    for document in [Document::Start, Document::End] {
        let (is_taken, each, _) = passes(document, Shape::Withheld, 30, 1_000_000);
        assert!(!is_taken && each <= 5.1, "bodies over the limit are not stripped: {each:.1}");
    }
}

#[test]
fn measures_bodies_of_every_write_route() {
    let printed = linear::run(&LinearOptions { least_bytes: 1_024, most_bytes: 2_048 });
    assert_eq!(printed, measured_routes().iter().map(|line| Shape::ALL.len() * line.levels().len()).sum::<usize>());
}

#[test]
fn s14_measures_every_route_with_a_body() {
    let document = openapi::document(&Surface::ALL);
    let operations = document["paths"].as_object().into_iter().flatten().flat_map(|(path, item)| {
        item.as_object().into_iter().flatten().map(move |(method, operation)| (method.to_ascii_uppercase(), path, operation))
    });
    let with_body = operations.filter(|(.., operation)| !operation["requestBody"].is_null());
    let mut expected: BTreeSet<String> = with_body.map(|(method, path, _)| format!("{method} {path}")).collect();
    assert!(expected.len() > 20, "{expected:?}");
    // Its cost depends on text from reporters, which may be long.
    expected.insert("GET /ctx/{token}".to_owned());
    let measured: BTreeSet<String> = measured_routes().iter().map(|line| line.route.clone()).collect();
    assert_eq!(measured, expected, "routes with a body and lines in lab/loadgen/src/linear differ");
    for line in measured_routes() {
        for (shape, levels) in Shape::ALL.into_iter().flat_map(|shape| line.levels().iter().map(move |levels| (shape, *levels))) {
            for bytes in [16 * 1024, 32 * 1024, 60 * 1024] {
                let input = line.input(shape, levels, bytes);
                let what = format!("{} {shape:?} {levels} levels {bytes} bytes: {}", line.name, input.bytes());
                assert!((bytes / 2..=bytes * 2).contains(&input.bytes()), "{what}");
            }
        }
    }
}
