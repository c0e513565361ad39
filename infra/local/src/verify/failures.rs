//! Collects the output of failed tests, to print it again at the end of a run.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// Stored lines per test: from a few lines before its panic, otherwise the last ones. Backtraces may be long.
const LINES: usize = 30;
const BEFORE_PANIC: usize = 10;
/// Stored characters per line.
const CHARACTERS: usize = 500;

/// Output of a failed test.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) test: String,
    pub(super) lines: VecDeque<String>,
    has_panicked: bool,
}

impl Failure {
    fn add(&mut self, line: &str) {
        if !self.has_panicked && line.contains(" panicked at ") {
            self.has_panicked = true;
            self.lines.drain(..self.lines.len().saturating_sub(BEFORE_PANIC));
        }
        if self.lines.len() == LINES {
            if self.has_panicked {
                return;
            }
            self.lines.pop_front();
        }
        self.lines.push_back(line.chars().take(CHARACTERS).collect());
    }
}

/// A buffer that one thread can read while another one writes to it.
pub(super) struct SharedBuffer(pub(super) Arc<Mutex<Vec<u8>>>);

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Copies the tests' output line by line until its end, and calls `found` for each failed test.
pub(super) fn copy_output(printed: impl Read, mut out: impl Write, mut found: impl FnMut(Failure)) -> std::io::Result<()> {
    let mut printed = BufReader::new(printed);
    let (mut bytes, mut current) = (Vec::new(), None::<Failure>);
    while printed.read_until(b'\n', &mut bytes)? > 0 {
        out.write_all(&bytes)?;
        let line = String::from_utf8_lossy(&bytes);
        let line = line.trim_end();
        if let Some(test) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            current.replace(Failure { test: test.to_owned(), ..Failure::default() }).map(&mut found);
        } else if line == "failures:" {
            current.take().map(&mut found);
        } else if let Some(failure) = &mut current {
            failure.add(line);
        }
        bytes.clear();
    }
    out.flush()?;
    current.map(found);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every line is copied, including invalid UTF-8.
    #[test]
    fn collects_failures_and_copies_all_output() {
        let long = "x".repeat(CHARACTERS + 1);
        let many: String = (0..=LINES).map(|number| format!("line {number}\n")).collect();
        let mut printed = format!(
            "test a ... FAILED\ntest b ... FAILED\ntest c ... ok\n\nfailures:\n\n---- a stdout ----\n{long}\n\
             ---- b::c stdout ----\n{many}\nfailures:\n    a\n    b::c\n\ntest result: FAILED\n"
        )
        .into_bytes();
        printed.extend(b"\xff no line end");
        let (mut out, mut found) = (Vec::new(), Vec::new());
        copy_output(&printed[..], &mut out, |failure| found.push(failure)).unwrap();
        assert_eq!(out, printed);
        let last: VecDeque<_> = (2..=LINES).map(|number| format!("line {number}")).chain([String::new()]).collect();
        assert_eq!(
            found,
            [
                Failure { test: "a".to_owned(), lines: [long[1..].to_owned()].into(), has_panicked: false },
                Failure { test: "b::c".to_owned(), lines: last, has_panicked: false }
            ]
        );
    }

    #[test]
    fn keeps_the_panic_in_long_output() {
        let before: String = (0..100).map(|number| format!("before {number}\n")).collect();
        let after: String = (0..100).map(|number| format!("  {number}: frame\n")).collect();
        let printed = format!("---- a stdout ----\n{before}thread 'a' panicked at src/a.rs:1:1:\nleft is not right\n{after}");
        let mut found = Vec::new();
        copy_output(printed.as_bytes(), std::io::sink(), |failure| found.push(failure)).unwrap();
        let lines = &found[0].lines;
        assert_eq!((found.len(), lines.len(), lines[0].as_str()), (1, LINES, "before 90"));
        assert_eq!(lines[BEFORE_PANIC + 1], "left is not right");
    }
}
