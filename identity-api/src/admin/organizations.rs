//! `telemetry identity-api admin organization …`

use super::command_output::CommandOutput;
use super::{AdminContext, email, site};
use crate::organizations::creation::{self, OrganizationDetails, OrganizationToCreate};
use crate::organizations::memberships;
use crate::people::sign_in::account;
use crate::request::bodies;
use crate::request::email_address::EmailAddress;
use crate::request::text_rules;
use clap::Subcommand;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use schemas::identity::{Membership, OrgType};
use schemas::ids::OrgId;
use schemas::site::Site;
use serde::Serialize;
use service_kit::http::ApiError;

#[derive(Subcommand, Clone, Debug)]
pub(super) enum AdminCommand {
    /// Create an organization of any type
    Create {
        /// Name of the organization
        #[arg(long)]
        name: String,
        /// Type of the organization
        #[arg(long = "type", value_name = "TYPE", value_parser = org_type())]
        org_type: OrgType,
        /// Domain to add, unverified
        #[arg(long, value_name = "DOMAIN", value_parser = site)]
        domain: Option<Site>,
        /// Email address of the owner
        #[arg(long, value_name = "EMAIL", value_parser = email)]
        owner: Option<EmailAddress>,
    },
    /// List organizations, oldest first
    List {
        /// Filter by type
        #[arg(long = "type", value_name = "TYPE", value_parser = org_type())]
        org_type: Option<OrgType>,
    },
    /// Show an organization and its members
    Show {
        /// ID of the organization
        #[arg(value_name = "ID")]
        id: OrgId,
    },
}

fn org_type() -> impl TypedValueParser<Value = OrgType> {
    PossibleValuesParser::new(OrgType::ALL.map(OrgType::as_str)).try_map(|name| name.parse::<OrgType>())
}

#[derive(Serialize)]
struct OrganizationWithMembers {
    #[serde(flatten)]
    organization: OrganizationDetails,
    #[serde(flatten)]
    partnership: creation::Partnership,
    members: Vec<Membership>,
}

impl AdminCommand {
    pub(super) async fn run(self, context: &AdminContext) -> Result<CommandOutput, ApiError> {
        let mut transaction = context.begin().await?;
        match self {
            Self::Create { name, org_type, domain, owner } => {
                let name = text_rules::name("name", Some(name)).map_err(bodies::refuse)?;
                let owner = match &owner {
                    Some(email) => {
                        Some(account::find_or_create(&mut transaction, Some(context.author()), email, context.now()).await?)
                    }
                    None => None,
                };
                let founding = OrganizationToCreate { name: &name, org_type, owner, site: domain.as_ref(), provisioned_by: None };
                let id = creation::insert_organization(&mut transaction, context.author(), founding, context.now()).await?;
                let organization = creation::read(&mut transaction, id).await?;
                transaction.commit().await?;
                CommandOutput::one(organization)
            }
            Self::List { org_type } => {
                let ids = creation::ids_of(&mut transaction, org_type).await?;
                let organizations = creation::read_all(&mut transaction, &ids).await?;
                CommandOutput::list(&organizations, &["id", "name", "org_type", "domain", "created_at"])
            }
            Self::Show { id } => {
                let organization = creation::read(&mut transaction, id).await?;
                let partnership = creation::partnership(&mut transaction, id).await?;
                CommandOutput::one(OrganizationWithMembers {
                    organization,
                    partnership,
                    members: memberships::all(&mut transaction, id).await?,
                })
            }
        }
    }
}
