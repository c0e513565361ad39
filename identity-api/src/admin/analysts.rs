//! `telemetry identity-api admin analyst …`
//!
//! Must print a password only when the account is made.

use super::Office;
use super::print::Printed;
use crate::keys::analysts::{self, NewAccount};
use crate::request::bodies;
use crate::request::text_rules;
use clap::Subcommand;
use schemas::ids::{AnalystAccountId, OrgId};
use schemas::problem::Code;
use service_kit::http::ApiError;
use service_kit::settings::ClickHouseShards;

#[derive(Subcommand, Clone, Debug)]
pub(super) enum AdminCommand {
    /// Make an account in ClickHouse that reads what the organisation may see, and print its password this once
    Create {
        /// Whose it is
        #[arg(long, value_name = "ID")]
        organization: OrgId,
        /// The content owner that lets the organisation read; for who has no domains of its own
        #[arg(long, value_name = "ID")]
        delegated_from: Option<OrgId>,
        /// What it is called
        #[arg(long, default_value = "Analyst")]
        name: String,
        /// Where ClickHouse is, if it is several servers: no account can read these
        #[arg(
            long,
            env = "CLICKHOUSE_SHARDS",
            default_value = "",
            value_name = "URL[,URL…]",
            hide_env_values = true,
            hide_default_value = true
        )]
        clickhouse_shards: ClickHouseShards,
    },
    /// List accounts
    List {
        /// Of this organisation only
        #[arg(long, value_name = "ID")]
        organization: Option<OrgId>,
    },
    /// End an account
    Revoke {
        /// Its id
        #[arg(value_name = "ID")]
        id: AnalystAccountId,
    },
}

impl AdminCommand {
    pub(super) async fn run(self, office: &Office) -> Result<Printed, ApiError> {
        let mut transaction = office.begin().await?;
        match self {
            Self::Create { clickhouse_shards, .. } if clickhouse_shards.are_several() => Err(ApiError::new(
                Code::Conflict,
                "CLICKHOUSE_SHARDS: analyst accounts are not supported with several ClickHouse servers.",
            )),
            Self::Create { organization, delegated_from, name, .. } => {
                let name = text_rules::label("name", Some(name)).map_err(bodies::refuse)?;
                let new = NewAccount { organization, delegated_from, name };
                let created = analysts::create(&mut transaction, office.author(), new, office.now()).await?;
                transaction.commit().await?;
                Printed::one(created)
            }
            Self::List { organization } => {
                let accounts = analysts::list(&mut *transaction, organization).await?;
                Printed::list(
                    &accounts,
                    &["id", "organization_id", "delegated_from", "login", "name", "created_at", "revoked_at"],
                )
            }
            Self::Revoke { id } => {
                let revoked = analysts::revoke(&mut transaction, office.author(), id, office.now()).await?;
                transaction.commit().await?;
                Printed::one(revoked)
            }
        }
    }
}
