//! `telemetry events`: list, tail, send, import (docs/api/events.md).
//!
//! Must send nothing of a file that is no JSON.

mod import;
mod tail;

use crate::client::Content;
use crate::context::{Asker, Context};
use crate::failure::{Failure, of_file};
use crate::log_file::open;
use crate::output::{Column, column};
use crate::reads::{Part, Window, list};
use axum::body::Bytes;
use axum::http::Method;
use clap::{Args, Subcommand};
use serde_json::value::RawValue;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Largest body that the service takes.
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
    List(Listed),
    /// Show the newest events by their time, again and again until interrupted; a late event of an older time may be missed
    Tail(tail::Tail),
    /// Send one body as it is: a request with `events`, one event, or an array of events
    Send(Sent),
    /// Send a file of events, one JSON object a line; what was sent before counts once
    Import(import::Import),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Listed {
    #[command(flatten)]
    window: Window,
    #[command(flatten)]
    part: Part,
    /// What the organisation reported itself, and what others did with its click tokens
    #[arg(long, conflicts_with_all = ["domain", "delegated_from"])]
    agent: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Sent {
    /// File of the body, `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

const COLUMNS: [Column; 6] = [
    column("time", "/event_timestamp"),
    column("type", "/event_type"),
    column("seen by", "/event_data/observers"),
    column("agent", "/agent_id"),
    column("url", "/content_url"),
    column("id", "/event_id"),
];

/// Where events are read.
fn path(is_agent: bool) -> &'static str {
    if is_agent { "/agent/events" } else { "/content-owners/events" }
}

pub(crate) async fn run(context: &Context, noun: &EventsNoun) -> Result<(), Failure> {
    match &noun.action {
        Action::List(what) => {
            let parameters = [what.window.parameters(context), what.part.parameters()].concat();
            list(context, path(what.agent), &parameters, &COLUMNS).await.map(drop)
        }
        Action::Tail(what) => tail::run(context, what).await,
        Action::Send(what) => send(context, &what.file).await,
        Action::Import(what) => import::run(context, what).await,
    }
}

async fn send(context: &Context, file: &Path) -> Result<(), Failure> {
    let mut text = String::new();
    let taken = open(file)?.take(MAX_BODY_BYTES + 1).read_to_string(&mut text).map_err(|error| of_file(file, &error))?;
    if taken as u64 > MAX_BODY_BYTES {
        return Err(Failure::Usage(format!(
            "{}: a request holds {MAX_BODY_BYTES} bytes at most; `events import` cuts",
            file.display()
        )));
    }
    let body = envelope(text.trim()).map_err(|why| Failure::Usage(format!("{}: {why}", file.display())))?;
    let content = Content { media_type: Some("application/json"), body: Bytes::from(body), ..Content::default() };
    let answer = context.client(Asker::Key)?.send(Method::POST, "/events", &Vec::new(), content).await?.json().await?;
    context.output().object(&answer)
}

/// The body of a request, around a text that is one event or an array of them; its numbers stay as they are written.
fn envelope(text: &str) -> Result<String, String> {
    let broken = |error: serde_json::Error| format!("no JSON (line {}, column {})", error.line(), error.column());
    let raw: &RawValue = serde_json::from_str(text).map_err(broken)?;
    match raw.get().as_bytes().first() {
        Some(b'[') => Ok(format!("{{\"events\":{raw}}}")),
        Some(b'{') => {
            let members: std::collections::BTreeMap<String, &RawValue> = serde_json::from_str(raw.get()).map_err(broken)?;
            let is_request = members.contains_key("events") || members.contains_key("event");
            Ok(if is_request { raw.to_string() } else { format!("{{\"events\":[{raw}]}}") })
        }
        _ => Err("neither an object nor an array".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_goes_as_it_is_and_an_event_or_an_array_goes_in_a_request() {
        let request = r#"{"events": [{"n": 1.50}]}"#;
        assert_eq!(envelope(request).as_deref(), Ok(request));
        assert_eq!(envelope(r#"{"type": "x", "n": 1.50}"#).as_deref(), Ok(r#"{"events":[{"type": "x", "n": 1.50}]}"#));
        assert_eq!(envelope(r#"[{"n": 1e400}]"#).as_deref(), Ok(r#"{"events":[{"n": 1e400}]}"#));
        for bad in ["", "x", "{\"a\":", "1", "{} {}"] {
            assert!(envelope(bad).is_err(), "{bad}");
        }
    }
}
