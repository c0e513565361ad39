//! `telemetry drain`: manages log drains and tests log files (docs/api/identity.md#drains).

mod health;
mod test;

pub(crate) use health::state;

use crate::client::Client;
use crate::context::{Context, CredentialKind};
use crate::failure::Failure;
use crate::options::Format;
use crate::output::{column, computed_column, text};
use crate::provider::provider;
use crate::resource::{DeleteArgs, Resource, ResourceSelector, body, remind_to_save_secret};
use crate::secret::Secret;
use axum::http::Method;
use clap::{Args, Subcommand};
use schemas::identity::{DrainProvider, DrainRole};
use serde_json::{Value, json};
use std::path::PathBuf;

pub(crate) const DRAIN: Resource = Resource {
    noun: "drain",
    delete: ("delete", "Deleted"),
    path: "drains",
    name: "name",
    columns: &[
        column("name", "/name"),
        column("provider", "/provider"),
        computed_column("hosts", |drain| match text(&drain["hosts"]) {
            hosts if hosts.is_empty() => "all".to_owned(),
            hosts => hosts,
        }),
        computed_column("last line", |drain| match drain["health"]["last_batch_at"].as_str() {
            Some(at) => at.to_owned(),
            None => "never".to_owned(),
        }),
        computed_column("state", |drain| state(&drain["health"]).to_owned()),
        column("id", "/id"),
    ],
    csv: Some(&[
        column("name", "/name"),
        column("provider", "/provider"),
        column("hosts", "/hosts"),
        column("role", "/role"),
        column("sampling", "/sampling"),
        column("path", "/path"),
        column("id", "/id"),
    ]),
};

/// Drains.
#[derive(Args, Clone, Debug)]
pub struct DrainNoun {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Action {
    /// List log drains with their state and the time of their last line
    #[command(after_help = example!("drain list"))]
    List,
    /// Show a drain's settings
    #[command(after_help = example!("drain show 'Web server'"))]
    Show(ResourceSelector),
    /// Show what a drain received in the last 48 hours
    #[command(after_help = example!("drain health 'Web server'"))]
    Health(ResourceSelector),
    /// Create a drain, and print its key, which is shown only once
    #[command(after_help = example!("drain create 'Web server' --provider combined --host www.newspaper.example"))]
    Create(CreateArgs),
    /// Replace a drain's key; the old key keeps working for one hour
    #[command(after_help = example!("drain rotate 'Web server'"))]
    Rotate(ResourceSelector),
    /// Delete a drain and revoke its keys
    #[command(after_help = example!("drain delete 'Web server'"))]
    Delete(DeleteArgs),
    /// Show how each line of a log file would be counted, without sending it
    #[command(after_help = example!("drain test access.log --provider combined --host www.newspaper.example"))]
    Test(test::Test),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct CreateArgs {
    /// Name of the drain
    #[arg(value_name = "NAME")]
    name: String,
    /// Provider that sends the logs
    #[arg(long, value_name = "PROVIDER", value_parser = provider())]
    provider: DrainProvider,
    /// Host to accept lines for, repeatable [default: all hosts you can report for]
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<String>,
    /// Source of the log: edge (CDN) or origin (your server) [default: by provider]
    #[arg(long, value_name = "ROLE")]
    role: Option<DrainRole>,
    /// Fraction of lines that the provider sends, above 0 and up to 1
    #[arg(long, value_name = "SHARE")]
    sampling: Option<f64>,
    /// File with Vercel's signing secret, or - for stdin
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// ID of the Fastly service that sends the logs
    #[arg(long, value_name = "ID")]
    fastly_service_id: Option<String>,
}

pub(crate) async fn run(context: &Context, noun: &DrainNoun) -> Result<(), Failure> {
    let client = match &noun.action {
        Action::Test(what) => return test::run(context, what),
        _ => context.client(CredentialKind::KeyOrPerson)?,
    };
    match &noun.action {
        Action::List if context.options.output == Format::Table => list(context, &client).await,
        Action::List => DRAIN.list(context, &client, None).await,
        Action::Show(one) => context.output().object(&DRAIN.find(&client, &one.id).await?),
        Action::Health(one) => {
            let id = DRAIN.id(&client, &one.id).await?;
            health::print(context, &client.get(&DRAIN.one(&id, "/health"), &Vec::new()).await?)
        }
        Action::Create(created) => create(context, &client, created).await,
        Action::Rotate(one) => {
            let id = DRAIN.id(&client, &one.id).await?;
            let rotated = client.change(Method::POST, &DRAIN.one(&id, "/rotate"), None).await?;
            context.output().object(&rotated)?;
            remind_to_save_secret(&rotated);
            Ok(())
        }
        Action::Delete(gone) => DRAIN.delete(context, &client, gone).await,
        Action::Test(what) => test::run(context, what),
    }
}

async fn list(context: &Context, client: &Client) -> Result<(), Failure> {
    let mut drains = client.get(&DRAIN.all(), &Vec::new()).await?;
    let items = drains.as_array_mut().map(Vec::as_mut_slice).unwrap_or_default();
    for drain in items.iter_mut() {
        drain["health"] = client.get(&DRAIN.one(&text(&drain["id"]), "/health"), &Vec::new()).await?;
    }
    context.output().list(&Value::Null, items, DRAIN.columns)
}

async fn create(context: &Context, client: &Client, what: &CreateArgs) -> Result<(), Failure> {
    let secret = what.secret_file.as_deref().map(Secret::read).transpose()?;
    let made = body([
        ("name", Some(json!(what.name))),
        ("provider", Some(json!(what.provider))),
        ("hosts", Some(json!(what.hosts)).filter(|_| !what.hosts.is_empty())),
        ("role", what.role.map(|role| json!(role))),
        ("sampling", what.sampling.map(|share| json!(share))),
        ("secret", secret.map(|secret| json!(secret.reveal()))),
        ("fastly_service_id", what.fastly_service_id.as_ref().map(|id| json!(id))),
    ]);
    DRAIN.create(context, client, &made).await
}
