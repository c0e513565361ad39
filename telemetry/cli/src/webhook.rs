//! `telemetry webhook`: manages endpoints and tests receivers (docs/api/webhooks.md).

mod listen;
mod tls;
mod verify;

use crate::client::Client;
use crate::context::{Context, CredentialKind};
use crate::failure::Failure;
use crate::output::{cell, column};
use crate::resource::{DeleteArgs, Resource, ResourceSelector, remind_to_save_secret};
use crate::terminal::print_message;
use axum::http::Method;
use clap::{Args, Subcommand};
use schemas::webhook::EventType;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

const WEBHOOK: Resource = Resource {
    noun: "webhook",
    delete: ("delete", "Deleted"),
    csv: None,
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
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Webhook endpoints.
#[derive(Args, Clone, Debug)]
pub struct WebhookNoun {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Action {
    /// List webhook endpoints
    #[command(after_help = example!("webhook list"))]
    List,
    /// Show an endpoint
    #[command(after_help = example!("webhook show https://newspaper.example/hook"))]
    Show(ResourceSelector),
    /// Add an endpoint, and print its secret, which is shown only once
    #[command(after_help = example!("webhook create https://newspaper.example/hook --event delegation.created"))]
    Create(CreateArgs),
    /// Disable an endpoint; events that occur while it is disabled are not delivered
    #[command(after_help = example!("webhook pause https://newspaper.example/hook"))]
    Pause(ResourceSelector),
    /// Enable a disabled endpoint
    #[command(after_help = example!("webhook resume https://newspaper.example/hook"))]
    Resume(ResourceSelector),
    /// Replace the secret of an endpoint; takes effect with the next delivery
    #[command(after_help = example!("webhook rotate-secret https://newspaper.example/hook"))]
    RotateSecret(ResourceSelector),
    /// Resend a delivery
    #[command(after_help = example!("webhook redeliver https://newspaper.example/hook 0195f3a0-0000-7000-8000-000000000042"))]
    Redeliver(RedeliverArgs),
    /// Delete an endpoint
    #[command(after_help = example!("webhook delete https://newspaper.example/hook"))]
    Delete(DeleteArgs),
    /// List deliveries to an endpoint and their outcomes
    #[command(after_help = example!("webhook deliveries https://newspaper.example/hook"))]
    Deliveries(ResourceSelector),
    /// Send a test delivery
    #[command(after_help = example!("webhook send-test https://newspaper.example/hook --wait"))]
    SendTest(SendTestArgs),
    /// Verify the signature and age of a delivery that you received
    #[command(after_help = example!("webhook verify body.json --secret-file secret --signature 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 --timestamp 1793527200"))]
    Verify(verify::Verify),
    /// Receive deliveries on this machine, verify them and print them
    #[command(after_help = example!("webhook listen --secret-file secret"))]
    Listen(listen::Listen),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct CreateArgs {
    /// URL that receives deliveries
    // Not `url`, which is the address of the service.
    #[arg(value_name = "URL")]
    endpoint: String,
    /// Event type to deliver, repeatable [default: all types]
    #[arg(long = "event", value_name = "TYPE", value_parser = EventType::SUBSCRIBED.map(EventType::as_str))]
    events: Vec<String>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct RedeliverArgs {
    /// ID or URL of the endpoint
    #[arg(value_name = "ID")]
    id: String,
    /// ID of the delivery, as shown by `deliveries`
    #[arg(value_name = "DELIVERY")]
    delivery: Uuid,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct SendTestArgs {
    /// ID or URL of the endpoint
    #[arg(value_name = "ID")]
    id: String,
    /// Wait for the first attempt, and fail if the test isn't delivered
    #[arg(long)]
    wait: bool,
    /// Maximum seconds to wait with --wait
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "wait")]
    patience: u64,
}

pub(crate) async fn run(context: &Context, noun: &WebhookNoun) -> Result<(), Failure> {
    let client = match &noun.action {
        Action::Verify(what) => return verify::run(context, what),
        Action::Listen(what) => return listen::run(context, what).await,
        _ => context.client(CredentialKind::KeyOrPerson)?,
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
            remind_to_save_secret(&rotated);
            Ok(())
        }
        Action::Redeliver(what) => {
            context.output().object(&post(&client, &what.id, &format!("/deliveries/{}/redeliver", what.delivery)).await?)
        }
        Action::Delete(gone) => WEBHOOK.delete(context, &client, gone).await,
        Action::Deliveries(one) => deliveries(context, &client, one).await,
        Action::SendTest(tested) => send_test(context, &client, tested).await,
        // These two don't call the service.
        Action::Verify(_) | Action::Listen(_) => Ok(()),
    }
}

async fn post(client: &Client, endpoint: &str, below: &str) -> Result<Value, Failure> {
    let id = WEBHOOK.id(client, endpoint).await?;
    client.change(Method::POST, &WEBHOOK.one(&id, below), None).await
}

async fn change(context: &Context, client: &Client, one: &ResourceSelector, is_disabled: bool) -> Result<(), Failure> {
    let id = WEBHOOK.id(client, &one.id).await?;
    let body = json!({"disabled": is_disabled});
    context.output().object(&client.change(Method::PATCH, &WEBHOOK.one(&id, ""), Some(&body)).await?)
}

async fn deliveries(context: &Context, client: &Client, one: &ResourceSelector) -> Result<(), Failure> {
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

async fn send_test(context: &Context, client: &Client, what: &SendTestArgs) -> Result<(), Failure> {
    let id = WEBHOOK.id(client, &what.id).await?;
    let sent = client.change(Method::POST, &WEBHOOK.one(&id, "/test"), None).await?;
    if !what.wait {
        return context.output().object(&sent);
    }
    print_message("Waiting for the first attempt…");
    let tried = first_attempt(client, &id, &sent, Duration::from_secs(what.patience)).await?;
    context.output().object(&tried)?;
    match tried["status"].as_str() {
        Some("delivered") => Ok(()),
        _ => Err(Failure::Failed(format!("the test was not delivered: {}", cell(&tried["last_attempt"])))),
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
        sleep(POLL_INTERVAL).await;
    }
    Err(Failure::Unreachable("the service did not attempt the delivery in time. Is its deliverer running?".to_owned()))
}
