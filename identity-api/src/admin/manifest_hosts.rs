//! `telemetry identity-api admin manifest-host …`

use super::command_output::CommandOutput;
use super::{AdminContext, site};
use crate::domains::manifests::hosts;
use clap::{Args, Subcommand};
use schemas::ids::OrgId;
use schemas::site::Site;
use serde_json::json;
use service_kit::http::ApiError;

#[derive(Subcommand, Clone, Debug)]
pub(super) enum AdminCommand {
    /// Let an organization publish manifests on a host and below it
    Attest(Host),
    /// Withdraw the permission; the keys become invalid at the next check, within an hour
    Withdraw(Host),
}

#[derive(Args, Clone, Debug)]
pub(super) struct Host {
    /// ID of the organization
    #[arg(long, value_name = "ID")]
    organization: OrgId,
    /// Hostname, such as agent.example
    #[arg(value_name = "HOST", value_parser = site)]
    host: Site,
}

impl AdminCommand {
    pub(super) async fn run(self, context: &AdminContext) -> Result<CommandOutput, ApiError> {
        let (host, is_attested) = match self {
            Self::Attest(host) => (host, true),
            Self::Withdraw(host) => (host, false),
        };
        let mut transaction = context.begin().await?;
        let of = (host.organization, &host.host);
        hosts::attest(&mut transaction, context.author(), of, is_attested, context.now()).await?;
        transaction.commit().await?;
        CommandOutput::one(json!({"organization_id": host.organization, "host": host.host.domain(), "attested": is_attested}))
    }
}
