//! `telemetry drain`: log streams, and what their lines would become (docs/api/identity.md#drains).
//!
//! Must print the key of a drain once, when the service makes it.

mod health;
mod test;

use crate::client::Client;
use crate::context::{Asker, Context};
use crate::failure::Failure;
use crate::identity::{Gone, Kind, One, body, say_secret};
use crate::output::column;
use crate::provider::provider;
use crate::secret::Secret;
use axum::http::Method;
use clap::{Args, Subcommand};
use schemas::identity::{DrainProvider, DrainRole};
use serde_json::json;
use std::path::PathBuf;

const DRAIN: Kind = Kind {
    noun: "drain",
    path: "drains",
    name: "name",
    columns: &[
        column("name", "/name"),
        column("provider", "/provider"),
        column("hosts", "/hosts"),
        column("role", "/role"),
        column("sampling", "/sampling"),
        column("path", "/path"),
        column("id", "/id"),
    ],
};

/// Drains.
#[derive(Args, Clone, Debug)]
pub struct DrainNoun {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Action {
    /// List the drains
    List,
    /// Show one
    Show(One),
    /// Show what it brought in the last 48 hours
    Health(One),
    /// Make a drain, and the key that feeds it
    Create(Created),
    /// Make another key; the one before works for an hour more
    Rotate(One),
    /// Delete a drain and its keys
    Delete(Gone),
    /// Say of each line of a log what it would become; nothing is sent
    Test(test::Test),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Created {
    /// Name
    #[arg(value_name = "NAME")]
    name: String,
    /// Who sends the lines
    #[arg(long, value_name = "PROVIDER", value_parser = provider())]
    provider: DrainProvider,
    /// Host whose lines are taken; may be said again [default: every host that the organisation may report for]
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<String>,
    /// Who observed: `edge` or `origin`; without it what is usual for the provider
    #[arg(long, value_name = "ROLE")]
    role: Option<DrainRole>,
    /// Share of the lines that is sent, above 0 to 1
    #[arg(long, value_name = "SHARE")]
    sampling: Option<f64>,
    /// File of the secret with which Vercel signs, `-` for standard input
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Service that Fastly asks for before it sends
    #[arg(long, value_name = "ID")]
    fastly_service_id: Option<String>,
}

pub(crate) async fn run(context: &Context, noun: &DrainNoun) -> Result<(), Failure> {
    let client = match &noun.action {
        Action::Test(what) => return test::run(context, what),
        _ => context.client(Asker::Either)?,
    };
    match &noun.action {
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
            say_secret(&rotated);
            Ok(())
        }
        Action::Delete(gone) => DRAIN.delete(context, &client, gone).await,
        Action::Test(what) => test::run(context, what),
    }
}

async fn create(context: &Context, client: &Client, what: &Created) -> Result<(), Failure> {
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
