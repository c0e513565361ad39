//! `telemetry domain`: registers and verifies domains (docs/api/identity.md#domains).

use crate::client::Client;
use crate::context::{Context, CredentialKind};
use crate::failure::Failure;
use crate::output::{column, text};
use crate::resource::{DeleteArgs, Resource, ResourceSelector};
use crate::terminal::print_message;
use axum::http::Method;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const DOMAIN: Resource = Resource {
    noun: "domain",
    path: "domains",
    name: "domain",
    delete: ("release", "Released"),
    csv: None,
    columns: &[
        column("domain", "/domain"),
        column("verified", "/verified"),
        column("by", "/verification_method"),
        column("token", "/verification_token"),
        column("id", "/id"),
    ],
};
/// Pause between two checks; the service allows ten per minute.
const POLL_INTERVAL: Duration = Duration::from_secs(15);

/// Domains.
#[derive(Args, Clone, Debug)]
pub struct DomainNoun {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Action {
    /// List the organization's domains
    #[command(after_help = example!("domain list"))]
    List,
    /// Show a domain and its verification token
    #[command(after_help = example!("domain show newspaper.example"))]
    Show(ResourceSelector),
    /// Add a domain, and print the DNS record that verifies it
    #[command(after_help = example!("domain create newspaper.example"))]
    Create(CreateArgs),
    /// Verify a domain
    #[command(after_help = example!("domain verify newspaper.example --wait"))]
    Verify(VerifyArgs),
    /// Release a domain
    #[command(after_help = example!("domain delete newspaper.example"))]
    Delete(DeleteArgs),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct CreateArgs {
    /// Domain to add
    #[arg(value_name = "HOST")]
    domain: String,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct VerifyArgs {
    /// ID or name of the domain
    #[arg(value_name = "ID")]
    id: String,
    /// Check again until the domain is verified
    #[arg(long)]
    wait: bool,
    /// Maximum seconds to wait with --wait
    #[arg(long, value_name = "SECONDS", default_value_t = 900, requires = "wait")]
    patience: u64,
}

pub(crate) async fn run(context: &Context, noun: &DomainNoun) -> Result<(), Failure> {
    let client = context.client(CredentialKind::KeyOrPerson)?;
    match &noun.action {
        Action::List => DOMAIN.list(context, &client, None).await,
        Action::Show(one) => context.output().object(&DOMAIN.find(&client, &one.id).await?),
        Action::Create(created) => {
            let made = client.change(Method::POST, &DOMAIN.all(), Some(&json!({"domain": created.domain}))).await?;
            context.output().object(&made)?;
            print_dns_record(&made);
            Ok(())
        }
        Action::Verify(verified) => verify(context, &client, verified).await,
        Action::Delete(gone) => DOMAIN.delete(context, &client, gone).await,
    }
}

fn print_dns_record(domain: &Value) {
    let (host, token) = (text(&domain["domain"]), text(&domain["verification_token"]));
    print_message(&format!(
        "Publish this TXT record, then run `telemetry domain verify {host} --wait`:\n_content-telemetry.{host}  TXT  svc-verify={token}"
    ));
}

async fn verify(context: &Context, client: &Client, what: &VerifyArgs) -> Result<(), Failure> {
    let domain = DOMAIN.find(client, &what.id).await?;
    let path = DOMAIN.one(&text(&domain["id"]), "/verify");
    let (begun, patience) = (Instant::now(), Duration::from_secs(what.patience));
    loop {
        let failure = match client.change(Method::POST, &path, Some(&json!({}))).await {
            Ok(verified) => return context.output().object(&verified),
            Err(failure) => failure,
        };
        // 422: not verified yet
        let may_pass = failure.is_temporary() || failure.status() == Some(422);
        let pause = POLL_INTERVAL.max(Duration::from_secs(failure.retry_after().unwrap_or_default()));
        if !what.wait || !may_pass || begun.elapsed() + pause > patience {
            print_dns_record(&domain);
            return Err(failure);
        }
        print_message(&format!("Not verified yet: {failure}\nChecking again in {} s.", pause.as_secs()));
        sleep(pause).await;
    }
}
