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
    /// Register a domain, unverified
    Add {
        /// Whose it will be
        #[arg(long, value_name = "ID")]
        organization: OrgId,
        /// Host name, as in example.com
        #[arg(value_name = "DOMAIN", value_parser = site)]
        domain: Site,
    },
    /// Record a registered domain as verified, on your word
    Verify {
        /// Its id
        #[arg(value_name = "ID")]
        id: DomainId,
    },
    /// Take a domain from its organisation, verified or not
    Release {
        /// Its id
        #[arg(value_name = "ID")]
        id: DomainId,
    },
    /// List the registered domains of an organisation
    List {
        /// Whose they are
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
