//! `telemetry identity-api admin analyst …`

use super::Office;
use super::print::Printed;
use crate::keys::analysts::{self, NewAccount};
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
        /// Organization of the account
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
    pub(super) async fn run(self, office: &Office) -> Result<Printed, ApiError> {
        let mut transaction = office.begin().await?;
        match self {
            Self::Create { organization, delegated_from, member, name } => {
                let name = text_rules::label("name", Some(name)).map_err(bodies::refuse)?;
                let new = NewAccount { organization, delegated_from, member, name };
                let created = analysts::create(&mut transaction, office.author(), new, office.now()).await?;
                transaction.commit().await?;
                Printed::one(created)
            }
            Self::List { organization } => {
                let accounts = analysts::list(&mut *transaction, organization).await?;
                Printed::list(
                    &accounts,
                    &["id", "organization_id", "delegated_from", "user_id", "login", "name", "created_at", "revoked_at"],
                )
            }
            Self::Revoke { id } => {
                let revoked = analysts::revoke(&mut transaction, office.author(), id, None, office.now()).await?;
                transaction.commit().await?;
                Printed::one(revoked)
            }
        }
    }
}
