//! `telemetry statement`: closes months, reads statements, and verifies them without network access (docs/api/statements.md).

use crate::client::{Client, Parameters, RequestContent};
use crate::context::{Context, CredentialKind};
use crate::failure::{Failure, file_error};
use crate::output::{Column, column, visible, write};
use crate::retry::send_until_accepted;
use axum::body::Bytes;
use axum::http::Method;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;
use uuid::Uuid;

const PATH: &str = "/content-owners/statements";
/// A month with many events takes longer than one request.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
const COLUMNS: [Column; 8] = [
    column("period", "/period"),
    column("operator", "/operator"),
    column("by", "/by"),
    column("revision", "/revision"),
    column("number", "/number"),
    column("closed", "/closed"),
    column("reports", "/reports"),
    column("id", "/id"),
];

/// Actions on statements.
#[derive(Args, Clone, Debug)]
pub struct StatementNoun {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Action {
    /// List statements, latest first
    #[command(after_help = example!("statement list"))]
    List(OfOwner),
    /// Close a month: create its statement, or a revision with late reports
    #[command(after_help = example!("statement close 2026-10"))]
    Close(Close),
    /// Print a statement
    #[command(after_help = example!("statement get 01987e4c-0000-7000-8000-000000000001 --format csv"))]
    Get(Get),
    /// Print the evidence file of a statement
    #[command(after_help = example!("statement evidence 01987e4c-0000-7000-8000-000000000001"))]
    Evidence(Evidence),
    /// Recount a statement from its evidence file; check signature and chain
    #[command(after_help = example!("statement verify statement.json evidence.ndjson --manifest content-telemetry.json"))]
    Verify(Verify),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct OfOwner {
    /// Content owner who shares its data with you
    #[arg(long, value_name = "ID")]
    delegated_from: Option<Uuid>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Close {
    /// Month that has ended, in UTC, as in 2026-10
    #[arg(value_name = "MONTH")]
    period: String,
    /// Only events of this operator, such as OpenAI
    #[arg(long, value_name = "NAME")]
    operator: Option<String>,
    /// Group by page or section
    #[arg(long, value_enum, default_value_t = By::Url)]
    by: By,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum By {
    /// One line per page
    Url,
    /// One line per section, such as https://example.com/blog/*
    Section,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Get {
    /// ID of the statement
    #[arg(value_name = "ID")]
    id: Uuid,
    /// Format
    #[arg(long, value_enum, default_value_t = StatementFormat::Json)]
    format: StatementFormat,
    #[command(flatten)]
    of: OfOwner,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StatementFormat {
    /// The signed document
    Json,
    /// One row per line and measure
    Csv,
    /// The same as a workbook
    Xlsx,
    /// Metrics of COUNTER, as CSV
    Counter,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Evidence {
    /// ID of the statement
    #[arg(value_name = "ID")]
    id: Uuid,
    #[command(flatten)]
    of: OfOwner,
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

impl OfOwner {
    fn parameters(&self) -> Parameters {
        self.delegated_from.map(|id| ("delegated_from", id.to_string())).into_iter().collect()
    }
}

pub(crate) async fn run(context: &Context, noun: &StatementNoun) -> Result<(), Failure> {
    let client = || context.client(CredentialKind::KeyOrPerson);
    match &noun.action {
        Action::List(of) => {
            let page = client()?.get(PATH, &of.parameters()).await?;
            let items = page["items"].as_array().map(Vec::as_slice).unwrap_or_default();
            context.output().list(&page, items, &COLUMNS)
        }
        Action::Close(what) => context.output().object(&close(&client()?, what).await?),
        Action::Get(what) => {
            let format = what.format.to_possible_value().map(|format| format.get_name().to_owned()).unwrap_or_default();
            let parameters = what.of.parameters().into_iter().chain([("format", format)]).collect();
            print(&client()?, &format!("{PATH}/{}", what.id), &parameters).await
        }
        Action::Evidence(what) => print(&client()?, &format!("{PATH}/{}/evidence", what.id), &what.of.parameters()).await,
        Action::Verify(what) => verify(what),
    }
}

async fn close(client: &Client, what: &Close) -> Result<Value, Failure> {
    let by = if matches!(what.by, By::Section) { "section" } else { "url" };
    let month = json!({"period": what.period, "operator": what.operator, "by": by});
    let (media_type, body) = (Some("application/json"), Bytes::from(month.to_string()));
    let content = RequestContent { media_type, body, ..RequestContent::default() };
    send_until_accepted(client, PATH, &Vec::new(), &content, PATIENCE).await
}

/// Prints a response as it arrives, without a change.
async fn print(client: &Client, path: &str, parameters: &Parameters) -> Result<(), Failure> {
    let mut response = client.send(Method::GET, path, parameters, RequestContent::default()).await?;
    while let Some(part) = response.next_chunk().await? {
        write(&part)?;
    }
    Ok(())
}

fn verify(what: &Verify) -> Result<(), Failure> {
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
