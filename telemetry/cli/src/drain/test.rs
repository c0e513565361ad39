//! `telemetry drain test`: shows how the service would count each line of a log; the log stays on this machine.

use crate::bots::Table;
use crate::context::Context;
use crate::failure::{Failure, file_error};
use crate::labels::ip_check;
use crate::log_file::open;
use crate::options::Format;
use crate::output::{Column, column, computed_column, text};
use crate::provider::provider;
use crate::terminal::print_message;
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

#[derive(Args, Clone, Debug)]
pub(crate) struct Test {
    /// Log file, plain or gzip, or - for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Format of the log
    #[arg(long, value_name = "PROVIDER", value_parser = provider())]
    provider: DrainProvider,
    /// Host of all lines [default: the line's, or --domain if given once]
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Count only this host and its subdomains, repeatable [default: all hosts]
    #[arg(long = "domain", value_name = "HOST")]
    domains: Vec<String>,
    #[command(flatten)]
    table: Table,
}

/// Maximum rows of a table or a JSON document, which are built in memory.
const MOST_ROWS: usize = 10_000;

const COLUMNS: [Column; 9] = [
    column("line", "/line"),
    computed_column("counted as", |row| counted_as(&text(&row["becomes"])).0.to_owned()),
    computed_column("reason", |row| match (row["missing"].as_str(), row["members"].as_array().map(Vec::as_slice)) {
        (Some(field), _) => format!("no {}", field.replace('_', " ")),
        (None, Some([one, other])) if one == other => format!("{} occurs twice", text(one)),
        (None, Some([one, other])) => format!("{} and {} contradict each other", text(one), text(other)),
        (None, _) => text(&row["why"]),
    }),
    column("format", "/format"),
    column("bot", "/bot"),
    computed_column("IP check", |row| {
        if row["becomes"] == "retrieval" { ip_check(&row["verified"]).to_owned() } else { String::new() }
    }),
    computed_column("status code", |row| match (row["becomes"].as_str(), row["status"].as_u64()) {
        (Some("refused"), Some(0)) => "none".to_owned(),
        _ => text(&row["status"]),
    }),
    column("time", "/time"),
    column("page", "/content_url"),
];
const CSV_COLUMNS: [Column; 10] = [
    column("line", "/line"),
    column("becomes", "/becomes"),
    column("why", "/why"),
    column("missing", "/missing"),
    column("format", "/format"),
    column("bot", "/bot"),
    column("verified", "/verified"),
    column("status", "/status"),
    column("time", "/time"),
    column("url", "/content_url"),
];

/// Returns what tables call one line and several lines with this result.
fn counted_as(becomes: &str) -> (&str, &str) {
    match becomes {
        "retrieval" => ("AI request", "AI requests"),
        "person" => ("human request", "human requests"),
        "dropped" => ("skipped", "skipped"),
        "refused" => ("not served (status not 2xx)", "not served (status not 2xx)"),
        "bad" => ("unreadable", "unreadable"),
        "trial" => ("provider's test", "provider's tests"),
        other => (other, other),
    }
}
/// All results, in the order of the summary.
const OUTCOMES: [&str; 6] = ["retrieval", "person", "dropped", "refused", "bad", "trial"];

pub(super) fn run(context: &Context, what: &Test) -> Result<(), Failure> {
    let of_domain = |domain: &String| {
        Site::from_domain(domain).map_err(|_| Failure::Usage(format!("--domain {domain}: not a registrable domain")))
    };
    let dry_run = DrainDryRun {
        provider: what.provider,
        host: what.host.clone(),
        hosts: what.domains.iter().map(of_domain).collect::<Result<_, _>>()?,
        bots: what.table.load()?,
        now: context.clock.now(),
    };
    let (mut rows, mut counts, mut stopped, mut lines) = (Vec::new(), BTreeMap::new(), None, 0_u64);
    let mut formats = BTreeMap::new();
    let is_streamed = matches!(context.options.output, Format::Ndjson | Format::Csv);
    context.output().header(&CSV_COLUMNS)?;
    let read = dry_run.lines(open(&what.file)?, |line| {
        lines += 1;
        line.format.into_iter().for_each(|format| *formats.entry(format.label).or_insert(0_u64) += 1);
        let row = row_of(&line);
        *counts.entry(row["becomes"].as_str().unwrap_or_default().to_owned()).or_insert(0_u64) += 1;
        if !is_streamed {
            if rows.len() < MOST_ROWS {
                rows.push(row);
            }
            return Ok(());
        }
        context.output().line(&row, &COLUMNS, &CSV_COLUMNS).map_err(|failure| {
            stopped = Some(failure);
            io::Error::from(io::ErrorKind::BrokenPipe)
        })
    });
    if let Some(failure) = stopped {
        return Err(failure);
    }
    read.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => Failure::Failed(format!("{}: not a {} log", what.file.display(), what.provider.as_str())),
        _ => file_error(&what.file, &error),
    })?;
    if !is_streamed {
        context.output().list_as(&json!(rows), &rows, &COLUMNS, &CSV_COLUMNS)?;
    }
    let hidden = lines - rows.len() as u64;
    if !is_streamed && hidden > 0 {
        print_message(&format!("Showing only the first {MOST_ROWS} lines; use -o ndjson or -o csv to see the other {hidden}."));
    }
    let counted = OUTCOMES.iter().filter_map(|becomes| counts.get(*becomes).map(|lines| (counted_as(becomes), *lines)));
    let sums: Vec<String> =
        counted.map(|((one, several), lines)| format!("{lines} {}", if lines == 1 { one } else { several })).collect();
    print_message(&match (lines, sums.join(", ")) {
        (0, _) => "The log is empty. Nothing was sent.".to_owned(),
        (1, sum) => format!("1 line: {sum}. Nothing was sent."),
        (_, sum) => format!("{lines} lines: {sum}. Nothing was sent."),
    });
    if !formats.is_empty() {
        let found: Vec<String> = formats.iter().map(|(label, lines)| format!("{label} ({lines})")).collect();
        print_message(&format!("Recognized: {}.", found.join(", ")));
    }
    if lines > 0 && counts.get("bad") == Some(&lines) {
        return Err(Failure::Failed(format!("no line could be read; check that this is a {} log", what.provider.as_str())));
    }
    Ok(())
}

/// Returns a line's row. For a person's line, the row contains only that fact.
fn row_of(line: &DryLine) -> Value {
    let mut row = facts_of(line);
    if let (Some(format), Some(row)) = (line.format, row.as_object_mut().filter(|row| row["becomes"] != "person")) {
        row.insert("format".to_owned(), json!(format.name));
    }
    row
}

/// Returns the missing field named by a reason such as `no_host`.
fn missing(reason: &str) -> Option<&str> {
    reason.strip_prefix("no_").filter(|field| *field != "columns")
}

fn facts_of(line: &DryLine) -> Value {
    let number = line.number;
    let time = line.at_ms.and_then(DateTime::from_timestamp_millis).map(instant::text);
    match &line.outcome {
        LineOutcome::Kept(event) => {
            let crawler = event.crawler.as_deref().cloned().unwrap_or_default();
            json!({
                "line": number, "becomes": "retrieval", "time": time, "content_url": event.content_url,
                "content_telemetry_id": event.content_telemetry_id, "bot": crawler.bot, "operator": crawler.operator,
                "purpose": crawler.purpose, "verified": crawler.verified, "status": crawler.response_status,
            })
        }
        LineOutcome::Person => json!({"line": number, "becomes": "person"}),
        LineOutcome::Dropped(reason) => json!({"line": number, "becomes": "dropped", "why": reason, "time": time}),
        LineOutcome::Refused(fetch) => json!({
            "line": number, "becomes": "refused", "bot": fetch.bot, "operator": fetch.operator, "purpose": fetch.purpose,
            "verified": fetch.verified, "status": fetch.status, "time": time,
        }),
        LineOutcome::Bad(reason) => {
            json!({"line": number, "becomes": "bad", "why": reason, "missing": missing(reason), "members": line.members})
        }
        LineOutcome::Trial => json!({"line": number, "becomes": "trial"}),
    }
}
