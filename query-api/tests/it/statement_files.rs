//! Every statement that ClickHouse receives is a file's text. Values, and lists of any length, are sent separately.

use crate::statement_settings::statements;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

const FETCHES: &str = include_str!("../../sql/reconciliation_fetches.sql");

/// Maximum length of a parameter in ClickHouse.
const LONGEST_PARAMETER: usize = 128 << 10;

/// Returns a body's statement. The body is a form if there are parameters or tables.
pub(crate) fn statement_of(body: &str) -> &str {
    let statement = body.split_once("name=\"query\"\r\n\r\n").map_or(body, |(_, rest)| {
        let boundary = body.lines().next().unwrap();
        rest.split(boundary).next().unwrap()
    });
    statement.trim()
}

/// Returns a statement without filter conditions, and without the comments that they replace.
fn unfiltered(statement: &str) -> String {
    let mut statement = statement.to_owned();
    for file in [include_str!("../../sql/filters.sql"), include_str!("../../sql/filters_lines.sql")] {
        for condition in file.trim_end().split("\nAND ").skip(1) {
            statement = statement.replace(&format!("AND {condition}"), "");
        }
    }
    let lines = statement.lines().filter(|line| !line.trim().is_empty() && !line.trim().starts_with("-- filters"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the names of the files by their content.
pub(crate) fn files() -> BTreeMap<String, String> {
    let folders = ["/sql", "/../store/clickhouse"].map(|folder| format!("{}{folder}", env!("CARGO_MANIFEST_DIR")));
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let file = |path: std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        // A statement of two files, because of its length.
        let start = if name == "reconciliation.sql" { FETCHES } else { "" };
        (unfiltered(format!("{start}{}", fs::read_to_string(&path).unwrap()).trim()), name)
    };
    files.map(|entry| file(entry.unwrap().path())).collect()
}

/// Returns the files whose text was received. Fails if some text isn't in a file.
pub(crate) fn received<'a>(texts: impl IntoIterator<Item = (String, &'a str)>) -> BTreeSet<String> {
    let files = files();
    let named = |(trace, text): (String, &str)| {
        files.get(&unfiltered(text)).unwrap_or_else(|| panic!("{trace}: no file has this text:\n{text}")).clone()
    };
    texts.into_iter().map(named).collect()
}

#[tokio::test]
async fn reads_send_exactly_the_statement_files() {
    let asked = statements().await;
    let requests = || asked.iter().flat_map(|(path, requests)| requests.iter().map(move |request| (path.clone(), request)));
    // After a second, a read checks whether ClickHouse responds.
    let read = requests().filter(|(_, request)| request.statement != "SELECT 1");
    let received = received(read.map(|(path, request)| (path, statement_of(&request.statement))));
    let folder = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/sql")).unwrap();
    let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let unused: Vec<String> = names
        .filter(|name| {
            !name.starts_with("analysts_")
                && !name.starts_with("filters")
                && name != "reconciliation_fetches.sql"
                && !received.contains(name)
        })
        .collect();
    assert!(unused.is_empty(), "no read sends {unused:?}");
    let long: BTreeSet<&str> = requests()
        .filter(|(_, request)| request.statement.len() > LONGEST_PARAMETER)
        .map(|(_, request)| statement_of(&request.statement))
        .collect();
    assert!(long.len() > 10, "lists are too short for this test: {long:?}");
}
