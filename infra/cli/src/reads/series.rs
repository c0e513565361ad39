//! `series`: figures by hour or day.

use super::{Window, list, name};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, column};
use clap::{Args, ValueEnum};

/// Figures over time.
#[derive(Args, Clone, Debug)]
pub struct Series {
    #[command(flatten)]
    window: Window,
    /// Length of a bucket
    #[arg(long, value_enum, default_value_t = Bucket::Day)]
    by: Bucket,
    /// What each bucket is split by; `outcome` is for --agent, `platform` and what servers say of bots for content owners
    #[arg(long, value_enum, default_value_t = Split::None)]
    split: Split,
    /// What the organisation reported itself as an agent or a platform
    #[arg(long, conflicts_with_all = ["domain", "delegated_from"])]
    agent: bool,
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
    /// By operator of the bot that fetched
    Operator,
    /// By bot that fetched
    Bot,
    /// By what the bot fetches for
    Purpose,
    /// By whether the bot asked from an address of its operator
    Verified,
    /// By HTTP status of the answer
    Status,
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
            Split::Operator => &[column("operator", "/operator")],
            Split::Bot => &[column("bot", "/bot")],
            Split::Purpose => &[column("purpose", "/purpose")],
            Split::Verified => &[column("verified", "/verified")],
            Split::Status => &[column("status", "/status")],
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
