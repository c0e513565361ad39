//! `telemetry identity-api admin operator …`

use super::command_output::CommandOutput;
use super::{AdminContext, email};
use crate::people;
use crate::request::email_address::EmailAddress;
use clap::Subcommand;
use service_kit::http::ApiError;

#[derive(Subcommand, Clone, Debug)]
pub(super) enum AdminCommand {
    /// Add an operator
    Add {
        /// Email address for sign-in
        #[arg(value_name = "EMAIL", value_parser = email)]
        email: EmailAddress,
    },
    /// Remove an operator and revoke the keys they created
    Remove {
        /// Keep the API keys that the operator created
        #[arg(long)]
        keep_keys: bool,
        /// Email address for sign-in
        #[arg(value_name = "EMAIL", value_parser = email)]
        email: EmailAddress,
    },
    /// List operators
    List,
}

impl AdminCommand {
    pub(super) async fn run(self, context: &AdminContext) -> Result<CommandOutput, ApiError> {
        let mut transaction = context.begin().await?;
        let changed = match &self {
            Self::Add { email } => people::add_operator(&mut transaction, context.author(), email, context.now()).await?,
            Self::Remove { email, keep_keys } => {
                people::remove_operator(&mut transaction, context.author(), email, *keep_keys, context.now()).await?
            }
            Self::List => {
                return CommandOutput::list(&people::operators(&mut transaction).await?, &["id", "email", "created_at"]);
            }
        };
        transaction.commit().await?;
        CommandOutput::one(changed)
    }
}
