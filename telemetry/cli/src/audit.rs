//! `telemetry audit`: the organization's audit trail and its rejected reports (docs/api/identity.md#audit-trail).

use crate::client::Parameters;
use crate::context::{Context, CredentialKind};
use crate::failure::Failure;
use crate::output::{Column, column};
use crate::reads::PageArgs;
use crate::time_argument::Moment;
use clap::{Args, Subcommand};

const ENTRIES: [Column; 5] = [
    column("time", "/at"),
    column("action", "/action"),
    column("by", "/actor"),
    column("object", "/object_kind"),
    column("object ID", "/object_id"),
];
const CSV_ENTRIES: [Column; 6] = [
    column("at", "/at"),
    column("by", "/actor/kind"),
    column("name", "/actor/name"),
    column("action", "/action"),
    column("object", "/object_kind"),
    column("id", "/object_id"),
];
const REFUSALS: [Column; 7] = [
    column("route", "/route"),
    column("status", "/status"),
    column("code", "/code"),
    column("field", "/field"),
    column("rule", "/rule"),
    column("requests", "/requests"),
    column("last", "/last_at"),
];

/// The audit trail.
#[derive(Args, Clone, Debug)]
pub struct AuditNoun {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Action {
    /// List changes, newest first
    #[command(after_help = example!("audit list --action api_key.created"))]
    List(ListArgs),
    /// List why reports were rejected, latest first
    #[command(after_help = example!("audit refused --since 24h"))]
    Refused(RejectedArgs),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ListArgs {
    /// Only this action, such as api_key.created
    #[arg(long, value_name = "ACTION")]
    action: Option<String>,
    #[command(flatten)]
    part: PageArgs,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct RejectedArgs {
    /// Start: an age (30m, 24h, 7d, 4w) or an RFC 3339 time [default: 7d]
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    since: Option<Moment>,
    #[command(flatten)]
    part: PageArgs,
}

pub(crate) async fn run(context: &Context, noun: &AuditNoun) -> Result<(), Failure> {
    match &noun.action {
        Action::List(what) => {
            let mut parameters = what.part.parameters();
            parameters.extend(what.action.clone().map(|action| ("action", action)));
            list(context, "/api/v1/identity/audit", &parameters, (&ENTRIES, &CSV_ENTRIES)).await
        }
        Action::Refused(what) => {
            let mut parameters = what.part.parameters();
            parameters.extend(what.since.as_ref().map(|since| ("since", since.at(context.clock.now()))));
            list(context, "/api/v1/identity/refused-reports", &parameters, (&REFUSALS, &REFUSALS)).await
        }
    }
}

async fn list(
    context: &Context,
    path: &str,
    parameters: &Parameters,
    (columns, csv_columns): (&[Column], &[Column]),
) -> Result<(), Failure> {
    let all = context.client(CredentialKind::KeyOrPerson)?.get(path, parameters).await?;
    context.output().list_as(&all, all.as_array().map(Vec::as_slice).unwrap_or_default(), columns, csv_columns)
}
