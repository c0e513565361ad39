//! Compiles the service and shows progress: cargo's own bar on a terminal, otherwise occasional lines.

use std::io::{IsTerminal as _, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::interrupt::Interrupt;
use crate::subprocess::{self, Outcome};

/// Interval between progress lines in a log.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(15);

pub(crate) fn build(mut cargo: Command, launcher: &Path, interrupt: &Interrupt) -> Result<Outcome> {
    if std::io::stderr().is_terminal() {
        return subprocess::run(cargo, launcher, interrupt);
    }
    // Wide enough for the counts, which are the only part of the bar that is used.
    cargo.env("CARGO_TERM_PROGRESS_WHEN", "always").env("CARGO_TERM_PROGRESS_WIDTH", "80").stderr(Stdio::piped());
    let (begun, bar) = (Instant::now(), Arc::new(Mutex::new(None)));
    let mut told = begun;
    let mut listener = None;
    let listen = |child: &mut Child| {
        let (stream, bar) = (child.stderr.take(), Arc::clone(&bar));
        listener = stream.map(|stream| std::thread::spawn(move || relay_output(stream, &bar)));
    };
    let tell = || {
        if told.elapsed() >= PROGRESS_INTERVAL {
            told = Instant::now();
            eprintln!("{}", progress_line(bar.lock().unwrap_or_else(PoisonError::into_inner).as_ref(), begun.elapsed()));
        }
    };
    let outcome = subprocess::run_watched(cargo, launcher, interrupt, listen, tell);
    if let Some(listener) = listener {
        // The thread ends with the stream, and a panic in it has been printed.
        let _ = listener.join();
    }
    outcome
}

/// Number of compiled crates, and of all crates.
type Bar = Option<(u32, u32)>;

fn progress_line(bar: Option<&(u32, u32)>, after: Duration) -> String {
    let minutes = after.as_secs_f32() / 60.0;
    match bar {
        Some((done, all)) => format!("Compiled {done} of {all} crates ({minutes:.1} min)"),
        None => format!("Preparing the build ({minutes:.1} min)"),
    }
}

/// Prints cargo's output line by line, except for the bar, which ends with a carriage return.
fn relay_output(mut stream: impl Read, bar: &Mutex<Bar>) {
    let (mut pending, mut part) = (Vec::new(), [0; 4096]);
    while let Ok(length @ 1..) = stream.read(&mut part) {
        pending.extend_from_slice(&part[..length]);
        while let Some(end) = pending.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
            let piece: Vec<u8> = pending.drain(..=end).collect();
            parse_line(&String::from_utf8_lossy(&piece), bar);
        }
    }
    parse_line(&String::from_utf8_lossy(&pending), bar);
}

fn parse_line(piece: &str, bar: &Mutex<Bar>) {
    // Remove the control sequence that clears the rest of the bar's line.
    let text = piece.replace("\u{1b}[K", "");
    let text = text.trim_end();
    match counts(text) {
        Some(counts) => *bar.lock().unwrap_or_else(PoisonError::into_inner) = Some(counts),
        None if text.trim().is_empty() || is_download_bar(text) => {}
        None => eprintln!("{text}"),
    }
}

/// Parses the counts in `    Building [====>    ] 12/345: one, other`.
fn counts(text: &str) -> Bar {
    let rest = text.trim_start().strip_prefix("Building [")?;
    let (done, all) = rest.split_once("] ")?.1.split(':').next()?.split_once('/')?;
    Some((done.trim().parse().ok()?, all.trim().parse().ok()?))
}

/// Matches ` Downloading 12 crates, remaining bytes: 3.0MiB`, which cargo prints many times per second.
fn is_download_bar(text: &str) -> bool {
    text.trim_start().strip_prefix("Downloading ").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hides_the_progress_bar_and_prints_other_lines() {
        assert_eq!(counts("    Building [=====>   ] 12/345: one, other(build)"), Some((12, 345)));
        for other in ["   Compiling sqlx v0.9.0", "warning: Building [x", "    Blocking waiting for file lock", ""] {
            assert_eq!(counts(other), None, "{other}");
        }
        assert!(is_download_bar(" Downloading 355 crates, remaining bytes: 3.0MiB"));
        assert!(!is_download_bar(" Downloading crates ...") && !is_download_bar("  Downloaded 356 crates (38.8MiB) in 5.32s"));
        let bar = Mutex::new(None);
        relay_output(&b"   Compiling a v1\r\n    Building [>    ] 1/9: a\r\x1b[K    Building [>>   ] 2/9: b\r"[..], &bar);
        assert_eq!(*bar.lock().unwrap(), Some((2, 9)));
        assert_eq!(progress_line(Some(&(2, 9)), Duration::from_secs(90)), "Compiled 2 of 9 crates (1.5 min)");
    }
}
