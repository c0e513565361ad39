//! `telemetry wait`: polls until events are readable, or a timeout.

use crate::client::Client;
use crate::context::{Context, CredentialKind};
use crate::failure::Failure;
use crate::reads::Window;
use crate::terminal::print_message;
use clap::Args;
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

const INTERVAL: Duration = Duration::from_secs(1);

/// Options of `telemetry wait`.
#[derive(Args, Clone, Debug)]
pub struct Wait {
    #[command(flatten)]
    window: Window,
    /// Count only events of this page, or of all pages below PREFIX with `PREFIX/*`
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Count your own reports, as an agent or platform
    #[arg(long, conflicts_with_all = ["domain", "delegated_from", "path"])]
    agent: bool,
    /// Number of events to wait for
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    count: u64,
    /// Maximum seconds to wait
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    timeout: u64,
}

/// Returns when at least `count` events are readable.
///
/// # Errors
///
/// Fails after the timeout with the number of events found.
pub(crate) async fn run(context: &Context, what: &Wait) -> Result<(), Failure> {
    let client = context.client(CredentialKind::KeyOrPerson)?;
    let deadline = Instant::now() + Duration::from_secs(what.timeout);
    let mut found = None;
    loop {
        match timeout_at(deadline, events(context, &client, what)).await {
            Ok(Ok(events)) if events >= what.count => {
                let facts = [("events", events.to_string())];
                return context.output().object_as(&json!({"events": events}), &facts);
            }
            Ok(Ok(events)) => found = Some(events),
            Ok(Err(failure)) if failure.is_temporary() => print_message(&failure.to_string()),
            Ok(Err(failure)) => return Err(failure),
            Err(_) => {}
        }
        if Instant::now() + INTERVAL > deadline {
            let seen = found.map_or("no response".to_owned(), |found| format!("{found} of {} events", what.count));
            return Err(Failure::Failed(format!("timed out after {} s: {seen}", what.timeout)));
        }
        sleep(INTERVAL).await;
    }
}

/// Returns the number of readable events.
async fn events(context: &Context, client: &Client, what: &Wait) -> Result<u64, Failure> {
    let mut parameters = what.window.parameters(context);
    let Some(path) = &what.path else {
        let path = if what.agent { "/agent/summary" } else { "/content-owners/summary" };
        return Ok(client.get(path, &parameters).await?["total_events"].as_u64().unwrap_or_default());
    };
    parameters.extend([("path", path.clone()), ("limit", "1000".to_owned())]);
    let pages = client.get("/content-owners/urls", &parameters).await?;
    let counts = pages["items"].as_array().into_iter().flatten().filter_map(|page| page["total_events"].as_u64());
    Ok(counts.sum())
}
