//! Events and requests: equal for equal seeds, what they claim to be, and in the mix that was asked for.

use loadgen::workload::{Generator, Mix, Plan, Shape, Skew, TYPES};
use serde_json::Value;
use std::collections::BTreeSet;

fn shape(seed: u64) -> Shape {
    Shape { seed, run: 9, started_at_ms: 1_790_000_000_000, late_percent: 10, request_lengths: Vec::new() }
}

fn rendered(shape: &Shape, role: usize, number: u32) -> Value {
    let mut bytes = Vec::new();
    shape.render(&mut bytes, 0, "load-1.example.com", role, number);
    assert!((230..=400).contains(&bytes.len()), "about 300 bytes, not {}", bytes.len());
    serde_json::from_slice(&bytes).expect("an event is JSON")
}

fn plans(seed: u64, mix: Mix, count: usize) -> Vec<Plan> {
    let mut generator = Generator::new(shape(seed), mix, 5, Skew::new(5, 1.0));
    (0..count).map(|_| generator.next_plan()).collect()
}

#[test]
fn an_event_says_what_the_oracle_believes_of_it() {
    let shape = shape(1);
    for number in 0..500 {
        let (described, event) = (shape.describe(0, number), rendered(&shape, 0, number));
        assert_eq!(event["type"], TYPES[described.event_type]);
        assert_eq!(event["timestamp"].as_str().unwrap() < shape.window_start().as_str(), described.is_late);
        assert_eq!(event, rendered(&shape, 0, number), "a repeat is byte for byte the same");
    }
}

#[test]
fn observers_share_the_retrieval_but_nothing_else_that_identifies() {
    let shape = shape(2);
    let retrieval = (0..).find(|number| shape.is_retrieval(0, *number)).unwrap();
    let reports: Vec<Value> = (0..4).map(|role| rendered(&shape, role, retrieval)).collect();
    for report in &reports[1..] {
        assert_eq!(report["content_telemetry_id"], reports[0]["content_telemetry_id"]);
        assert_eq!(report["content_url"], reports[0]["content_url"]);
        assert_ne!(report["id"], reports[0]["id"]);
        assert_eq!(report.get("session_id"), None);
    }
    let other_run = Shape { run: 10, ..shape.clone() };
    assert_ne!(rendered(&other_run, 0, retrieval)["id"], reports[0]["id"], "a repeated seed is not a repeated event");
}

#[test]
fn sessions_are_distinct_and_short() {
    let shape = shape(3);
    let sessions: BTreeSet<String> = (0..80).map(|number| rendered(&shape, 0, number)["session_id"].to_string()).collect();
    assert_eq!(sessions.len(), 10);
}

#[test]
fn equal_seeds_give_equal_requests() {
    let mix = Mix { batch: 3, observers: 3, duplicate_percent: 10 };
    assert_eq!(plans(4, mix, 500), plans(4, mix, 500));
    assert_ne!(plans(4, mix, 500), plans(5, mix, 500));
}

#[test]
fn without_repeats_no_report_is_made_twice() {
    let mix = Mix { batch: 10, observers: 4, duplicate_percent: 0 };
    let mut seen = BTreeSet::new();
    for plan in plans(6, mix, 1_000) {
        assert!(plan.items.iter().all(|number| seen.insert((plan.tenant, plan.role, *number))));
    }
    assert!((0..4).all(|role| seen.iter().any(|(_, seen, _)| *seen == role)), "every observer reports");
}

#[test]
fn repeats_are_as_many_as_asked_for() {
    let mix = Mix { batch: 10, observers: 1, duplicate_percent: 20 };
    let mut seen = BTreeSet::new();
    let plans = plans(7, mix, 1_000);
    let items = plans.iter().flat_map(|plan| plan.items.iter().map(|number| (plan.tenant, *number)));
    let repeats = items.filter(|item| !seen.insert(*item)).count();
    assert!((1_700..2_300).contains(&repeats), "{repeats} of 10000");
}

#[test]
fn shares_follow_the_exponent() {
    let share = |skew: &Skew, tenant| (0..10_000).filter(|point| skew.pick(f64::from(*point) / 1e4) == tenant).count();
    let even = Skew::new(4, 0.0);
    assert!((0..4).all(|tenant| share(&even, tenant).abs_diff(2_500) <= 1));
    let zipf = Skew::new(2, 1.0);
    assert!(share(&zipf, 0).abs_diff(6_667) <= 1 && share(&zipf, 1).abs_diff(3_333) <= 1);
    assert_eq!(Skew::new(1, 1.0).pick(1.0), 0);
}
