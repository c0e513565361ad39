//! Figures: `summary`, `series`, `urls`, `crawlers`, `coverage`, `funnel`, `corroboration` (docs/api/reads.md).
//!
//! Must not compute a figure: what the service answers is printed.

use crate::client::{Client, Content, Parameters};
use crate::context::{Asker, Context};
use crate::failure::Failure;
use crate::options::Format;
use crate::output::{Column, column, text, write};
use crate::talk::say;
use crate::window::Moment;
use axum::http::Method;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use uuid::Uuid;

/// The window and whose figures.
#[derive(Args, Clone, Debug)]
pub(crate) struct Window {
    /// Begin of the window: 30m, 24h, 7d or 4w before now, a day, or an instant
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    since: Option<Moment>,
    /// End of the window, in the same forms; a day is included, an instant is not
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    until: Option<Moment>,
    /// One verified domain, or a host beneath one
    #[arg(long, value_name = "HOST")]
    domain: Option<String>,
    /// Content owner whose figures are read by its delegation
    #[arg(long, value_name = "ORGANIZATION")]
    delegated_from: Option<Uuid>,
}

impl Window {
    pub(crate) fn parameters(&self, context: &Context) -> Parameters {
        let now = context.clock.now();
        let all = [
            ("since", self.since.as_ref().map(|moment| moment.at(now))),
            ("until", self.until.as_ref().map(|moment| moment.at(now))),
            ("domain", self.domain.clone()),
            ("delegated_from", self.delegated_from.map(|id| id.to_string())),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// A part of a list.
#[derive(Args, Clone, Debug)]
pub(crate) struct Part {
    /// Most items, 1,000 at most
    #[arg(long, value_name = "NUMBER")]
    limit: Option<u32>,
    /// Items before the first one that is shown
    #[arg(long, value_name = "NUMBER")]
    offset: Option<u64>,
}

impl Part {
    pub(crate) fn parameters(&self) -> Parameters {
        let all =
            [("limit", self.limit.map(|limit| limit.to_string())), ("offset", self.offset.map(|offset| offset.to_string()))];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// A read of the whole window.
#[derive(Args, Clone, Debug)]
pub struct Whole {
    #[command(flatten)]
    window: Window,
}

/// A read of a list.
#[derive(Args, Clone, Debug)]
pub struct List {
    #[command(flatten)]
    window: Window,
    #[command(flatten)]
    part: Part,
}

/// A summary.
#[derive(Args, Clone, Debug)]
pub struct Summary {
    #[command(flatten)]
    window: Window,
    /// What the organisation reported itself as an agent or a platform
    #[arg(long, conflicts_with_all = ["domain", "delegated_from"])]
    agent: bool,
}

/// Figures over time.
#[derive(Args, Clone, Debug)]
pub struct Series {
    #[command(flatten)]
    window: Window,
    /// Length of a bucket
    #[arg(long, value_enum, default_value_t = Bucket::Day)]
    by: Bucket,
    /// What each bucket is split by; `outcome` is for --agent, `platform` for content owners
    #[arg(long, value_enum, default_value_t = Split::None)]
    split: Split,
    /// What the organisation reported itself as an agent or a platform
    #[arg(long, conflicts_with_all = ["domain", "delegated_from"])]
    agent: bool,
}

/// The funnel.
#[derive(Args, Clone, Debug)]
pub struct Funnel {
    #[command(flatten)]
    window: Window,
    #[command(flatten)]
    part: Part,
    /// One row for each of these
    #[arg(long, value_enum, default_value_t = Row::Day)]
    by: Row,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Bucket {
    /// An hour of UTC
    Hour,
    /// A day of UTC
    Day,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Split {
    /// By nothing
    None,
    /// By type of event
    Type,
    /// By role of the reporter
    Role,
    /// By agent
    Agent,
    /// By platform
    Platform,
    /// By outcome of the session
    Outcome,
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

const FIGURE: [Column; 2] = [column("figure", "/figure"), column("value", "/value")];
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

pub(crate) async fn summary(context: &Context, what: &Summary) -> Result<(), Failure> {
    let path = if what.agent { "/agent/summary" } else { "/content-owners/summary" };
    let (client, parameters) = (context.client(Asker::Either)?, what.window.parameters(context));
    if matches!(context.options.output, Format::Json | Format::Ndjson) {
        return as_document(&client, path, &parameters).await;
    }
    let answer = client.get(path, &parameters).await?;
    context.output().list(&answer, &figures("", &answer), &FIGURE)
}

/// Every figure of an answer, with the names that lead to it.
fn figures(path: &str, value: &Value) -> Vec<Value> {
    let join = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path} {name}") };
    match value {
        Value::Object(members) => {
            let names: Vec<&str> = members.values().filter_map(Value::as_str).collect();
            // within a list the texts of an item are its name, and its numbers the figures
            let is_item = !path.is_empty() && !names.is_empty();
            let numbers = members.values().filter(|value| value.is_number()).count();
            let of = |(member, value): (&String, &Value)| match (is_item, value.is_string()) {
                (true, true) => Vec::new(),
                (true, false) if numbers == 1 && value.is_number() => figures(&join(&names.join(" ")), value),
                (true, false) => figures(&join(&format!("{} {member}", names.join(" "))), value),
                (false, _) => figures(&join(member), value),
            };
            members.iter().flat_map(of).collect()
        }
        Value::Array(values) if values.iter().any(Value::is_object) => {
            values.iter().flat_map(|value| figures(path, value)).collect()
        }
        Value::Array(values) if values.is_empty() && path != "domains" => Vec::new(),
        value => vec![json!({"figure": path, "value": if value.is_array() { json!(text(value)) } else { value.clone() }})],
    }
}

pub(crate) async fn urls(context: &Context, what: &List) -> Result<(), Failure> {
    let parameters = [what.window.parameters(context), what.part.parameters()].concat();
    list(context, "/content-owners/urls", &parameters, &URLS).await.map(drop)
}

pub(crate) async fn corroboration(context: &Context, what: &List) -> Result<(), Failure> {
    let parameters = [what.window.parameters(context), what.part.parameters()].concat();
    if let Some(answer) = list(context, "/content-owners/corroboration", &parameters, &CORROBORATION).await? {
        say(answer["note"].as_str().unwrap_or_default());
    }
    Ok(())
}

pub(crate) async fn funnel(context: &Context, what: &Funnel) -> Result<(), Failure> {
    let mut parameters = [what.window.parameters(context), what.part.parameters()].concat();
    parameters.push(("by", name(&what.by)));
    let row: &[Column] = match what.by {
        Row::Day => &[column("day", "/day")],
        Row::Agent => &[column("platform", "/platform_id"), column("agent", "/agent_id")],
        Row::Url => &[column("url", "/content_url")],
    };
    list(context, "/content-owners/funnel", &parameters, &[row, &STAGES].concat()).await.map(drop)
}

pub(crate) async fn series(context: &Context, what: &Series) -> Result<(), Failure> {
    let path = if what.agent { "/agent/series" } else { "/content-owners/series" };
    let mut parameters = what.window.parameters(context);
    parameters.extend([("by", name(&what.by)), ("split", name(&what.split))]);
    list(context, path, &parameters, &what.columns()).await.map(drop)
}

impl Series {
    fn columns(&self) -> Vec<Column> {
        let value: &[Column] = match self.split {
            Split::None => &[],
            Split::Type => &[column("type", "/event_type")],
            Split::Role => &[column("role", "/source_role")],
            Split::Agent if self.agent => &[column("agent", "/agent_id")],
            Split::Agent => &[column("platform", "/platform_id"), column("agent", "/agent_id")],
            Split::Platform => &[column("platform", "/platform_id")],
            Split::Outcome => &[column("outcome", "/outcome_type"), column("currency", "/currency")],
        };
        let events: &[Column] = &[column("events", "/total_events"), column("sessions", "/total_sessions")];
        let clicks = column("clicks", "/clicks");
        let figures = match (self.agent, self.split) {
            (_, Split::Outcome) => vec![column("outcomes", "/outcomes"), column("value", "/value_amount")],
            (true, Split::None) => [events, &[clicks, column("outcomes", "/outcomes")]].concat(),
            (true, Split::Type) => [events, &[clicks]].concat(),
            _ => events.to_vec(),
        };
        [&[column("start", "/start")], value, &figures].concat()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_of_a_summary_is_a_row_with_the_names_that_lead_to_it() {
        let answer = json!({
            "organization_id": "o", "domains": ["a.example", "b.example"], "total_events": 3,
            "events_by_type": [{"event_type": "content_cited", "count": 2}],
            "agents": [{"agent_id": "x", "event_count": 3, "session_count": 1}],
            "clicks": {"total_events": 0, "events_by_type": []}, "period_start": null,
        });
        let rows = figures("", &answer);
        let rows: Vec<(String, String)> = rows.iter().map(|row| (text(&row["figure"]), text(&row["value"]))).collect();
        for expected in [
            ("domains", "a.example, b.example"),
            ("total_events", "3"),
            ("events_by_type content_cited", "2"),
            ("agents x event_count", "3"),
            ("clicks total_events", "0"),
        ] {
            assert!(rows.contains(&(expected.0.to_owned(), expected.1.to_owned())), "{expected:?} in {rows:?}");
        }
    }
}
