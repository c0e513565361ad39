//! `telemetry delegation`: who may read whose figures, and who asks to (docs/api/identity.md#delegations).
//!
//! Must not decide anything: granting and taking back are the grantor's, and the service says so.

use crate::context::{Asker, Context};
use crate::failure::Failure;
use crate::identity::{Gone, Kind, One};
use crate::output::column;
use crate::talk::say;
use axum::http::Method;
use clap::{Args, Subcommand};
use serde_json::json;
use uuid::Uuid;

const DELEGATION: Kind = Kind {
    noun: "delegation",
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
const REQUEST: Kind = Kind {
    noun: "delegation request",
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
    /// List the delegations in force
    List(Listed),
    /// Show one
    Show(One),
    /// Let an organisation read
    Create(Created),
    /// Take a delegation back
    Delete(Gone),
    /// List the requests that wait for an answer
    Requests(Listed),
    /// Ask the owner of a domain for one
    Request(Requested),
    /// Grant what is asked for
    Approve(One),
    /// Deny what is asked for
    Deny(One),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Listed {
    /// On which side the organisation stands
    #[arg(long, value_parser = ["grantor", "grantee"])]
    role: Option<String>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Created {
    /// Id of the organisation that may read: its people see it by `telemetry whoami`
    #[arg(long, value_name = "ORGANIZATION_ID", value_parser = id)]
    to: Uuid,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Requested {
    /// Domain whose owner is asked
    #[arg(value_name = "HOST")]
    domain: String,
}

/// Names are not unique, and nobody is told those of others.
fn id(text: &str) -> Result<Uuid, String> {
    text.parse().map_err(|_| "an organisation is named by its id; who asked for access is granted it by its name: telemetry delegation approve NAME".to_owned())
}

pub(crate) async fn run(context: &Context, noun: &DelegationNoun) -> Result<(), Failure> {
    let client = context.client(Asker::Either)?;
    let of = |listed: &Listed| listed.role.clone().map(|role| ("role", role));
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
            say("the request is denied");
            Ok(())
        }
    }
}
