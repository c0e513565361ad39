//! `telemetry org`: a person's organisations (docs/api/identity.md#organisations).
//!
//! Must ask as a person: a key has one organisation and makes none.

use crate::context::{Asker, Context};
use crate::failure::Failure;
use crate::identity::{Kind, One};
use crate::output::column;
use axum::http::Method;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

const ORG: Kind = Kind {
    noun: "organization",
    path: "organizations",
    name: "name",
    columns: &[column("name", "/name"), column("type", "/org_type"), column("domain", "/domain"), column("id", "/id")],
};

/// Organisations.
#[derive(Args, Clone, Debug)]
pub struct OrgNoun {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Action {
    /// List the organisations of the person who is signed in
    List,
    /// Show one
    Show(One),
    /// Found a content owner, or ask for a platform or an agent
    Create(Created),
    /// List the members of one
    Members(One),
    /// Invite a person by mail
    Invite(Invited),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Created {
    /// Name
    #[arg(value_name = "NAME")]
    name: String,
    /// First domain of a content owner
    #[arg(long, value_name = "HOST", required_if_eq("kind", "content-owner"))]
    domain: Option<String>,
    /// What it is; an operator decides on platforms and agents
    #[arg(long = "type", value_enum, id = "kind", default_value_t = Type::ContentOwner)]
    kind: Type,
    /// Address of the one who administers a platform or an agent
    #[arg(long, value_name = "ADDRESS", required_if_eq_any([("kind", "platform"), ("kind", "agent")]))]
    admin_email: Option<String>,
    /// What a platform or an agent is going to do
    #[arg(long, value_name = "TEXT", required_if_eq_any([("kind", "platform"), ("kind", "agent")]))]
    use_case: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Type {
    /// Has domains, and reads what is reported of them
    ContentOwner,
    /// Reports for others
    Platform,
    /// Reports what it does itself
    Agent,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Invited {
    /// Id or name of the organisation
    #[arg(value_name = "ID")]
    id: String,
    /// Address of the person
    #[arg(value_name = "ADDRESS")]
    email: String,
    /// What the person may do
    #[arg(long, value_parser = ["owner", "member"], default_value = "member")]
    role: String,
}

pub(crate) async fn run(context: &Context, noun: &OrgNoun) -> Result<(), Failure> {
    let client = context.client(Asker::Person)?;
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

async fn create(context: &Context, created: &Created) -> Result<(), Failure> {
    let client = context.client(Asker::Person)?;
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
