//! `telemetry delegation`: grants access to figures and requests it (docs/api/identity.md#delegations).

use crate::context::{Context, CredentialKind};
use crate::failure::Failure;
use crate::output::column;
use crate::resource::{DeleteArgs, Resource, ResourceSelector};
use crate::terminal::print_message;
use axum::http::Method;
use clap::{Args, Subcommand};
use serde_json::json;
use uuid::Uuid;

const DELEGATION: Resource = Resource {
    noun: "delegation",
    delete: ("revoke", "Revoked"),
    csv: None,
    path: "delegations",
    name: "grantee_name",
    columns: &[
        column("grantor", "/grantor_name"),
        column("grantee", "/grantee_name"),
        column("scopes", "/scopes"),
        column("created", "/created_at"),
        column("id", "/id"),
    ],
};
const REQUEST: Resource = Resource {
    noun: "delegation request",
    delete: ("delete", "Deleted"),
    csv: None,
    path: "delegation-requests",
    name: "requester_name",
    columns: &[
        column("requester", "/requester_name"),
        column("grantor", "/grantor_name"),
        column("domain", "/domain"),
        column("status", "/status"),
        column("expires", "/expires_at"),
        column("id", "/id"),
    ],
};

/// Delegations.
#[derive(Args, Clone, Debug)]
pub struct DelegationNoun {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Action {
    /// List active delegations
    #[command(after_help = example!("delegation list --role grantor"))]
    List(ListArgs),
    /// Show a delegation
    #[command(after_help = example!("delegation show 'A Partner'"))]
    Show(ResourceSelector),
    /// Share your data with an organization
    #[command(after_help = example!("delegation create --to 0195f3a0-0000-7000-8000-000000000042"))]
    Create(CreateArgs),
    /// Stop sharing your data with an organization
    #[command(after_help = example!("delegation delete 'A Partner'"))]
    Delete(DeleteArgs),
    /// List pending requests for access
    #[command(after_help = example!("delegation requests --role grantor"))]
    Requests(ListArgs),
    /// Ask the owner of a domain for access to its data
    #[command(after_help = example!("delegation request newspaper.example"))]
    Request(RequestArgs),
    /// Approve a request for access
    #[command(after_help = example!("delegation approve 'A Partner'"))]
    Approve(ResourceSelector),
    /// Deny a request for access
    #[command(after_help = example!("delegation deny 'A Partner'"))]
    Deny(ResourceSelector),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ListArgs {
    /// Only delegations where your organization has this role
    #[arg(long, value_parser = ["grantor", "grantee"])]
    role: Option<String>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct CreateArgs {
    /// ID of the organization; its members see it in `telemetry whoami`
    #[arg(long, value_name = "ORGANIZATION_ID", value_parser = id)]
    to: Uuid,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct RequestArgs {
    /// Domain whose data you want to read
    #[arg(value_name = "HOST")]
    domain: String,
}

/// Parses an ID. Names aren't accepted, because they are not unique and other organizations' names are not visible.
fn id(text: &str) -> Result<Uuid, String> {
    text.parse()
        .map_err(|_| "use the organization's ID; to accept a request by name, run telemetry delegation approve NAME".to_owned())
}

pub(crate) async fn run(context: &Context, noun: &DelegationNoun) -> Result<(), Failure> {
    let client = context.client(CredentialKind::KeyOrPerson)?;
    let of = |listed: &ListArgs| listed.role.clone().map(|role| ("role", role));
    match &noun.action {
        Action::List(listed) => DELEGATION.list(context, &client, of(listed)).await,
        Action::Show(one) => context.output().object(&DELEGATION.find(&client, &one.id).await?),
        Action::Create(created) => DELEGATION.create(context, &client, &json!({"grantee_org_id": created.to})).await,
        Action::Delete(gone) => DELEGATION.delete(context, &client, gone).await,
        Action::Requests(listed) => REQUEST.list(context, &client, of(listed)).await,
        Action::Request(requested) => REQUEST.create(context, &client, &json!({"domain": requested.domain})).await,
        Action::Approve(one) => {
            let id = REQUEST.id(&client, &one.id).await?;
            context.output().object(&client.change(Method::POST, &REQUEST.one(&id, "/approve"), None).await?)
        }
        Action::Deny(one) => {
            let id = REQUEST.id(&client, &one.id).await?;
            client.change(Method::POST, &REQUEST.one(&id, "/deny"), None).await?;
            print_message("Denied the request.");
            Ok(())
        }
    }
}
