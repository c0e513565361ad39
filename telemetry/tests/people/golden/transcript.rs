//! Commands with their output, in the format of `tests/golden`.

use super::placeholders::Placeholders;
use crate::terminal::{CommandOutput, Terminal};
use service_kit::testing::eventually;
use std::fmt::Write;
use std::path::{Path, PathBuf};

pub(super) const PROMPT: &str = "$ telemetry ";
pub(super) const EXIT: &str = "exit ";
pub(super) const STDOUT: &str = "--- stdout";
const STDERR: &str = "--- stderr";

/// Recorded commands, in order.
pub(super) struct Transcript {
    name: &'static str,
    text: String,
    placeholders: Placeholders,
    keeps_widths: bool,
}

pub(super) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

impl Transcript {
    /// Starts the transcript of a golden file.
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, text: String::new(), placeholders: Placeholders::default(), keeps_widths: true }
    }

    /// Replaces `value` with `<placeholder>` in everything that follows.
    pub(super) fn hide(&mut self, value: &str, placeholder: &str) {
        self.placeholders.add(value, placeholder);
    }

    /// Puts two spaces between columns in everything that follows, for output whose widths differ between runs.
    pub(super) fn without_widths(&mut self) {
        self.keeps_widths = false;
    }

    pub(super) fn run(&mut self, terminal: &Terminal, words: &[&str]) -> CommandOutput {
        self.run_with_input(terminal, words, "")
    }

    pub(super) fn run_in_both_formats(&mut self, terminal: &Terminal, words: &[&str]) {
        self.run(terminal, words);
        self.run(terminal, &[words, &["-o", "json"]].concat());
    }

    pub(super) fn run_with_input(&mut self, terminal: &Terminal, words: &[&str], input: &str) -> CommandOutput {
        let said = terminal.run_with_input(words, input);
        self.add(words, "", &said, &said.stdout);
        said
    }

    /// Runs a command and records only the first lines of its output.
    pub(super) fn run_and_record_first_lines(&mut self, terminal: &Terminal, words: &[&str], lines: usize) {
        let said = terminal.run(words);
        let kept: String = said.stdout.split_inclusive('\n').take(lines).collect();
        self.add(words, &format!(" | head -n {lines}"), &said, &kept);
    }

    /// Records a command that has exited.
    pub(super) fn add(&mut self, words: &[&str], then: &str, said: &CommandOutput, stdout: &str) {
        let typed: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        let mut block = format!("{PROMPT}{}{then}\n{EXIT}{}\n", typed.join(" "), said.code);
        for (mark, text) in [(STDOUT, stdout.to_owned()), (STDERR, without_progress(&said.stderr))] {
            if !text.is_empty() {
                let end = if text.ends_with('\n') { "" } else { "\n" };
                let _ = write!(block, "{mark}\n{text}{end}");
            }
        }
        let block = if self.keeps_widths { block } else { narrow(&block) };
        self.text.push_str(&self.placeholders.replace_in(&block));
        self.text.push('\n');
    }

    pub(super) fn check(self) {
        let file = folder().join(format!("{}.txt", self.name));
        if std::env::var_os("WRITE_GOLDEN").is_some() {
            std::fs::write(file, self.text).unwrap();
            return;
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        let differs = kept.lines().zip(self.text.lines()).position(|(kept, now)| kept != now);
        let line = differs.unwrap_or_else(|| kept.lines().count().min(self.text.lines().count()));
        let near = |text: &str| text.lines().skip(line.saturating_sub(5)).take(10).collect::<Vec<_>>().join("\n");
        assert!(
            kept == self.text,
            "{}: line {}: kept is\n{}\nprinted is\n{}\n\nWRITE_GOLDEN=1 cargo test -p telemetry golden writes it anew",
            file.display(),
            line + 1,
            near(&kept),
            near(&self.text)
        );
    }
}

/// Waits until the service reports that this key was used, which it records after responding.
pub(super) async fn was_used(owner: &Terminal, name: &str) {
    eventually(&format!("{name} was used"), || async {
        let key = owner.run(&["key", "show", name, "-o", "json"]).json();
        key["last_used_at"].is_string().then_some(())
    })
    .await;
}

/// Returns the text without lines of progress, which only slow commands print.
fn without_progress(text: &str) -> String {
    let is_progress =
        |line: &&str| line.trim_end().ends_with(" records") && line.starts_with(|first: char| first.is_ascii_digit());
    text.split_inclusive('\n').filter(|line| !is_progress(line)).collect()
}

/// Returns the text with at most two spaces in a row, except at the start of a line.
fn narrow(text: &str) -> String {
    let of = |line: &str| {
        let begin = line.len() - line.trim_start().len();
        let cells: Vec<&str> = line[begin..].split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        format!("{}{}\n", &line[..begin], cells.join("  "))
    };
    text.lines().map(of).collect()
}

fn quoted(word: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_./:=,@<>".contains(char);
    if !word.is_empty() && word.chars().all(is_plain) { word.to_owned() } else { format!("'{word}'") }
}
