//! `telemetry bots`: identifies user agents with the service's bot table, and compares the table with public lists
//! (docs/api/crawlers.md#bot-table).
//!
//! Doesn't use the network: user agents and addresses never leave the machine.

mod diff;
mod public_list;

use crate::context::Context;
use crate::failure::{Failure, file_error};
use crate::labels::{ip_check, purpose};
use clap::{Args, Subcommand};
use schemas::bots::{BotTable, Classified, Sender};
use serde_json::json;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Actions on the bot table.
#[derive(Args, Clone, Debug)]
pub struct BotsNoun {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Action {
    /// Identify a bot by its user agent, and verify its IP address
    #[command(after_help = example!("bots check 'Mozilla/5.0 (compatible; GPTBot/1.2)' 132.196.86.7"))]
    Check(Check),
    /// Compare the bot table with a public list of bots
    ///
    /// Reads the robots.json of ai.robots.txt, crawler-user-agents.json, or a bot table. Lists the bots that the table doesn't
    /// have, those with another operator or purpose, and those that the list doesn't have. Exits with 1 if a bot is missing in the
    /// table. Changes nothing.
    #[command(after_help = example!("bots diff robots.json"))]
    Diff(diff::Diff),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Check {
    /// User agent of the request
    #[arg(value_name = "USER_AGENT")]
    user_agent: String,
    /// IP address of the request
    #[arg(value_name = "ADDRESS")]
    address: Option<IpAddr>,
    /// Signature-Agent header of the request
    #[arg(long, value_name = "HEADER")]
    signature_agent: Option<String>,
    /// Bot category from the CDN, such as Cloudflare's "AI Crawler"
    #[arg(long, value_name = "CATEGORY")]
    category: Option<String>,
    #[command(flatten)]
    table: Table,
}

/// Which bot table to use.
#[derive(Args, Clone, Debug)]
pub(crate) struct Table {
    /// Custom bot table, in the format of TELEMETRY_BOTS_FILE
    #[arg(long, value_name = "FILE")]
    bots_file: Option<PathBuf>,
}

impl Table {
    pub(crate) fn load(&self) -> Result<Arc<BotTable>, Failure> {
        self.bots_file.as_deref().map_or_else(|| Ok(BotTable::bundled()), read)
    }
}

fn read(file: &Path) -> Result<Arc<BotTable>, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| file_error(file, &error))?;
    let table = BotTable::parse(&text);
    table.map(Arc::new).map_err(|error| Failure::Usage(format!("{}: invalid bot table: {error}", file.display())))
}

pub(crate) fn run(context: &Context, noun: &BotsNoun) -> Result<(), Failure> {
    match &noun.action {
        Action::Check(what) => check(context, what),
        Action::Diff(what) => diff::run(context, what),
    }
}

fn check(context: &Context, what: &Check) -> Result<(), Failure> {
    let table = what.table.load()?;
    let found = table.classify(&Sender {
        user_agent: &what.user_agent,
        signature_agent: what.signature_agent.as_deref(),
        category: what.category.as_deref(),
        address: what.address,
    });
    let text = |of: fn(&Classified) -> &Arc<str>| found.as_ref().map(of).map(ToString::to_string);
    let answer = json!({
        "bot": text(|found| &found.bot),
        "variant": found.as_ref().and_then(|found| found.variant.as_deref()),
        "operator": text(|found| &found.operator),
        "purpose": found.as_ref().map(|found| found.purpose),
        "verified": found.as_ref().and_then(|found| found.verified),
        "addresses": found.as_ref().and_then(|found| found.list.as_deref()),
        "cdn": found.is_none().then(|| table.cdn(&what.user_agent)).flatten(),
        "documentation": text(|found| &found.documentation),
        "table": table.version().to_string(),
    });
    let known = |member: &str| answer[member].as_str().filter(|text| !text.is_empty()).unwrap_or("Unknown").to_owned();
    let mut facts = vec![
        ("Bot", known("bot")),
        ("Operator", known("operator")),
        ("Purpose", purpose(&known("purpose")).to_owned()),
        ("IP check", ip_check(&answer["verified"]).to_owned()),
        ("Documentation", known("documentation")),
        ("Bot table", known("table")),
    ];
    if answer["variant"].is_string() {
        facts.insert(1, ("Variant", known("variant")));
    }
    if let Some(list) = found.as_ref().and_then(|found| found.list.as_ref()) {
        let changes = if list.changes { ", changes often" } else { "" };
        facts.push(("IP list", format!("{} of {}{changes}", list.source, list.as_of)));
    }
    if answer["cdn"].is_string() {
        facts.push(("CDN", known("cdn")));
    }
    context.output().object_as(&answer, &facts)
}
