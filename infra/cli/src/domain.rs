//! `telemetry domain`: registrations and their proof (docs/api/identity.md#domains).
//!
//! Must leave it to the service to say whether a domain is proved.

use crate::client::Client;
use crate::context::{Asker, Context};
use crate::failure::Failure;
use crate::identity::{Gone, Kind, One};
use crate::output::{column, text};
use crate::talk::say;
use axum::http::Method;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const DOMAIN: Kind = Kind {
    noun: "domain",
    path: "domains",
    name: "domain",
    columns: &[
        column("domain", "/domain"),
        column("verified", "/verified"),
        column("by", "/verification_method"),
        column("token", "/verification_token"),
        column("id", "/id"),
    ],
};
/// Between two looks; the service looks ten times a minute at most.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// Domains.
#[derive(Args, Clone, Debug)]
pub struct DomainNoun {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Action {
    /// List the registrations
    List,
    /// Show one, with the token that proves it
    Show(One),
    /// Register a domain
    Create(Created),
    /// Have the proof looked for
    Verify(Verified),
    /// Release a domain
    Delete(Gone),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Created {
    /// Host name
    #[arg(value_name = "HOST")]
    domain: String,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Verified {
    /// Id or host name
    #[arg(value_name = "ID")]
    id: String,
    /// Look again until the proof is found
    #[arg(long)]
    wait: bool,
    /// Seconds for which --wait looks
    #[arg(long, value_name = "SECONDS", default_value_t = 900, requires = "wait")]
    patience: u64,
}

pub(crate) async fn run(context: &Context, noun: &DomainNoun) -> Result<(), Failure> {
    let client = context.client(Asker::Either)?;
    match &noun.action {
        Action::List => DOMAIN.list(context, &client, None).await,
        Action::Show(one) => context.output().object(&DOMAIN.find(&client, &one.id).await?),
        Action::Create(created) => {
            let made = client.change(Method::POST, &DOMAIN.all(), Some(&json!({"domain": created.domain}))).await?;
            context.output().object(&made)?;
            say_record(&made);
            Ok(())
        }
        Action::Verify(verified) => verify(context, &client, verified).await,
        Action::Delete(gone) => DOMAIN.delete(context, &client, gone).await,
    }
}

fn say_record(domain: &Value) {
    let (host, token) = (text(&domain["domain"]), text(&domain["verification_token"]));
    say(&format!(
        "publish this TXT record, then run `telemetry domain verify {host} --wait`:\n_content-telemetry.{host}  TXT  svc-verify={token}"
    ));
}

async fn verify(context: &Context, client: &Client, what: &Verified) -> Result<(), Failure> {
    let domain = DOMAIN.find(client, &what.id).await?;
    let path = DOMAIN.one(&text(&domain["id"]), "/verify");
    let (begun, patience) = (Instant::now(), Duration::from_secs(what.patience));
    loop {
        let failure = match client.change(Method::POST, &path, Some(&json!({}))).await {
            Ok(proved) => return context.output().object(&proved),
            Err(failure) => failure,
        };
        // 422 says what was found instead; it may be otherwise soon
        let may_pass = failure.is_passing() || failure.status() == Some(422);
        let pause = LOOK_AGAIN.max(Duration::from_secs(failure.retry_after().unwrap_or_default()));
        if !what.wait || !may_pass || begun.elapsed() + pause > patience {
            say_record(&domain);
            return Err(failure);
        }
        say(&format!("not yet: {failure}\nlooking again in {} s", pause.as_secs()));
        sleep(pause).await;
    }
}
