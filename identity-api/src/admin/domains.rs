//! `telemetry identity-api admin domain …`

use super::print::Printed;
use super::{Office, site};
use crate::access::organization;
use crate::domains::registrations::{self, Voucher};
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
    pub(super) async fn run(self, office: &Office) -> Result<Printed, ApiError> {
        let (author, now) = (office.author(), office.now());
        let mut transaction = office.begin().await?;
        let changed = match self {
            Self::Add { organization, domain } => {
                organization::lock(&mut transaction, organization).await?;
                registrations::register(&mut transaction, author, organization, &domain, now).await?
            }
            Self::Verify { id } => registrations::vouch(&mut transaction, author, id, Voucher::Operator, now).await?,
            Self::Release { id } => registrations::release(&mut transaction, author, id, now).await?,
            Self::List { organization } => {
                let mut registered = registrations::of(&mut transaction, &[organization.0], None).await?;
                let domains = registered.remove(&organization).unwrap_or_default().domains;
                return Printed::list(
                    &domains,
                    &["id", "domain", "verified", "verification_method", "created_at", "verified_at"],
                );
            }
        };
        transaction.commit().await?;
        Printed::one(changed)
    }
}
