//! `telemetry drain test`: what each line of a log would become, by the very code of the service; nothing is sent.
//!
//! Must not show anything of a person's line but that it is one.

use crate::bots::Table;
use crate::context::Context;
use crate::failure::{Failure, of_file};
use crate::log_file::open;
use crate::options::Format;
use crate::output::{Column, column};
use crate::provider::provider;
use crate::talk::say;
use chrono::DateTime;
use clap::Args;
use ingest_gateway::{DrainDryRun, DryLine, LineOutcome};
use schemas::identity::DrainProvider;
use schemas::instant;
use schemas::site::Site;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

/// A log of which nothing is sent.
#[derive(Args, Clone, Debug)]
pub(crate) struct Test {
    /// File of the log, plain or gzip; `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Who wrote the log
    #[arg(long, value_name = "PROVIDER", value_parser = provider())]
    provider: DrainProvider,
    /// Host of lines that name none [default: that of --domain, where it is said once]
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Host whose lines would be kept, with those beneath it; may be said again [default: every host]
    #[arg(long = "domain", value_name = "HOST")]
    domains: Vec<String>,
    #[command(flatten)]
    table: Table,
}

/// Rows that a table or a JSON document holds: both are made in memory.
const MOST_ROWS: usize = 10_000;

const COLUMNS: [Column; 8] = [
    column("line", "/line"),
    column("becomes", "/becomes"),
    column("why", "/why"),
    column("bot", "/bot"),
    column("verified", "/verified"),
    column("status", "/status"),
    column("time", "/time"),
    column("url", "/content_url"),
];

pub(super) fn run(context: &Context, what: &Test) -> Result<(), Failure> {
    let of_domain = |domain: &String| {
        Site::from_domain(domain).map_err(|_| Failure::Usage(format!("--domain {domain}: not a host that somebody can own")))
    };
    let dry_run = DrainDryRun {
        provider: what.provider,
        host: what.host.clone(),
        hosts: what.domains.iter().map(of_domain).collect::<Result<_, _>>()?,
        bots: what.table.load()?,
        now: context.clock.now(),
    };
    let (mut rows, mut counts, mut stopped, mut lines) = (Vec::new(), BTreeMap::new(), None, 0_u64);
    let is_streamed = matches!(context.options.output, Format::Ndjson | Format::Csv);
    context.output().header(&COLUMNS)?;
    let read = dry_run.lines(open(&what.file)?, |line| {
        lines += 1;
        let row = told(&line);
        *counts.entry(row["becomes"].as_str().unwrap_or_default().to_owned()).or_insert(0_u64) += 1;
        if !is_streamed {
            if rows.len() < MOST_ROWS {
                rows.push(row);
            }
            return Ok(());
        }
        context.output().line(&row, &COLUMNS).map_err(|failure| {
            stopped = Some(failure);
            io::Error::from(io::ErrorKind::BrokenPipe)
        })
    });
    if let Some(failure) = stopped {
        return Err(failure);
    }
    read.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => {
            Failure::Failed(format!("{}: not a log of {}", what.file.display(), what.provider.as_str()))
        }
        _ => of_file(&what.file, &error),
    })?;
    if !is_streamed {
        context.output().list(&json!(rows), &rows, &COLUMNS)?;
    }
    let hidden = lines - rows.len() as u64;
    if !is_streamed && hidden > 0 {
        say(&format!("the first {MOST_ROWS} lines are shown, and {hidden} are not; -o ndjson and -o csv show all"));
    }
    let sums: Vec<String> = counts.iter().map(|(becomes, lines)| format!("{lines} {becomes}")).collect();
    say(&format!("{lines} lines: {}; nothing was sent", if sums.is_empty() { "none".to_owned() } else { sums.join(", ") }));
    if lines > 0 && counts.get("bad") == Some(&lines) {
        return Err(Failure::Failed(format!("no line could be read: is it a log of {}?", what.provider.as_str())));
    }
    Ok(())
}

fn told(told: &DryLine) -> Value {
    let line = told.number;
    let time = told.at_ms.and_then(DateTime::from_timestamp_millis).map(instant::text);
    match &told.outcome {
        LineOutcome::Kept(event) => {
            let crawler = event.crawler.as_deref().cloned().unwrap_or_default();
            json!({
                "line": line, "becomes": "retrieval", "time": time, "content_url": event.content_url,
                "content_telemetry_id": event.content_telemetry_id, "bot": crawler.bot, "operator": crawler.operator,
                "purpose": crawler.purpose, "verified": crawler.verified, "status": crawler.response_status,
            })
        }
        LineOutcome::Person => json!({"line": line, "becomes": "person"}),
        LineOutcome::Dropped(reason) => json!({"line": line, "becomes": "dropped", "why": reason, "time": time}),
        LineOutcome::Refused { bot, status } => {
            json!({"line": line, "becomes": "refused", "bot": bot.to_string(), "status": status, "time": time})
        }
        LineOutcome::Bad(reason) => json!({"line": line, "becomes": "bad", "why": reason}),
        LineOutcome::Trial => json!({"line": line, "becomes": "trial"}),
    }
}
