//! Every statement that ClickHouse receives is the text of a file in `query-api/sql`; values are parameters.

use crate::statement_settings::statements;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// What the client appends to each statement.
const FORMAT: &str = "FORMAT RowBinaryWithNamesAndTypes";

/// The statement of a body, which is a form if parameters are in it too.
fn statement_of(body: &str) -> &str {
    let statement = body.split_once("name=\"query\"\r\n\r\n").map_or(body, |(_, rest)| {
        let boundary = body.lines().next().unwrap();
        rest.split(boundary).next().unwrap()
    });
    statement.trim().trim_end_matches(FORMAT).trim()
}

/// The files by their texts.
fn files() -> BTreeMap<String, String> {
    let folder = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/sql")).unwrap();
    let file = |path: std::path::PathBuf| (fs::read_to_string(&path).unwrap().trim().to_owned(), path.display().to_string());
    folder.map(|entry| file(entry.unwrap().path())).collect()
}

#[tokio::test]
async fn every_statement_of_a_read_is_a_file_and_every_file_is_a_statement_of_a_read() {
    let files = files();
    let mut received = BTreeSet::new();
    for (path, requests) in statements().await {
        for request in requests {
            let text = statement_of(&request.statement);
            received.insert(files.get(text).unwrap_or_else(|| panic!("{path}: no file has this text:\n{text}")).clone());
        }
    }
    let unused: Vec<&String> = files.values().filter(|file| !received.contains(*file)).collect();
    assert!(unused.is_empty(), "no read sends {unused:?}");
}
