//! `telemetry manifest`: manifests, which list the keys that sign reports (docs/api/identity.md#manifests).

use crate::context::{Context, CredentialKind};
use crate::failure::Failure;
use crate::output::column;
use crate::resource::{DeleteArgs, Resource, ResourceSelector};
use axum::http::Method;
use clap::{Args, Subcommand};
use serde_json::json;

const MANIFEST: Resource = Resource {
    noun: "manifest",
    path: "manifests",
    name: "url",
    delete: ("delete", "Deleted"),
    csv: None,
    columns: &[
        column("url", "/url"),
        column("state", "/state"),
        column("reason", "/reason"),
        column("checked", "/checked_at"),
        column("id", "/id"),
    ],
};

/// Manifests.
#[derive(Args, Clone, Debug)]
pub struct ManifestNoun {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Action {
    /// List manifests and whether their last fetch worked
    #[command(after_help = example!("manifest list"))]
    List,
    /// Show a manifest and its keys
    #[command(after_help = example!("manifest show https://agent.example/keys.json"))]
    Show(ResourceSelector),
    /// Register a manifest and fetch it
    #[command(after_help = example!("manifest create https://agent.example/keys.json"))]
    Create(CreateArgs),
    /// Fetch a manifest again now
    #[command(after_help = example!("manifest refresh https://agent.example/keys.json"))]
    Refresh(ResourceSelector),
    /// Delete a manifest; its keys no longer sign reports
    #[command(after_help = example!("manifest delete https://agent.example/keys.json"))]
    Delete(DeleteArgs),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct CreateArgs {
    /// HTTPS address of the manifest
    #[arg(value_name = "URL")]
    address: String,
}

pub(crate) async fn run(context: &Context, noun: &ManifestNoun) -> Result<(), Failure> {
    let client = context.client(CredentialKind::KeyOrPerson)?;
    match &noun.action {
        Action::List => MANIFEST.list(context, &client, None).await,
        Action::Show(one) => context.output().object(&MANIFEST.find(&client, &one.id).await?),
        Action::Create(made) => MANIFEST.create(context, &client, &json!({"url": made.address})).await,
        Action::Refresh(one) => {
            let path = MANIFEST.one(&MANIFEST.id(&client, &one.id).await?, "/refresh");
            context.output().object(&client.change(Method::POST, &path, Some(&json!({}))).await?)
        }
        Action::Delete(gone) => MANIFEST.delete(context, &client, gone).await,
    }
}
