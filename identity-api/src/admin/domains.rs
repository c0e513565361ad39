//! `telemetry identity-api admin domain …`

use super::command_output::CommandOutput;
use super::{AdminContext, site};
use crate::access::organization_rows;
use crate::domains::registrations::{self, Attester};
use clap::Subcommand;
use schemas::ids::{DomainId, OrgId};
use schemas::site::Site;
use service_kit::http::ApiError;

#[derive(Subcommand, Clone, Debug)]
pub(super) enum AdminCommand {
    /// Add a domain, unverified
    Add {
        /// ID of the organization
        #[arg(long, value_name = "ID")]
        organization: OrgId,
        /// Hostname, such as example.com
        #[arg(value_name = "DOMAIN", value_parser = site)]
        domain: Site,
    },
    /// Mark a domain as verified without a check
    Verify {
        /// ID of the domain
        #[arg(value_name = "ID")]
        id: DomainId,
    },
    /// Release a domain
    Release {
        /// ID of the domain
        #[arg(value_name = "ID")]
        id: DomainId,
    },
    /// List an organization's domains
    List {
        /// ID of the organization
        #[arg(long, value_name = "ID")]
        organization: OrgId,
    },
}

impl AdminCommand {
    pub(super) async fn run(self, context: &AdminContext) -> Result<CommandOutput, ApiError> {
        let (author, now) = (context.author(), context.now());
        let mut transaction = context.begin().await?;
        let changed = match self {
            Self::Add { organization, domain } => {
                organization_rows::lock(&mut transaction, organization).await?;
                registrations::register(&mut transaction, author, organization, &domain, now).await?
            }
            Self::Verify { id } => registrations::attest(&mut transaction, author, id, Attester::Operator, now).await?,
            Self::Release { id } => registrations::release(&mut transaction, author, id, now).await?,
            Self::List { organization } => {
                let mut registered = registrations::by_organization(&mut transaction, &[organization.0], None).await?;
                let domains = registered.remove(&organization).unwrap_or_default().domains;
                return CommandOutput::list(
                    &domains,
                    &["id", "domain", "verified", "verification_method", "created_at", "verified_at"],
                );
            }
        };
        transaction.commit().await?;
        CommandOutput::one(changed)
    }
}
