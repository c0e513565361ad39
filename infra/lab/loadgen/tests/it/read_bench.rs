//! The bench of reads at a size that says nothing about speed: both ways to fill the store leave the same rows.

use std::process::{Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_loadgen");

async fn reads(arguments: &[&str]) -> Output {
    reads_of(&[&["--observations", "6000"], arguments].concat()).await
}

async fn reads_of(arguments: &[&str]) -> Output {
    let mut program = tokio::process::Command::new(PROGRAM);
    program.args(["reads", "--runs", "1", "--ingest", "100"]).args(arguments);
    program.stdin(Stdio::null()).kill_on_drop(true).output().await.expect("the program runs")
}

/// How many rows each table has, by what is printed.
fn rows(output: &Output) -> Vec<String> {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let of_a_table = |line: &&str| TABLES.iter().any(|table| line.starts_with(table)) && line.contains(" parts, ");
    said.lines().filter(of_a_table).filter_map(|line| Some(line.split_once(" rows in ")?.0.to_owned())).collect()
}

/// The tables of the store that is measured.
const TABLES: [&str; 2] = ["observations", "retrieval_index"];

fn rows_of(table: &str, rows: &[String]) -> u64 {
    assert!(TABLES.contains(&table));
    let of = rows.iter().find_map(|row| row.strip_prefix(table)?.strip_prefix(": "));
    of.unwrap_or_else(|| panic!("no count of {table}: {rows:?}")).parse().expect("a count is a number")
}

/// A line of figures and a plan of everything and of a window.
fn every_read_is_timed_and_explained(output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout);
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
    ] {
        let is_timed =
            said.lines().any(|line| !line.starts_with("plan") && line.get(10..).is_some_and(|rest| rest.starts_with(read)));
        assert!(is_timed, "{read} is not timed: {said}");
        for of in ["everything", "thirty days"] {
            let head = format!("\nplan of {read}");
            let plan = said.split(&head).skip(1).find(|plan| plan.lines().next().is_some_and(|name| name.ends_with(of)));
            assert!(
                plan.is_some_and(|plan| ["observations", "retrieval_index"].iter().any(|table| plan.contains(table))),
                "{read} of {of} is not explained: {said}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_is_filled_with_the_same_rows_through_the_log_and_past_it() {
    let output = reads(&["--plans"]).await;
    let past = rows(&output);
    every_read_is_timed_and_explained(&output);
    assert_eq!(past.len(), TABLES.len(), "{past:?}");
    let observations = rows_of("observations", &past);
    assert!(observations >= 6_000, "{past:?}");

    let binaries = crate::binaries();
    let folder = binaries.path().to_str().expect("a temporary folder has a plain name");
    let output = reads(&["--through-log", "--binaries", folder]).await;
    let through = rows(&output);
    // A record that a worker had not committed when its partition went to the other is stored again, and not merged yet.
    for table in TABLES {
        assert!(rows_of(table, &through) >= rows_of(table, &past), "{through:?} {past:?}");
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains(&format!("published {observations} ")) && said.contains(&format!("stored {observations} in")),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_the_owners_rows_alone_is_measured_and_in_every_layout() {
    let output = reads_of(&["--owner-rows", "2000", "--layouts"]).await;
    let rows = rows(&output);
    assert!(rows_of("observations", &rows) >= 2_000, "{rows:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let layouts: Vec<&str> = said.split("\nlayout: ").skip(1).collect();
    assert_eq!(layouts.len(), 4, "{said}");
    assert!(layouts.iter().all(|layout| layout.contains("rows arriving")), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn growth_is_told_of_every_read_over_everything_beside_a_tenth_of_the_others_and_of_the_owners() {
    let output = reads(&["--growth"]).await;
    assert_eq!(rows(&output).len(), 3 * TABLES.len(), "three stores");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for of in ["ten times the others' data", "ten times the owner's data"] {
        for read in ["summary ", "events ", "urls ", "summary, rows arriving ", "urls, one odd retrieval ", "agent/events "] {
            let told = said.lines().find_map(|line| line.strip_prefix(&format!("P7 {of}: {read}")));
            let ratio = told.and_then(|told| told.split_once(" times")).and_then(|(ratio, _)| ratio.trim().parse::<f64>().ok());
            assert!(ratio.is_some_and(|ratio| ratio > 0.0 && ratio.is_finite()), "{of}, {read}: {said}");
        }
    }
}
