//! Finds the commands in `full.txt` and Markdown files: each line of a `sh` block, and code spans that begin with a program's
//! name.

use super::blocks::Page;
use super::pasted::DOCUMENTS;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Programs whose code spans are commands.
const PROGRAMS: [&str; 5] = ["cargo", "telemetry", "docker", "promtool", "openssl"];

/// Lists the commands of `cargo verify --full`.
const FULL: &str = "lab/full.txt";

/// A command from the documentation.
pub(super) struct DocumentedCommand {
    pub(super) file: String,
    pub(super) line: String,
    /// Assignments before the program.
    pub(super) variables: Vec<String>,
    /// The program and its arguments.
    pub(super) words: Vec<String>,
    /// Whether the command is complete or only mentioned.
    pub(super) is_whole: bool,
}

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Folders with downloaded or built files.
const SKIPPED: [&str; 4] = [".git", ".local", "target", "node_modules"];

/// Returns every Markdown file of the repository with its text, parent folders first.
fn documents() -> Vec<(String, String)> {
    let mut found = Vec::new();
    add_documents(&root(), "", &mut found);
    found.sort_by_key(|(name, _)| (name.matches('/').count(), name.clone()));
    found
}

fn add_documents(folder: &Path, prefix: &str, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).expect("failed to list the folder") {
        let path = entry.expect("failed to read the entry").path();
        let name = path.file_name().expect("the entry has no name").to_string_lossy().into_owned();
        if path.is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                add_documents(&path, &format!("{prefix}{name}/"), found);
            }
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push((format!("{prefix}{name}"), std::fs::read_to_string(path).expect("the document is not text")));
        }
    }
}

/// Returns the documents that contain requests in a block.
pub(super) fn with_requests() -> Vec<String> {
    let is_request = |line: &str| line.starts_with("curl ") || line.starts_with("until curl ") || line.contains("=$(curl ");
    let has_one =
        |(name, text): &(String, String)| Page::read(name, text).blocks.iter().any(|block| block.text.lines().any(is_request));
    documents().into_iter().filter(has_one).map(|(name, _)| name).collect()
}

/// Returns every documented command once. Leaves out those in blocks that `pasted` runs.
pub(super) fn commands() -> Vec<DocumentedCommand> {
    let mut found = Vec::new();
    for (file, text) in documents() {
        let is_run = DOCUMENTS.contains(&file.as_str());
        for block in Page::read(&file, &text).blocks.iter().filter(|block| !is_run || !block.is_pasted()) {
            let lines = lines_of(&block.text);
            found.extend(lines.into_iter().filter_map(|line| DocumentedCommand::parse(&file, &line, true)));
        }
        for span in spans(&text) {
            found.extend(alternatives(span).iter().filter_map(|line| DocumentedCommand::parse(&file, line, false)));
        }
    }
    let full = std::fs::read_to_string(root().join(FULL)).expect("the list is not text");
    let lines = full.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    found.extend(lines.filter_map(|line| DocumentedCommand::parse(FULL, line, true)).filter(|found| found.words[0] == "cargo"));
    let mut known = HashSet::new();
    found.retain(|found| known.insert((found.words.clone(), found.variables.clone(), found.is_whole)));
    found
}

/// Returns the commands in a block. `psql` commands continue on indented lines.
fn lines_of(block: &str) -> Vec<String> {
    let own = block.lines().filter(|line| !line.trim().is_empty() && !line.starts_with(['#', ' ']));
    own.map(str::to_owned).collect()
}

/// Returns code spans outside of blocks that start with a program or an assignment and have more than one word.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.split("\n```").step_by(2);
    let spans = prose.flat_map(str::lines).flat_map(|line| line.split('`').skip(1).step_by(2));
    spans.filter(|span| {
        let mut words = span.split(' ').skip_while(|word| is_assignment(word));
        words.next().is_some_and(|first| PROGRAMS.contains(&first)) && words.next().is_some()
    })
}

/// `cargo local status|stop` stands for two commands.
fn alternatives(span: &str) -> Vec<String> {
    let Some((before, choices)) = span.rsplit_once(' ').filter(|(_, choices)| choices.contains('|')) else {
        return vec![span.to_owned()];
    };
    choices.split('|').map(|choice| format!("{before} {choice}")).collect()
}

fn is_assignment(word: &str) -> bool {
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

impl DocumentedCommand {
    fn parse(file: &str, line: &str, is_whole: bool) -> Option<Self> {
        let mut words = words_of(line);
        let count = words.iter().take_while(|word| is_assignment(word)).count();
        let variables = words.drain(..count).filter_map(|word| word.split_once('=').map(|(name, _)| name.to_owned())).collect();
        let is_command = !words.is_empty();
        is_command.then(|| Self { file: file.to_owned(), line: line.to_owned(), variables, words, is_whole })
    }
}

/// Splits a line into words like a shell, up to a comment.
fn words_of(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for char in line.chars() {
        match (quote, char) {
            (Some(open), _) if char == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(char),
            (None, '\'' | '"') => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, '#') if word.is_none() => break,
            (None, _) => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    words
}
