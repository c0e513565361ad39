//! `series`: events by hour or day.

use super::{Filters, PLATFORM, Window, agent, list, name};
use crate::context::Context;
use crate::failure::Failure;
use crate::labels;
use crate::output::{Column, column, computed_column, text};
use clap::{Args, ValueEnum};
use serde_json::Value;

/// Figures over time.
#[derive(Args, Clone, Debug)]
pub struct Series {
    #[command(flatten)]
    window: Window,
    /// Length of each period
    #[arg(long, value_enum, default_value_t = Bucket::Day)]
    by: Bucket,
    /// Split each period by this value (with --agent: type, role, agent or outcome)
    #[arg(long, value_enum, default_value_t = Split::None)]
    split: Split,
    /// Read your own reports, as an agent or platform
    #[arg(long, conflicts_with_all = ["domain", "delegated_from", "Filters"])]
    agent: bool,
    #[command(flatten)]
    filters: Filters,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Bucket {
    /// One row per hour, in UTC
    Hour,
    /// One row per day, in UTC
    Day,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Split {
    /// No split
    None,
    /// Event type
    Type,
    /// Reporter: AI agent, CDN, your server or marketplace
    Role,
    /// Agent
    Agent,
    /// Platform
    Platform,
    /// Agent or, without an agent, bot
    #[value(name = "agent_or_bot")]
    AgentOrBot,
    /// Outcome of the fetch; with --agent, of the session
    Outcome,
    /// Operator of the bot
    Operator,
    /// Bot
    Bot,
    /// Purpose of the bot: user request, training or search index
    Purpose,
    /// IP check: whether the request came from the bot's published addresses
    Verified,
    /// HTTP status code
    Status,
    /// Evidence: claimed, observed or corroborated; signed events count again
    Evidence,
    /// Signature check: valid, invalid or none
    Signature,
}

pub(crate) async fn series(context: &Context, what: &Series) -> Result<(), Failure> {
    let path = if what.agent { "/agent/series" } else { "/content-owners/series" };
    let mut parameters = [what.window.parameters(context), what.filters.parameters()].concat();
    parameters.extend([("by", name(&what.by)), ("split", name(&what.split))]);
    list(context, path, &parameters, &what.columns()).await.map(drop)
}

/// Returns a value, or "Unknown" if it is empty or 0.
fn value_or_unknown(value: &Value) -> String {
    match text(value).as_str() {
        "" | "0" => "Unknown".to_owned(),
        value => value.to_owned(),
    }
}

impl Series {
    fn columns(&self) -> Vec<Column> {
        let value: &[Column] = match self.split {
            Split::None => &[],
            Split::Type => &[computed_column("type", |item| labels::event_type(&text(&item["event_type"])).1.to_owned())],
            Split::Role => &[computed_column("reported by", |item| labels::reporter(&text(&item["source_role"])).to_owned())],
            Split::Agent => &[computed_column("agent", agent)],
            Split::Platform => &[PLATFORM],
            Split::AgentOrBot => &[computed_column("agent or bot", |item| value_or_unknown(&item["agent_or_bot"]))],
            Split::Outcome if self.agent => &[column("outcome", "/outcome_type"), column("currency", "/currency")],
            Split::Outcome => &[computed_column("outcome", |item| value_or_unknown(&item["outcome"]))],
            Split::Evidence => &[computed_column("evidence", |item| value_or_unknown(&item["evidence"]))],
            Split::Signature => &[computed_column("signature", |item| text(&item["signature"]))],
            Split::Operator => &[computed_column("operator", |item| value_or_unknown(&item["operator"]))],
            Split::Bot => &[computed_column("bot", |item| value_or_unknown(&item["bot"]))],
            Split::Purpose => &[computed_column("purpose", |item| labels::purpose(&text(&item["purpose"])).to_owned())],
            Split::Verified => &[computed_column("IP check", |item| labels::ip_check(&item["verified"]).to_owned())],
            Split::Status => &[computed_column("status code", |item| value_or_unknown(&item["status"]))],
        };
        let events: &[Column] = &[column("events", "/total_events"), column("sessions", "/total_sessions")];
        let clicks = column("via click tokens", "/clicks");
        let last: &[Column] = if matches!(self.split, Split::Agent) && !self.agent { &[PLATFORM] } else { &[] };
        let figures = match (self.agent, self.split) {
            (true, Split::Outcome) => vec![column("outcomes", "/outcomes"), column("value", "/value_amount")],
            (true, Split::None) => [events, &[clicks, column("outcomes", "/outcomes")]].concat(),
            (true, Split::Type) => [events, &[clicks]].concat(),
            _ => events.to_vec(),
        };
        [&[column("start", "/start")], value, &figures, last].concat()
    }
}
