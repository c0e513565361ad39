//! `telemetry doctor`: checks each step from the service address to the first event, and suggests fixes.

mod checks;
mod drains;

use crate::context::Context;
use crate::failure::Failure;
use crate::options::Format;
use crate::output::{column, visible};
use anstyle::{AnsiColor, Style};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use std::io::Write;

/// Options of `telemetry doctor`.
#[derive(Args, Clone, Debug)]
pub struct Doctor {
    /// Domain to check, including its DNS record and manifest
    #[arg(long, value_name = "HOST")]
    domain: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Ok,
    /// Works, but may be unexpected.
    Warning,
    /// Must be fixed.
    Bad,
    Skipped,
}

/// Result of a check with its advice.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    check: &'static str,
    verdict: Verdict,
    found: String,
    /// Suggested fix; empty if unknown.
    advice: String,
}

impl Finding {
    pub(crate) fn new(check: &'static str, verdict: Verdict, found: impl Into<String>, advice: impl Into<String>) -> Self {
        // Errors have several lines, findings only one.
        let found = found.into().lines().map(str::trim).collect::<Vec<_>>().join("; ");
        Self { check, verdict, found, advice: advice.into() }
    }

    pub(crate) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(check, Verdict::Ok, found, "")
    }
}

pub(crate) async fn run(context: &Context, what: &Doctor) -> Result<(), Failure> {
    let findings = checks::all(context, what.domain.as_deref()).await?;
    print(context, &findings)?;
    let bad = findings.iter().filter(|finding| finding.verdict == Verdict::Bad).count();
    if bad == 0 { Ok(()) } else { Err(Failure::Failed(format!("{bad} of {} checks failed", findings.len()))) }
}

fn print(context: &Context, findings: &[Finding]) -> Result<(), Failure> {
    if context.options.output != Format::Table {
        let items: Vec<Value> = findings.iter().map(|finding| json!(finding)).collect();
        let columns =
            [column("check", "/check"), column("verdict", "/verdict"), column("found", "/found"), column("advice", "/advice")];
        return context.output().list(&json!(items), &items, &columns);
    }
    let mut stdout = anstream::stdout().lock();
    for finding in findings {
        let (word, color) = match finding.verdict {
            Verdict::Ok => ("ok     ", AnsiColor::Green),
            Verdict::Warning => ("warning", AnsiColor::Yellow),
            Verdict::Bad => ("failed ", AnsiColor::Red),
            Verdict::Skipped => ("skipped", AnsiColor::BrightBlack),
        };
        let style = Style::new().fg_color(Some(color.into()));
        let advice =
            if finding.advice.is_empty() { String::new() } else { format!("\n{:20}→ {}", "", visible(&finding.advice)) };
        let line = writeln!(stdout, "{style}{word}{style:#}  {:10} {}{advice}", finding.check, visible(&finding.found));
        line.map_err(|_| Failure::OutputClosed)?;
    }
    Ok(())
}
