//! Figures: `summary`, `series`, `urls`, `crawlers`, `robots`, `coverage`, `funnel`, `corroboration` (docs/api/reads.md).

use crate::client::{Client, Parameters, RequestContent};
use crate::context::{Context, CredentialKind};
use crate::failure::Failure;
use crate::labels;
use crate::options::Format;
use crate::output::{Column, PassThrough, column, computed_column, text, write};
use crate::terminal::print_message;
use axum::http::Method;
use clap::{Args, ValueEnum};
use serde_json::Value;

mod arguments;
mod reconciliation;
mod series;
mod summary;

pub(crate) use arguments::{Filters, PageArgs, PagedRead, SortedRead, UnpagedRead, Window};
pub(crate) use reconciliation::{Reconciliation, reconciliation};
pub(crate) use series::{Series, series};
pub(crate) use summary::{Summary, summary};

/// The funnel.
#[derive(Args, Clone, Debug)]
pub struct Funnel {
    #[command(flatten)]
    list: SortedRead,
    /// Group by day, agent or page
    #[arg(long, value_enum, default_value_t = Row::Day)]
    by: Row,
}

/// The list of pages.
#[derive(Args, Clone, Debug)]
pub struct Urls {
    #[command(flatten)]
    list: SortedRead,
    /// Group by page, section, or page and agent
    #[arg(long, value_enum, default_value_t = PageRow::Url)]
    by: PageRow,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PageRow {
    /// One row per page
    Url,
    /// One row per section, such as https://example.com/blog/*
    Section,
    /// One row per page and agent or bot
    #[value(name = "page,agent")]
    PageAndAgent,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Row {
    /// One row per day
    Day,
    /// One row per agent
    Agent,
    /// One row per page
    Url,
}

fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

const URLS: [Column; 11] = [
    column("url", "/content_url"),
    column("events", "/total_events"),
    MEASURES[0],
    MEASURES[1],
    MEASURES[2],
    MEASURES[4],
    MEASURES[5],
    MEASURES[6],
    MEASURES[7],
    column("sessions", "/unique_sessions"),
    column("last seen", "/last_seen"),
];
const CRAWLERS: [Column; 9] = [
    column("operator", "/operator"),
    column("bot", "/bot"),
    computed_column("purpose", |bot| labels::purpose(&text(&bot["purpose"])).to_owned()),
    computed_column("IP check", |bot| labels::ip_check(&bot["verified"]).to_owned()),
    column("fetches", "/retrievals"),
    column("confirmed", "/corroborated"),
    column("not served", "/refused"),
    column("fetches per visit", "/retrievals_per_click"),
    column("bytes", "/bytes"),
];
const CORROBORATION: [Column; 8] = [
    column("day", "/day"),
    computed_column("agent", agent),
    column("fetches", "/retrievals"),
    column("confirmed", "/seen_by_both"),
    column("claimed only", "/claimed_by_agent_only"),
    column("server only", "/seen_by_server_only"),
    column("neither", "/seen_by_neither"),
    PLATFORM_NAME,
];
/// Distinguishes agents with the same name.
const PLATFORM: Column = column("platform ID", "/platform_id");
const PLATFORM_NAME: Column = column("organization", "/platform_name");
const MEASURES: [Column; 8] = [
    column("fetches", "/fetched"),
    column("failed", "/failed"),
    column("revalidated", "/revalidated"),
    column("groundings", "/grounded"),
    column("citations", "/cited"),
    column("presentations", "/presented"),
    column("engagements", "/engagements"),
    column("visits", "/visits"),
];
const ROBOTS: [Column; 6] = [
    computed_column("page", |item| format!("{}{}", text(&item["host"]), text(&item["path"]))),
    column("bot", "/bot"),
    column("operator", "/operator"),
    column("fetches", "/fetches"),
    column("last fetch", "/last_fetch"),
    computed_column("line in robots.txt", |item| format!("{}: {}", item["rule_line"], text(&item["rule"]))),
];
const SPANS: [Column; 3] = [column("start", "/start"), column("end", "/end"), column("covered", "/covered")];
const SPANS_WITH_DATA: [Column; 3] = [column("start", "/start"), column("end", "/end"), column("has data", "/covered")];

/// Returns the bot of an item without an agent.
fn agent_or_bot(item: &Value) -> String {
    match text(&item["bot"]) {
        bot if bot.is_empty() => agent(item),
        bot => bot,
    }
}

fn agent(item: &Value) -> String {
    match (item["agent_id"].as_str().unwrap_or_default(), item["platform_id"].as_str()) {
        ("", Some("")) => "Crawlers (undeclared)".to_owned(),
        ("", _) => "Unknown".to_owned(),
        (name, _) => name.to_owned(),
    }
}

pub(crate) async fn urls(context: &Context, what: &Urls) -> Result<(), Failure> {
    let mut parameters = what.list.parameters(context);
    parameters.push(("by", name(&what.by)));
    let agent: &[Column] = if matches!(what.by, PageRow::PageAndAgent) { &[computed_column("agent", agent_or_bot)] } else { &[] };
    list(context, "/content-owners/urls", &parameters, &[&URLS[..1], agent, &URLS[1..]].concat()).await.map(drop)
}

pub(crate) async fn corroboration(context: &Context, what: &SortedRead) -> Result<(), Failure> {
    let parameters = what.parameters(context);
    if list(context, "/content-owners/corroboration", &parameters, &CORROBORATION).await?.is_some() {
        print_message("A fetch is confirmed if its agent and another organization's server reported it.");
    }
    Ok(())
}

pub(crate) async fn funnel(context: &Context, what: &Funnel) -> Result<(), Failure> {
    let mut parameters = what.list.parameters(context);
    parameters.push(("by", name(&what.by)));
    let row: &[Column] = match what.by {
        Row::Day => &[column("day", "/day")],
        Row::Agent => &[computed_column("agent", agent_or_bot)],
        Row::Url => &[column("url", "/content_url")],
    };
    let last: &[Column] = if matches!(what.by, Row::Agent) { &[PLATFORM_NAME] } else { &[] };
    list(context, "/content-owners/funnel", &parameters, &[row, &MEASURES, last].concat()).await.map(drop)
}

pub(crate) async fn crawlers(context: &Context, what: &PagedRead) -> Result<(), Failure> {
    let parameters = what.parameters(context);
    if let Some(answer) = list(context, "/content-owners/crawlers", &parameters, &CRAWLERS).await? {
        print_message(&labels::coverage(&answer["coverage"]));
    }
    Ok(())
}

pub(crate) async fn robots(context: &Context, what: &PagedRead) -> Result<(), Failure> {
    let parameters = what.parameters(context);
    if let Some(answer) = list(context, "/content-owners/robots", &parameters, &ROBOTS).await? {
        let [disallowed, allowed, unknown] = ["disallowed", "allowed", "unknown"].map(|name| &answer["fetches"][name]);
        print_message(&format!("robots.txt disallowed {disallowed} fetches and allowed {allowed}."));
        if *unknown != 0 {
            print_message(&format!("Fetches that can't be compared, because robots.txt wasn't known: {unknown}."));
        }
    }
    Ok(())
}

pub(crate) async fn coverage(context: &Context, what: &UnpagedRead) -> Result<(), Failure> {
    let (client, parameters) = (context.client(CredentialKind::KeyOrPerson)?, what.window.parameters(context));
    if context.options.output == Format::Json {
        return print_document(&client, "/content-owners/coverage", &parameters).await;
    }
    let answer = client.get("/content-owners/coverage", &parameters).await?;
    let spans = answer["coverage"]["spans"].as_array().cloned().unwrap_or_default();
    context.output().list_as(&answer, &spans, &SPANS_WITH_DATA, &SPANS)?;
    if context.options.output == Format::Table {
        print_message(&labels::coverage(&answer["coverage"]));
        answer["drains"].as_array().into_iter().flatten().for_each(|drain| print_message(&labels::drain_lines(drain)));
    }
    Ok(())
}

/// Prints a response that is one document.
async fn print_document(client: &Client, path: &str, parameters: &Parameters) -> Result<(), Failure> {
    let answer = client.send(Method::GET, path, parameters, RequestContent::default()).await?.bytes().await?;
    PassThrough::default().write(&answer)?;
    write(b"\n")
}

/// Prints a list in the service's format, or as a table. For a table, returns the response.
pub(crate) async fn list(
    context: &Context,
    path: &str,
    parameters: &Parameters,
    columns: &[Column],
) -> Result<Option<Value>, Failure> {
    let client = context.client(CredentialKind::KeyOrPerson)?;
    if context.options.output != Format::Table {
        print_as_received(context, &client, path, parameters).await?;
        return Ok(None);
    }
    let whole = client.get(path, parameters).await?;
    let items = whole["items"].as_array().cloned().unwrap_or_default();
    context.output().list(&whole, &items, columns)?;
    let total = whole["total"].as_u64().unwrap_or(items.len() as u64);
    if total > items.len() as u64 {
        print_message(&format!("Showing {} of {total}. Use --limit and --offset to see others.", items.len()));
    }
    Ok(Some(whole))
}

/// Prints a response as it arrives, so its numbers stay unchanged.
async fn print_as_received(context: &Context, client: &Client, path: &str, parameters: &Parameters) -> Result<(), Failure> {
    let accept = match context.options.output {
        Format::Csv => Some("text/csv"),
        Format::Ndjson => Some("application/x-ndjson"),
        Format::Json | Format::Table => None,
    };
    let mut answer = client.send(Method::GET, path, parameters, RequestContent { accept, ..RequestContent::default() }).await?;
    let mut passed_on = if context.options.output == Format::Csv { PassThrough::csv() } else { PassThrough::default() };
    while let Some(part) = answer.next_chunk().await? {
        passed_on.write(&part)?;
    }
    if accept.is_none() { write(b"\n") } else { Ok(()) }
}
