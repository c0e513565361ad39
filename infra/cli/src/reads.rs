//! Figures: `summary`, `series`, `urls`, `crawlers`, `coverage`, `funnel`, `corroboration` (docs/api/reads.md).
//!
//! Must not compute a figure: what the service answers is printed.

use crate::client::{Client, Content, Parameters};
use crate::context::{Asker, Context};
use crate::failure::Failure;
use crate::options::Format;
use crate::output::{Column, column, write};
use crate::talk::say;
use axum::http::Method;
use clap::{Args, ValueEnum};
use serde_json::Value;

mod arguments;
mod series;
mod summary;

pub(crate) use arguments::{List, Part, Sorted, Whole, Window};
pub(crate) use series::{Series, series};
pub(crate) use summary::{Summary, summary};

/// The funnel.
#[derive(Args, Clone, Debug)]
pub struct Funnel {
    #[command(flatten)]
    list: Sorted,
    /// One row for each of these
    #[arg(long, value_enum, default_value_t = Row::Day)]
    by: Row,
}

/// The list of pages.
#[derive(Args, Clone, Debug)]
pub struct Urls {
    #[command(flatten)]
    list: Sorted,
    /// Pages of this path, as /blog/a; or with a * at the end those that begin so, as '/blog/*'
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// One row for each of these
    #[arg(long, value_enum, default_value_t = PageRow::Url)]
    by: PageRow,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PageRow {
    /// Pages
    Url,
    /// Hosts and first steps of paths
    Section,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Row {
    /// Days
    Day,
    /// Agents
    Agent,
    /// Pages
    Url,
}

fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

const URLS: [Column; 5] = [
    column("url", "/content_url"),
    column("events", "/total_events"),
    column("sessions", "/unique_sessions"),
    column("types", "/event_types"),
    column("last seen", "/last_seen"),
];
const CRAWLERS: [Column; 9] = [
    column("operator", "/operator"),
    column("bot", "/bot"),
    column("purpose", "/purpose"),
    column("verified", "/verified"),
    column("retrievals", "/retrievals"),
    column("bytes", "/bytes"),
    column("corroborated", "/corroborated"),
    column("refused", "/refused"),
    column("per click", "/retrievals_per_click"),
];
const CORROBORATION: [Column; 8] = [
    column("day", "/day"),
    column("platform", "/platform_id"),
    column("agent", "/agent_id"),
    column("retrievals", "/retrievals"),
    column("both", "/seen_by_both"),
    column("agent only", "/claimed_by_agent_only"),
    column("server only", "/seen_by_server_only"),
    column("neither", "/seen_by_neither"),
];
const STAGES: [Column; 5] = [
    column("retrieved", "/retrieved"),
    column("grounded", "/grounded"),
    column("cited", "/cited"),
    column("presented", "/presented"),
    column("engaged", "/engaged"),
];
const SPANS: [Column; 3] = [column("start", "/start"), column("end", "/end"), column("covered", "/covered")];

pub(crate) async fn urls(context: &Context, what: &Urls) -> Result<(), Failure> {
    let mut parameters = what.list.parameters(context);
    parameters.extend(what.path.clone().map(|path| ("path", path)));
    parameters.push(("by", name(&what.by)));
    list(context, "/content-owners/urls", &parameters, &URLS).await.map(drop)
}

pub(crate) async fn corroboration(context: &Context, what: &Sorted) -> Result<(), Failure> {
    let parameters = what.parameters(context);
    if let Some(answer) = list(context, "/content-owners/corroboration", &parameters, &CORROBORATION).await? {
        say(answer["note"].as_str().unwrap_or_default());
    }
    Ok(())
}

pub(crate) async fn funnel(context: &Context, what: &Funnel) -> Result<(), Failure> {
    let mut parameters = what.list.parameters(context);
    parameters.push(("by", name(&what.by)));
    let row: &[Column] = match what.by {
        Row::Day => &[column("day", "/day")],
        Row::Agent => &[column("platform", "/platform_id"), column("agent", "/agent_id")],
        Row::Url => &[column("url", "/content_url")],
    };
    list(context, "/content-owners/funnel", &parameters, &[row, &STAGES].concat()).await.map(drop)
}

pub(crate) async fn crawlers(context: &Context, what: &List) -> Result<(), Failure> {
    let parameters = [what.window.parameters(context), what.part.parameters()].concat();
    if let Some(answer) = list(context, "/content-owners/crawlers", &parameters, &CRAWLERS).await? {
        say_coverage(&answer["coverage"]);
    }
    Ok(())
}

pub(crate) async fn coverage(context: &Context, what: &Whole) -> Result<(), Failure> {
    let (client, parameters) = (context.client(Asker::Either)?, what.window.parameters(context));
    if context.options.output == Format::Json {
        return as_document(&client, "/content-owners/coverage", &parameters).await;
    }
    let answer = client.get("/content-owners/coverage", &parameters).await?;
    let spans = answer["coverage"]["spans"].as_array().cloned().unwrap_or_default();
    context.output().list(&answer, &spans, &SPANS)?;
    if context.options.output == Format::Table {
        say_coverage(&answer["coverage"]);
    }
    Ok(())
}

/// Prints an answer that is one document.
async fn as_document(client: &Client, path: &str, parameters: &Parameters) -> Result<(), Failure> {
    let answer = client.send(Method::GET, path, parameters, Content::default()).await?.bytes().await?;
    write(&answer)?;
    write(b"\n")
}

fn say_coverage(coverage: &Value) {
    let hours = |name: &str| coverage[name].as_u64().unwrap_or_default();
    let (covered, uncovered) = (hours("hours_covered"), hours("hours_uncovered"));
    say(&format!(
        "{covered} of {} hours are covered; of the others nothing is known, and no figure of theirs is a zero",
        covered + uncovered
    ));
}

/// Prints a list as the service forms it; the whole answer where a person is to see a table.
pub(crate) async fn list(
    context: &Context,
    path: &str,
    parameters: &Parameters,
    columns: &[Column],
) -> Result<Option<Value>, Failure> {
    let client = context.client(Asker::Either)?;
    if context.options.output != Format::Table {
        pass_on(context, &client, path, parameters).await?;
        return Ok(None);
    }
    let whole = client.get(path, parameters).await?;
    let items = whole["items"].as_array().cloned().unwrap_or_default();
    context.output().list(&whole, &items, columns)?;
    let total = whole["total"].as_u64().unwrap_or(items.len() as u64);
    if total > items.len() as u64 {
        say(&format!("{} of {total} are shown; --limit and --offset show others", items.len()));
    }
    Ok(Some(whole))
}

/// Prints an answer as it arrives: no figure of it is read and written again.
async fn pass_on(context: &Context, client: &Client, path: &str, parameters: &Parameters) -> Result<(), Failure> {
    let accept = match context.options.output {
        Format::Csv => Some("text/csv"),
        Format::Ndjson => Some("application/x-ndjson"),
        Format::Json | Format::Table => None,
    };
    let mut answer = client.send(Method::GET, path, parameters, Content { accept, ..Content::default() }).await?;
    while let Some(part) = answer.part().await? {
        write(&part)?;
    }
    if accept.is_none() { write(b"\n") } else { Ok(()) }
}
