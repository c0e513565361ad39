//! `telemetry key`: API keys (docs/api/identity.md#api-keys).
//!
//! Must print a key once, when the service makes it.

use crate::context::{Asker, Context};
use crate::failure::Failure;
use crate::identity::{Gone, Kind, One, body};
use crate::output::column;
use clap::{Args, Subcommand};
use serde_json::json;

const KEY: Kind = Kind {
    noun: "key",
    path: "api-keys",
    name: "name",
    columns: &[
        column("name", "/name"),
        column("prefix", "/prefix"),
        column("scopes", "/scopes"),
        column("last used", "/last_used_at"),
        column("expires", "/expires_at"),
        column("revoked", "/revoked_at"),
        column("id", "/id"),
    ],
};

/// API keys.
#[derive(Args, Clone, Debug)]
pub struct KeyNoun {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Action {
    /// List the keys, revoked ones too
    List,
    /// Show one; the key itself is shown when it is made and never again
    Show(One),
    /// Make a key
    Create(Created),
    /// Revoke a key
    Delete(Gone),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Created {
    /// Name
    #[arg(value_name = "NAME")]
    name: String,
    /// What it may do; may be said again [default: telemetry:read, telemetry:write and identity:read]
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
}

pub(crate) async fn run(context: &Context, noun: &KeyNoun) -> Result<(), Failure> {
    let client = context.client(Asker::Either)?;
    match &noun.action {
        Action::List => KEY.list(context, &client, None).await,
        Action::Show(one) => context.output().object(&KEY.find(&client, &one.id).await?),
        Action::Create(created) => {
            let scopes = Some(json!(created.scopes)).filter(|_| !created.scopes.is_empty());
            KEY.create(context, &client, &body([("name", Some(json!(created.name))), ("scopes", scopes)])).await
        }
        Action::Delete(gone) => KEY.delete(context, &client, gone).await,
    }
}
