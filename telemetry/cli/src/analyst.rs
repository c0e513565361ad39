//! `telemetry analyst`: analyst accounts (docs/api/identity.md#analyst-accounts). Operators create them.

use crate::context::{Context, CredentialKind};
use crate::failure::Failure;
use crate::output::column;
use crate::resource::{DeleteArgs, Resource};
use clap::{Args, Subcommand};

const ANALYST: Resource = Resource {
    noun: "analyst account",
    path: "analysts",
    name: "name",
    delete: ("revoke", "Revoked"),
    csv: None,
    columns: &[
        column("name", "/name"),
        column("login", "/login"),
        column("created", "/created_at"),
        column("revoked", "/revoked_at"),
        column("id", "/id"),
    ],
};

/// Analyst accounts.
#[derive(Args, Clone, Debug)]
pub struct AnalystNoun {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Action {
    /// List all analyst accounts, including revoked ones
    #[command(after_help = example!("analyst list"))]
    List,
    /// Revoke an analyst account
    #[command(after_help = example!("analyst delete Figures"))]
    Delete(DeleteArgs),
}

pub(crate) async fn run(context: &Context, noun: &AnalystNoun) -> Result<(), Failure> {
    let client = context.client(CredentialKind::KeyOrPerson)?;
    match &noun.action {
        Action::List => ANALYST.list(context, &client, None).await,
        Action::Delete(gone) => ANALYST.delete(context, &client, gone).await,
    }
}
