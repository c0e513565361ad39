//! Runs the read benchmark with a small store.

use std::process::{Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_loadgen");

async fn reads(arguments: &[&str]) -> Output {
    reads_of(&[&["--reports", "6000"], arguments].concat()).await
}

async fn reads_of(arguments: &[&str]) -> Output {
    let mut program = tokio::process::Command::new(PROGRAM);
    program.args(["reads", "--runs", "1", "--ingest", "100"]).args(arguments);
    program.stdin(Stdio::null()).kill_on_drop(true).output().await.expect("the program runs")
}

/// Returns the printed tables with their numbers of rows.
fn rows(output: &Output) -> Vec<(String, u64)> {
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let row = |line: &str| {
        let (table, rest) = line.split_once(": ")?;
        let (rows, _) = rest.split_once(" rows in ")?;
        ["events", "reports"].contains(&table).then(|| (table.to_owned(), rows.parse().expect("a number of rows")))
    };
    printed.lines().filter_map(row).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn measures_every_read() {
    let output = reads(&[]).await;
    let stored = rows(&output);
    assert_eq!(stored.iter().map(|(table, _)| table.as_str()).collect::<Vec<_>>(), ["events", "reports"]);
    assert!(stored[1].1 >= 6_000 && stored[0].1 < stored[1].1, "{stored:?}");
    let printed = String::from_utf8_lossy(&output.stdout);
    for read in [
        "summary",
        "events",
        "urls",
        "corroboration",
        "funnel by agent",
        "funnel by url",
        "funnel by day",
        "agent/events",
        "manifest of a",
        "document of a",
        "summary, rows arriving",
        "summary, one claimed twice",
    ] {
        assert!(
            printed.lines().any(|line| line.get(10..).is_some_and(|rest| rest.starts_with(read))),
            "{read} is not timed: {printed}"
        );
    }
    assert!(!printed.contains("urn:problem"), "a read was rejected: {printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn measures_one_owner_in_ten_periods() {
    let output = reads_of(&["--owner-reports", "2000", "--days", "3", "--windows"]).await;
    assert!(rows(&output)[1].1 >= 2_000);
    let printed = String::from_utf8_lossy(&output.stdout);
    for window in ["10 min", "1 d", "all"] {
        let lines: Vec<&str> = printed.lines().filter(|line| line.trim_start().starts_with(&format!("{window}  "))).collect();
        let asked: Vec<&&str> = lines.iter().filter(|line| line.split_whitespace().any(|word| word == "200")).collect();
        assert!(asked.len() >= 10, "{window}: {printed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn prints_each_reads_planning_time() {
    let output = reads(&["--plan", "1"]).await;
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    for read in ["summary", "events", "sections", "crawlers", "series by agent", "one event", "coverage", "agent/summary"] {
        let cost = printed.lines().find_map(|line| line.strip_prefix(&format!("{read} "))).map(|rest| rest.trim().parse::<f64>());
        assert!(cost.is_some_and(|cost| cost.is_ok()), "{read}: {printed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn growth_is_measured_against_two_smaller_stores() {
    let output = reads(&["--growth"]).await;
    assert_eq!(rows(&output).len(), 6, "three stores of two tables");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    for of in ["ten times the others' data", "ten times the owner's data"] {
        for read in ["summary ", "events ", "urls ", "summary, rows arriving ", "urls, one claimed twice ", "agent/events "] {
            let line = printed.lines().find_map(|line| line.strip_prefix(&format!("P7 {of}: {read}")));
            let ratio = line.and_then(|line| line.split_once(" times")).and_then(|(ratio, _)| ratio.trim().parse::<f64>().ok());
            assert!(ratio.is_some_and(|ratio| ratio > 0.0 && ratio.is_finite()), "{of}, {read}: {printed}");
        }
    }
}
