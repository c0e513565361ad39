//! `telemetry webhook`: endpoints, and help for who writes a receiver (docs/api/webhooks.md).
//!
//! Must take the secret of an endpoint from a file only.

mod listen;
mod tls;
mod verify;

use crate::client::Client;
use crate::context::{Asker, Context};
use crate::failure::Failure;
use crate::identity::{Gone, Kind, One, say_secret};
use crate::output::{column, text};
use crate::talk::say;
use axum::http::Method;
use clap::{Args, Subcommand};
use schemas::webhook::EventType;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

const WEBHOOK: Kind = Kind {
    noun: "webhook",
    path: "webhooks",
    name: "url",
    columns: &[
        column("url", "/url"),
        column("events", "/event_types"),
        column("created", "/created_at"),
        column("disabled", "/disabled_at"),
        column("id", "/id"),
    ],
};
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Webhook endpoints.
#[derive(Args, Clone, Debug)]
pub struct WebhookNoun {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Action {
    /// List the endpoints
    List,
    /// Show one
    Show(One),
    /// Register an endpoint
    Create(Created),
    /// Send nothing to an endpoint for now; what happens meanwhile is never told
    Pause(One),
    /// Send to a paused endpoint again
    Resume(One),
    /// Make another secret; the next delivery is signed by it
    RotateSecret(One),
    /// Send a delivery once more
    Redeliver(Redelivered),
    /// Delete an endpoint
    Delete(Gone),
    /// Show what was sent to one, and how it fared
    Deliveries(One),
    /// Have a test sent to one
    SendTest(Tested),
    /// Check a delivery that was received
    Verify(verify::Verify),
    /// Receive deliveries on this machine, check them and print them
    Listen(listen::Listen),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Created {
    /// Where deliveries go
    // not `url`: that is the address of the service
    #[arg(value_name = "URL")]
    endpoint: String,
    /// What is sent there; may be said again [default: everything]
    #[arg(long = "event", value_name = "TYPE", value_parser = EventType::SUBSCRIBED.map(EventType::as_str))]
    events: Vec<String>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Redelivered {
    /// Id or URL of the endpoint
    #[arg(value_name = "ID")]
    id: String,
    /// Id of the delivery, as `deliveries` lists it
    #[arg(value_name = "DELIVERY")]
    delivery: Uuid,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Tested {
    /// Id or URL of the endpoint
    #[arg(value_name = "ID")]
    id: String,
    /// Wait until it was tried, and fail unless it was taken
    #[arg(long)]
    wait: bool,
    /// Seconds for which --wait waits
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "wait")]
    patience: u64,
}

pub(crate) async fn run(context: &Context, noun: &WebhookNoun) -> Result<(), Failure> {
    let client = match &noun.action {
        Action::Verify(what) => return verify::run(context, what),
        Action::Listen(what) => return listen::run(context, what).await,
        _ => context.client(Asker::Either)?,
    };
    match &noun.action {
        Action::List => WEBHOOK.list(context, &client, None).await,
        Action::Show(one) => context.output().object(&WEBHOOK.find(&client, &one.id).await?),
        Action::Create(created) => {
            let all = || EventType::SUBSCRIBED.map(|kind| kind.as_str().to_owned()).to_vec();
            let events = if created.events.is_empty() { all() } else { created.events.clone() };
            WEBHOOK.create(context, &client, &json!({"url": created.endpoint, "event_types": events})).await
        }
        Action::Pause(one) => change(context, &client, one, true).await,
        Action::Resume(one) => change(context, &client, one, false).await,
        Action::RotateSecret(one) => {
            let rotated = post(&client, &one.id, "/rotate-secret").await?;
            context.output().object(&rotated)?;
            say_secret(&rotated);
            Ok(())
        }
        Action::Redeliver(what) => {
            context.output().object(&post(&client, &what.id, &format!("/deliveries/{}/redeliver", what.delivery)).await?)
        }
        Action::Delete(gone) => WEBHOOK.delete(context, &client, gone).await,
        Action::Deliveries(one) => deliveries(context, &client, one).await,
        Action::SendTest(tested) => send_test(context, &client, tested).await,
        // neither asks the service
        Action::Verify(_) | Action::Listen(_) => Ok(()),
    }
}

async fn post(client: &Client, endpoint: &str, below: &str) -> Result<Value, Failure> {
    let id = WEBHOOK.id(client, endpoint).await?;
    client.change(Method::POST, &WEBHOOK.one(&id, below), None).await
}

async fn change(context: &Context, client: &Client, one: &One, is_disabled: bool) -> Result<(), Failure> {
    let id = WEBHOOK.id(client, &one.id).await?;
    let body = json!({"disabled": is_disabled});
    context.output().object(&client.change(Method::PATCH, &WEBHOOK.one(&id, ""), Some(&body)).await?)
}

async fn deliveries(context: &Context, client: &Client, one: &One) -> Result<(), Failure> {
    let id = WEBHOOK.id(client, &one.id).await?;
    let all = client.get(&WEBHOOK.one(&id, "/deliveries"), &Vec::new()).await?;
    let columns = [
        column("created", "/created_at"),
        column("type", "/event_type"),
        column("status", "/status"),
        column("attempts", "/attempts"),
        column("last", "/last_attempt/outcome"),
        column("id", "/id"),
    ];
    context.output().list(&all, all.as_array().map(Vec::as_slice).unwrap_or_default(), &columns)
}

async fn send_test(context: &Context, client: &Client, what: &Tested) -> Result<(), Failure> {
    let id = WEBHOOK.id(client, &what.id).await?;
    let sent = client.change(Method::POST, &WEBHOOK.one(&id, "/test"), None).await?;
    if !what.wait {
        return context.output().object(&sent);
    }
    say("waiting for the first attempt");
    let tried = first_attempt(client, &id, &sent, Duration::from_secs(what.patience)).await?;
    context.output().object(&tried)?;
    match tried["status"].as_str() {
        Some("delivered") => Ok(()),
        _ => Err(Failure::Failed(format!("it was not taken: {}", text(&tried["last_attempt"])))),
    }
}

async fn first_attempt(client: &Client, id: &str, sent: &Value, patience: Duration) -> Result<Value, Failure> {
    let begun = Instant::now();
    while begun.elapsed() < patience {
        let all = client.get(&WEBHOOK.one(id, "/deliveries"), &Vec::new()).await?;
        let found = all.as_array().into_iter().flatten().find(|delivery| delivery["id"] == sent["id"]);
        if let Some(delivery) = found.filter(|delivery| !delivery["last_attempt"].is_null()) {
            return Ok(delivery.clone());
        }
        sleep(LOOK_AGAIN).await;
    }
    Err(Failure::Unreachable("no attempt was made in time; is the deliverer running?".to_owned()))
}
