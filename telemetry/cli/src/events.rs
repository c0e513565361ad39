//! `telemetry events`: list, tail, export, send and import (docs/api/events.md).

mod export;
mod import;
mod tail;

use crate::client::RequestContent;
use crate::context::{Context, CredentialKind};
use crate::failure::{Failure, file_error};
use crate::labels;
use crate::log_file::open;
use crate::output::{Column, column, computed_column, text};
use crate::reads::{Filters, PageArgs, Window, list};
use axum::body::Bytes;
use axum::http::Method;
use clap::{Args, Subcommand};
use serde_json::Value;
use serde_json::value::RawValue;
use std::io::Read;
use std::path::{Path, PathBuf};

const MAX_BODY_BYTES: u64 = 4 * 1024 * 1024;

/// Events.
#[derive(Args, Clone, Debug)]
pub struct EventsNoun {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Action {
    /// List events, newest first
    #[command(after_help = example!("events list --since 1h"))]
    List(Box<ListArgs>),
    /// Watch new events until interrupted; events that arrive late may be missed
    #[command(after_help = example!("events tail --lines 20"))]
    Tail(tail::Tail),
    /// Export events as documents that another service accepts, one per line
    #[command(after_help = example!("events export --since 2026-10-01 --until 2026-10-31"))]
    Export(Box<export::Export>),
    /// Send one event, an array of events or a request body
    #[command(after_help = example!("events send event.json"))]
    Send(SendArgs),
    /// Import events from an NDJSON file; events already sent aren't counted again
    #[command(after_help = example!("events import events.ndjson --from-line 1001"))]
    Import(import::Import),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    window: Window,
    #[command(flatten)]
    part: PageArgs,
    /// List your own reports and those that used your click tokens
    #[arg(long, conflicts_with_all = ["domain", "delegated_from", "Filters"])]
    agent: bool,
    #[command(flatten)]
    filters: Filters,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct SendArgs {
    /// JSON file, or - for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

const COLUMNS: [Column; 6] = [
    column("time", "/event_timestamp"),
    computed_column("type", |event| labels::event_type(&text(&event["event_type"])).0.to_owned()),
    column("page", "/content_url"),
    computed_column("agent", agent),
    computed_column("reported by", reporters),
    column("event ID", "/event_id"),
];
const CSV_COLUMNS: [Column; 6] = [
    column("time", "/event_timestamp"),
    column("type", "/event_type"),
    column("seen by", "/event_data/observers"),
    column("agent", "/agent_id"),
    column("url", "/content_url"),
    column("id", "/event_id"),
];

/// Returns an event's agent, or the bot that a server identified.
fn agent(event: &Value) -> String {
    let names = [&event["agent_id"], &event["event_data"]["bot_name"]];
    let known = names.into_iter().filter_map(Value::as_str).find(|name| !name.is_empty());
    known.unwrap_or("Unknown").to_owned()
}

/// Returns the roles that reported an event.
fn reporters(event: &Value) -> String {
    let observers = event["event_data"]["observers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let roles = if observers.is_empty() { std::slice::from_ref(&event["source_role"]) } else { observers };
    roles.iter().map(|role| labels::reporter(&text(role)).to_owned()).collect::<Vec<_>>().join(", ")
}

fn path(is_agent: bool) -> &'static str {
    if is_agent { "/agent/events" } else { "/content-owners/events" }
}

pub(crate) async fn run(context: &Context, noun: &EventsNoun) -> Result<(), Failure> {
    match &noun.action {
        Action::List(what) => {
            let parameters = [what.window.parameters(context), what.part.parameters(), what.filters.parameters()].concat();
            list(context, path(what.agent), &parameters, &COLUMNS).await.map(drop)
        }
        Action::Tail(what) => tail::run(context, what).await,
        Action::Export(what) => export::run(context, what).await,
        Action::Send(what) => send(context, &what.file).await,
        Action::Import(what) => import::run(context, what).await,
    }
}

async fn send(context: &Context, file: &Path) -> Result<(), Failure> {
    let mut text = String::new();
    let taken = open(file)?.take(MAX_BODY_BYTES + 1).read_to_string(&mut text).map_err(|error| file_error(file, &error))?;
    if taken as u64 > MAX_BODY_BYTES {
        return Err(Failure::Usage(format!(
            "{}: larger than {MAX_BODY_BYTES} bytes; `telemetry events import` sends it in parts",
            file.display()
        )));
    }
    let body = envelope(text.trim()).map_err(|why| Failure::Usage(format!("{}: {why}", file.display())))?;
    let content = RequestContent { media_type: Some("application/json"), body: Bytes::from(body), ..RequestContent::default() };
    let answer = context.client(CredentialKind::Key)?.send(Method::POST, "/events", &Vec::new(), content).await?.json().await?;
    context.output().object(&answer)
}

/// Wraps one event or an array of events in a request body. Numbers keep their notation.
fn envelope(text: &str) -> Result<String, String> {
    let broken = |error: serde_json::Error| format!("invalid JSON (line {}, column {})", error.line(), error.column());
    let raw: &RawValue = serde_json::from_str(text).map_err(broken)?;
    match raw.get().as_bytes().first() {
        Some(b'[') => Ok(format!("{{\"events\":{raw}}}")),
        Some(b'{') => {
            let members: std::collections::BTreeMap<String, &RawValue> = serde_json::from_str(raw.get()).map_err(broken)?;
            let is_request = members.contains_key("events") || members.contains_key("event");
            Ok(if is_request { raw.to_string() } else { format!("{{\"events\":[{raw}]}}") })
        }
        _ => Err("must be a JSON object or array".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_events_and_arrays_but_not_requests() {
        let request = r#"{"events": [{"n": 1.50}]}"#;
        assert_eq!(envelope(request).as_deref(), Ok(request));
        assert_eq!(envelope(r#"{"type": "x", "n": 1.50}"#).as_deref(), Ok(r#"{"events":[{"type": "x", "n": 1.50}]}"#));
        assert_eq!(envelope(r#"[{"n": 1e400}]"#).as_deref(), Ok(r#"{"events":[{"n": 1e400}]}"#));
        for bad in ["", "x", "{\"a\":", "1", "{} {}"] {
            assert!(envelope(bad).is_err(), "{bad}");
        }
    }
}
