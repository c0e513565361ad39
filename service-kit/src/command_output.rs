//! Output formats and exit codes of operator commands, the same as those of the other commands (docs/cli.md#operators-commands).

use crate::database_clients::UnavailableStore;
use crate::http::ApiError;
use crate::http::sanitize_text::{for_terminal, json_for_terminal};
use anstyle::{AnsiColor, Style};
use clap::{Args, ValueEnum};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use serde::Serialize;
use std::error::Error;
use std::fmt;
use std::io::Write;
use std::process::ExitCode;

const FAILED: u8 = 1;
const FORBIDDEN: u8 = 3;
const MISSING: u8 = 4;
const TRY_AGAIN: u8 = 5;

/// Options for the output of a command.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct OutputOptions {
    /// Output format
    #[arg(short, long, global = true, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

/// Output formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Aligned columns
    #[default]
    Table,
    /// One JSON document
    Json,
}

impl OutputOptions {
    pub fn format(self) -> OutputFormat {
        self.output
    }
}

pub fn print_json(document: &impl Serialize) -> anyhow::Result<()> {
    let mut text = json_for_terminal(&serde_json::to_string_pretty(document)?);
    text.push('\n');
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
}

/// Prints a table with column titles and right-aligned numbers.
pub fn print_table(titles: &[&str], rows: &[Vec<String>]) -> anyhow::Result<()> {
    Ok(std::io::stdout().lock().write_all(table(titles, rows).as_bytes())?)
}

fn table(titles: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| for_terminal(cell)).collect()).collect();
    let head: Vec<String> = titles.iter().map(|title| title.to_uppercase()).collect();
    let column = |at: usize| rows.iter().filter_map(move |row| row.get(at));
    let is_figure = |cell: &String| cell.bytes().all(|byte| byte.is_ascii_digit());
    let width = |at: usize| column(at).chain([&head[at]]).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let layout: Vec<(usize, bool)> = (0..head.len()).map(|at| (width(at), column(at).all(is_figure))).collect();
    let line = |cells: &Vec<String>| {
        let of = |(cell, (width, is_right)): (&String, &(usize, bool))| match is_right {
            true => format!("{cell:>width$}"),
            false => format!("{cell:width$}"),
        };
        let cells: Vec<String> = cells.iter().zip(&layout).map(of).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    std::iter::once(&head).chain(&rows).map(line).collect()
}

#[derive(Debug)]
pub struct CommandError {
    code: u8,
    text: String,
}

impl CommandError {
    pub fn not_found(text: impl Into<String>) -> Self {
        Self { code: MISSING, text: text.into() }
    }
}

impl From<ApiError> for CommandError {
    fn from(refusal: ApiError) -> Self {
        Self { code: of_status(refusal.code().status()), text: refusal.one_line() }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for CommandError {}

fn of_status(status: u16) -> u8 {
    match status {
        401 | 403 => FORBIDDEN,
        404 => MISSING,
        408 | 429 | 502..=504 => TRY_AGAIN,
        _ => FAILED,
    }
}

/// Runs a command. Prints errors in red on a terminal unless `NO_COLOR` is set.
pub async fn run(work: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    let Err(error) = work.await else { return ExitCode::SUCCESS };
    if is_closed(&error) {
        return ExitCode::SUCCESS;
    }
    let red = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
    let lines: Vec<String> = format!("{error:#}").lines().map(for_terminal).collect();
    let _ = writeln!(anstream::stderr(), "{red}error{red:#}: {}", lines.join("\n"));
    ExitCode::from(code_of(&error))
}

/// Returns whether the reader of the output has closed the pipe.
fn is_closed(error: &anyhow::Error) -> bool {
    let is_pipe = |error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
    error.downcast_ref::<std::io::Error>().is_some_and(is_pipe)
}

fn code_of(error: &anyhow::Error) -> u8 {
    error.chain().find_map(code_of_cause).unwrap_or(FAILED)
}

fn code_of_cause(cause: &(dyn Error + 'static)) -> Option<u8> {
    if let Some(refusal) = cause.downcast_ref::<CommandError>() {
        return Some(refusal.code);
    }
    let is_away = cause.is::<UnavailableStore>()
        || cause.is::<tokio::time::error::Elapsed>()
        || cause.downcast_ref().is_some_and(is_postgres_away)
        || cause.downcast_ref().is_some_and(is_clickhouse_away)
        || cause.downcast_ref().is_some_and(is_kafka_away);
    is_away.then_some(TRY_AGAIN)
}

fn is_postgres_away(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut)
}

fn is_clickhouse_away(error: &clickhouse::error::Error) -> bool {
    matches!(error, clickhouse::error::Error::Network(_) | clickhouse::error::Error::TimedOut)
}

fn is_kafka_away(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{
        AllBrokersDown, BrokerTransportFailure, MessageTimedOut, OperationTimedOut, RequestTimedOut, Resolve,
    };
    let code = match error {
        KafkaError::AdminOp(code) => Some(*code),
        other => other.rdkafka_error_code(),
    };
    code.is_some_and(|code| {
        matches!(code, AllBrokersDown | BrokerTransportFailure | MessageTimedOut | OperationTimedOut | RequestTimedOut | Resolve)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};

    #[test]
    fn tables_have_headers_and_right_aligned_numbers() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["0", "12", "open"]), row(["all", "1234", "requeued as x"])];
        let expected = "PARTITION  RECORDS  STATE\n0               12  open\nall           1234  requeued as x\n";
        assert_eq!(table(&["partition", "records", "state"], &rows), expected);
        assert_eq!(table(&["partition"], &[]), "PARTITION\n");
    }

    #[test]
    fn exit_code_5_means_a_retry_may_succeed() {
        let away = Err::<(), _>(sqlx::Error::PoolTimedOut).context("DATABASE_URL: not reachable").unwrap_err();
        assert_eq!(code_of(&away), 5);
        assert_eq!(code_of(&anyhow!(KafkaError::MetadataFetch(RDKafkaErrorCode::BrokerTransportFailure))), 5);
        assert_eq!(code_of(&anyhow!(KafkaError::AdminOp(RDKafkaErrorCode::OperationTimedOut))), 5);
        assert_eq!(code_of(&anyhow!(KafkaError::MessageProduction(RDKafkaErrorCode::MessageTimedOut))), 5);
        assert_eq!(code_of(&anyhow!(CommandError::not_found("no such key")).context("while looking")), 4);
        assert_eq!(code_of(&anyhow!("surprise")), 1);
        assert_eq!([400, 401, 403, 404, 409, 422, 429, 503].map(of_status), [1, 3, 3, 4, 1, 1, 5, 5]);
    }
}
