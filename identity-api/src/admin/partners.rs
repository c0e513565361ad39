//! `telemetry identity-api admin partner …`

use super::AdminContext;
use super::command_output::CommandOutput;
use crate::organizations::creation;
use crate::organizations::partners;
use clap::Subcommand;
use schemas::ids::OrgId;
use service_kit::http::ApiError;

#[derive(Subcommand, Clone, Debug)]
pub(super) enum AdminCommand {
    /// Trust an organization to create others; its key also needs partner:provision
    Trust {
        /// ID of the organization
        #[arg(value_name = "ID")]
        id: OrgId,
    },
    /// Stop trusting an organization; the organizations it created stay
    Untrust {
        /// ID of the organization
        #[arg(value_name = "ID")]
        id: OrgId,
    },
}

impl AdminCommand {
    pub(super) async fn run(self, context: &AdminContext) -> Result<CommandOutput, ApiError> {
        let (id, is_trusted) = match self {
            Self::Trust { id } => (id, true),
            Self::Untrust { id } => (id, false),
        };
        let mut transaction = context.begin().await?;
        partners::set_trust(&mut transaction, context.author(), id, is_trusted, context.now()).await?;
        let partnership = creation::partnership(&mut transaction, id).await?;
        transaction.commit().await?;
        CommandOutput::one(partnership)
    }
}
