//! `telemetry identity-api admin access-request …`

use super::AdminContext;
use super::command_output::CommandOutput;
use crate::organizations::access_requests::{Verdict, review, with_status};
use crate::organizations::emails;
use crate::request::bodies;
use crate::request::text_rules;
use clap::Subcommand;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use schemas::identity::AccessStatus;
use schemas::ids::AccessRequestId;
use service_kit::http::ApiError;

#[derive(Subcommand, Clone, Debug)]
pub(super) enum AdminCommand {
    /// List requests, oldest first
    List {
        /// Filter by status
        #[arg(long, value_name = "STATUS", value_parser = status())]
        status: Option<AccessStatus>,
    },
    /// Approve a request: create the organization with the requester as owner
    Approve(ReviewArguments),
    /// Reject a request
    Reject(ReviewArguments),
}

#[derive(clap::Args, Clone, Debug)]
pub(super) struct ReviewArguments {
    /// ID of the request
    #[arg(value_name = "ID")]
    id: AccessRequestId,
    /// Note for the requester
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

fn status() -> impl TypedValueParser<Value = AccessStatus> {
    PossibleValuesParser::new(AccessStatus::ALL.map(AccessStatus::as_str)).try_map(|name| name.parse::<AccessStatus>())
}

impl AdminCommand {
    pub(super) async fn run(self, context: &AdminContext) -> Result<CommandOutput, ApiError> {
        let (verdict, ReviewArguments { id, note }) = match self {
            Self::List { status } => {
                let requests = with_status(&context.pool, status).await?;
                return CommandOutput::list(&requests, &["id", "status", "org_type", "org_name", "admin_email", "created_at"]);
            }
            Self::Approve(answer) => (Verdict::Approve, answer),
            Self::Reject(answer) => (Verdict::Reject, answer),
        };
        let note = note.map(|note| text_rules::prose("note", Some(note))).transpose().map_err(bodies::refuse)?;
        let mut transaction = context.begin().await?;
        let reviewed = review(&mut transaction, context.operator, id, verdict, note, context.now()).await?;
        transaction.commit().await?;
        if let Some(mailer) = &context.mailer {
            emails::send_verdict(&context.pool, mailer, context.entrance.clone(), &reviewed).await;
        }
        CommandOutput::one(reviewed)
    }
}
