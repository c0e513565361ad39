//! `reconciliation`: differences between what agents claim and what servers saw.

use super::{PLATFORM, PagedRead, agent, list, name};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, column, computed_column};
use clap::{Args, ValueEnum};

/// The list of findings.
#[derive(Args, Clone, Debug)]
pub struct Reconciliation {
    #[command(flatten)]
    list: PagedRead,
    /// Group by finding, agent or page, or list fetches
    #[arg(long, value_enum, default_value_t = Row::Finding)]
    by: Row,
    /// Only fetches with this finding, such as missing or extra
    #[arg(long, value_name = "FINDING")]
    finding: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Row {
    /// One row per operator and finding
    Finding,
    /// One row per operator, finding and agent
    Agent,
    /// One row per operator, finding and page
    Url,
    /// One row per fetch
    Event,
}

const FINDING: [Column; 2] = [column("operator", "/operator"), column("finding", "/finding")];
const FETCHES: [Column; 2] = [column("fetches", "/fetches"), column("last fetch", "/last_seen")];

pub(crate) async fn reconciliation(context: &Context, what: &Reconciliation) -> Result<(), Failure> {
    let mut parameters = what.list.parameters(context);
    parameters.push(("by", name(&what.by)));
    parameters.extend(what.finding.clone().map(|finding| ("finding", finding)));
    let (agent, url) = ([computed_column("agent", agent)], [column("page", "/content_url")]);
    let columns: Vec<Column> = match what.by {
        Row::Finding => [&FINDING[..], &FETCHES].concat(),
        Row::Agent => [&FINDING[..], &agent, &FETCHES, &[PLATFORM]].concat(),
        Row::Url => [&FINDING[..], &url, &FETCHES].concat(),
        Row::Event => {
            [&[column("time", "/event_timestamp")][..], &FINDING, &url, &agent, &[column("event ID", "/event_id")]].concat()
        }
    };
    list(context, "/content-owners/reconciliation", &parameters, &columns).await.map(drop)
}
