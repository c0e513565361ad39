//! `telemetry key`: API keys (docs/api/identity.md#api-keys).

use crate::context::{Context, CredentialKind};
use crate::failure::Failure;
use crate::output::column;
use crate::resource::{DeleteArgs, Resource, ResourceSelector, body};
use axum::http::Method;
use clap::{ArgAction, Args, Subcommand};
use serde_json::json;

const KEY: Resource = Resource {
    noun: "key",
    path: "api-keys",
    name: "name",
    delete: ("revoke", "Revoked"),
    csv: None,
    columns: &[
        column("name", "/name"),
        column("prefix", "/prefix"),
        column("scopes", "/scopes"),
        column("signature required", "/require_signature"),
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
    /// List all keys, including revoked ones
    #[command(after_help = example!("key list"))]
    List,
    /// Show a key's name, prefix and scopes, but not the key itself
    #[command(after_help = example!("key show 'Nightly export'"))]
    Show(ResourceSelector),
    /// Create a key, which is shown only once
    #[command(after_help = example!("key create 'Nightly export' --scope telemetry:read"))]
    Create(CreateArgs),
    /// Require signed reports, or stop requiring them
    #[command(after_help = example!("key change 'Nightly export' --require-signature true"))]
    Change(ChangeArgs),
    /// Revoke a key
    #[command(after_help = example!("key delete 'Nightly export'"))]
    Delete(DeleteArgs),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct CreateArgs {
    /// Name of the key
    #[arg(value_name = "NAME")]
    name: String,
    /// Scope, repeatable [default: telemetry:read, telemetry:write, identity:read]
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// Accept only reports with a valid signature
    #[arg(long)]
    require_signature: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ChangeArgs {
    #[command(flatten)]
    key: ResourceSelector,
    /// Whether to accept only reports with a valid signature
    #[arg(long, action = ArgAction::Set)]
    require_signature: bool,
}

pub(crate) async fn run(context: &Context, noun: &KeyNoun) -> Result<(), Failure> {
    let client = context.client(CredentialKind::KeyOrPerson)?;
    match &noun.action {
        Action::List => KEY.list(context, &client, None).await,
        Action::Show(one) => context.output().object(&KEY.find(&client, &one.id).await?),
        Action::Create(created) => {
            let scopes = Some(json!(created.scopes)).filter(|_| !created.scopes.is_empty());
            let require_signature = created.require_signature.then_some(json!(true));
            let members = [("name", Some(json!(created.name))), ("scopes", scopes), ("require_signature", require_signature)];
            KEY.create(context, &client, &body(members)).await
        }
        Action::Change(change) => {
            let id = KEY.id(&client, &change.key.id).await?;
            let members = json!({"require_signature": change.require_signature});
            context.output().object(&client.change(Method::PATCH, &KEY.one(&id, ""), Some(&members)).await?)
        }
        Action::Delete(gone) => KEY.delete(context, &client, gone).await,
    }
}
