//! `telemetry identity-api admin analyst …`

use super::AdminContext;
use super::command_output::CommandOutput;
use crate::keys::analyst_accounts::{self, NewAccount};
use crate::request::bodies;
use crate::request::email_address::EmailAddress;
use crate::request::text_rules;
use clap::Subcommand;
use schemas::ids::{AnalystAccountId, OrgId};
use service_kit::http::ApiError;

#[derive(Subcommand, Clone, Debug)]
pub(super) enum AdminCommand {
    /// Create an account in ClickHouse for an organization's data, and print its password
    Create {
        /// Organization that the account belongs to
        #[arg(long, value_name = "ID")]
        organization: OrgId,
        /// Content owner that shares its data; for organizations without domains
        #[arg(long, value_name = "ID")]
        delegated_from: Option<OrgId>,
        /// Email address of the member who uses it; removing the member revokes it
        #[arg(long, value_name = "EMAIL", value_parser = super::email)]
        member: Option<EmailAddress>,
        /// Name of the account
        #[arg(long, default_value = "Analyst")]
        name: String,
    },
    /// List accounts
    List {
        /// ID of the organization
        #[arg(long, value_name = "ID")]
        organization: Option<OrgId>,
    },
    /// Revoke an account
    Revoke {
        /// ID of the account
        #[arg(value_name = "ID")]
        id: AnalystAccountId,
    },
}

impl AdminCommand {
    pub(super) async fn run(self, context: &AdminContext) -> Result<CommandOutput, ApiError> {
        let mut transaction = context.begin().await?;
        match self {
            Self::Create { organization, delegated_from, member, name } => {
                let name = text_rules::label("name", Some(name)).map_err(bodies::refuse)?;
                let new = NewAccount { organization, delegated_from, member, name };
                let created = analyst_accounts::create(&mut transaction, context.author(), new, context.now()).await?;
                transaction.commit().await?;
                CommandOutput::one(created)
            }
            Self::List { organization } => {
                let accounts = analyst_accounts::list(&mut *transaction, organization).await?;
                CommandOutput::list(
                    &accounts,
                    &["id", "organization_id", "delegated_from", "user_id", "login", "name", "created_at", "revoked_at"],
                )
            }
            Self::Revoke { id } => {
                let revoked = analyst_accounts::revoke(&mut transaction, context.author(), id, None, context.now()).await?;
                transaction.commit().await?;
                CommandOutput::one(revoked)
            }
        }
    }
}
