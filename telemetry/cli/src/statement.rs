//! `telemetry statement`: verifies statements (docs/api/statements.md). Uses no network.

use crate::failure::{Failure, file_error};
use crate::output::{visible, write};
use clap::{Args, Subcommand};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Actions on statements.
#[derive(Args, Clone, Debug)]
pub struct StatementNoun {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Action {
    /// Recount a statement from its evidence file; check signature and chain
    #[command(after_help = example!("statement verify statement.json evidence.ndjson --manifest content-telemetry.json"))]
    Verify(Verify),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Verify {
    /// The statement, as JSON
    #[arg(value_name = "STATEMENT")]
    statement: PathBuf,
    /// Its evidence file, as JSON lines
    #[arg(value_name = "EVIDENCE")]
    evidence: PathBuf,
    /// Earlier statement that it names; can be repeated
    #[arg(long, value_name = "STATEMENT")]
    previous: Vec<PathBuf>,
    /// Manifest of the service, with the key that signed the statement
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
}

pub(crate) fn run(noun: &StatementNoun) -> Result<(), Failure> {
    let Action::Verify(what) = &noun.action;
    let read = |path: &PathBuf| std::fs::read(path).map_err(|error| file_error(path, &error));
    let in_evidence = |error| file_error(&what.evidence, &error);
    let previous = what.previous.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let manifest = what.manifest.as_ref().map(read).transpose()?;
    let evidence = BufReader::new(File::open(&what.evidence).map_err(in_evidence)?);
    let found = statements::verify(&read(&what.statement)?, evidence, &previous, manifest.as_deref()).map_err(in_evidence)?;
    let lines: String = found.to_string().lines().map(|line| visible(line) + "\n").collect();
    write(lines.as_bytes())?;
    let count = found.differences.len();
    if found.is_ok() { Ok(()) } else { Err(Failure::Failed(differs(&what.statement, count))) }
}

fn differs(statement: &Path, count: usize) -> String {
    let differences = if count == 1 { "1 difference".to_owned() } else { format!("{count} differences") };
    format!("{}: {differences}", statement.display())
}
