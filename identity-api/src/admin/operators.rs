//! `telemetry identity-api admin operator …`

use super::print::Printed;
use super::{Office, email};
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
    pub(super) async fn run(self, office: &Office) -> Result<Printed, ApiError> {
        let mut transaction = office.begin().await?;
        let changed = match &self {
            Self::Add { email } => people::add_operator(&mut transaction, office.author(), email, office.now()).await?,
            Self::Remove { email, keep_keys } => {
                people::remove_operator(&mut transaction, office.author(), email, *keep_keys, office.now()).await?
            }
            Self::List => {
                return Printed::list(&people::operators(&mut transaction).await?, &["id", "email", "created_at"]);
            }
        };
        transaction.commit().await?;
        Printed::one(changed)
    }
}
