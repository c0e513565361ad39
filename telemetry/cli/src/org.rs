//! `telemetry org`: a user's organizations (docs/api/identity.md#organizations).
//!
//! Requires a session, because keys can't read or create organizations.

use crate::context::{Context, CredentialKind};
use crate::failure::Failure;
use crate::labels::org_type;
use crate::output::{column, computed_column, text};
use crate::resource::{Resource, ResourceSelector};
use axum::http::Method;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

const ORG: Resource = Resource {
    noun: "organization",
    path: "organizations",
    name: "name",
    delete: ("delete", "Deleted"),
    columns: &[
        column("name", "/name"),
        computed_column("type", |organization| org_type(&text(&organization["org_type"])).to_owned()),
        column("domain", "/domain"),
        column("id", "/id"),
    ],
    csv: Some(&[column("name", "/name"), column("type", "/org_type"), column("domain", "/domain"), column("id", "/id")]),
};

/// Organizations.
#[derive(Args, Clone, Debug)]
pub struct OrgNoun {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Action {
    /// List your organizations
    #[command(after_help = example!("org list"))]
    List,
    /// Show an organization
    #[command(after_help = example!("org show 'The Newspaper'"))]
    Show(ResourceSelector),
    /// Create a content owner, or request a platform or agent
    #[command(after_help = example!("org create 'The Newspaper' --domain newspaper.example"))]
    Create(CreateArgs),
    /// List the members of an organization
    #[command(after_help = example!("org members 'The Newspaper'"))]
    Members(ResourceSelector),
    /// Invite a member by email
    #[command(after_help = example!("org invite 'The Newspaper' ben@newspaper.example --role owner"))]
    Invite(InviteArgs),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct CreateArgs {
    /// Name of the organization
    #[arg(value_name = "NAME")]
    name: String,
    /// First domain of the content owner
    #[arg(long, value_name = "HOST", required_if_eq("kind", "content-owner"))]
    domain: Option<String>,
    /// Type of organization; an operator reviews platforms and agents
    #[arg(long = "type", value_name = "TYPE", value_enum, id = "kind", default_value_t = Type::ContentOwner)]
    kind: Type,
    /// Email address of the platform's or agent's administrator
    #[arg(long, value_name = "ADDRESS", required_if_eq_any([("kind", "platform"), ("kind", "agent")]))]
    admin_email: Option<String>,
    /// What the platform or agent will do
    #[arg(long, value_name = "TEXT", required_if_eq_any([("kind", "platform"), ("kind", "agent")]))]
    use_case: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Type {
    /// Publisher that verifies domains and reads their figures
    ContentOwner,
    /// CDN, marketplace or partner of publishers
    Platform,
    /// AI agent that reports what it does
    Agent,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct InviteArgs {
    /// ID or name of the organization
    #[arg(value_name = "ID")]
    id: String,
    /// Email address of the new member
    #[arg(value_name = "ADDRESS")]
    email: String,
    /// Role of the new member
    #[arg(long, value_parser = ["owner", "member"], default_value = "member")]
    role: String,
}

pub(crate) async fn run(context: &Context, noun: &OrgNoun) -> Result<(), Failure> {
    let client = context.client(CredentialKind::Person)?;
    match &noun.action {
        Action::List => ORG.list(context, &client, None).await,
        Action::Show(one) => context.output().object(&ORG.find(&client, &one.id).await?),
        Action::Create(created) => create(context, created).await,
        Action::Members(one) => {
            let id = ORG.id(&client, &one.id).await?;
            let members = client.get(&ORG.one(&id, "/members"), &Vec::new()).await?;
            let columns = [column("email", "/email"), column("role", "/role"), column("id", "/user_id")];
            context.output().list(&members, members.as_array().map(Vec::as_slice).unwrap_or_default(), &columns)
        }
        Action::Invite(invited) => {
            let id = ORG.id(&client, &invited.id).await?;
            let body = json!({"email": invited.email, "role": invited.role});
            context.output().object(&client.change(Method::POST, &ORG.one(&id, "/members"), Some(&body)).await?)
        }
    }
}

async fn create(context: &Context, created: &CreateArgs) -> Result<(), Failure> {
    let client = context.client(CredentialKind::Person)?;
    let asked = json!({"org_name": created.name, "admin_email": created.admin_email, "use_case": created.use_case});
    let (path, body) = match created.kind {
        Type::ContentOwner => {
            ("organizations", json!({"name": created.name, "org_type": "content_owner", "domain": created.domain}))
        }
        Type::Platform => ("platform-access-requests", asked),
        Type::Agent => ("agent-access-requests", asked),
    };
    let made = client.change(Method::POST, &format!("/api/v1/identity/{path}"), Some(&body)).await?;
    context.output().object(&made)
}
