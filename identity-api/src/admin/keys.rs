//! `telemetry identity-api admin key …`

use super::Office;
use super::print::Printed;
use crate::access::organization;
use crate::keys::api_keys;
use crate::request::bodies;
use crate::request::text_rules;
use clap::Subcommand;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use schemas::identity::{CreatedApiKey, Scope};
use schemas::ids::{ApiKeyId, OrgId};
use service_kit::http::ApiError;

#[derive(Subcommand, Clone, Debug)]
pub(super) enum AdminCommand {
    /// Create a key and print it; it is shown only once
    Create {
        /// ID of the organization
        #[arg(long, value_name = "ID")]
        organization: OrgId,
        /// Name of the key
        #[arg(long, default_value = "API key")]
        name: String,
        /// Scope of the key; can be repeated [default: identity:read, telemetry:read and telemetry:write]
        #[arg(long = "scope", value_name = "SCOPE", value_parser = scope())]
        scopes: Vec<Scope>,
    },
    /// List an organization's keys
    List {
        /// ID of the organization
        #[arg(long, value_name = "ID")]
        organization: OrgId,
    },
    /// Revoke a key
    Revoke {
        /// ID of the key
        #[arg(value_name = "ID")]
        id: ApiKeyId,
    },
}

fn scope() -> impl TypedValueParser<Value = Scope> {
    PossibleValuesParser::new(Scope::ALL.map(Scope::as_str)).try_map(|name| name.parse::<Scope>())
}

impl AdminCommand {
    pub(super) async fn run(self, office: &Office) -> Result<Printed, ApiError> {
        let mut transaction = office.begin().await?;
        match self {
            Self::Create { organization, name, mut scopes } => {
                let name = text_rules::label("name", Some(name)).map_err(bodies::refuse)?;
                let org_type = organization::type_of(&office.pool, organization).await?;
                let org_type = org_type.ok_or_else(organization::no_organization)?;
                if scopes.is_empty() {
                    scopes = Scope::DEFAULT.to_vec();
                }
                scopes.sort_unstable();
                scopes.dedup();
                let holder = api_keys::Holder { org: organization, org_type };
                let grants = api_keys::Grants::Scopes(&scopes);
                let (api_key, key) =
                    api_keys::issue(&mut transaction, office.author(), holder, &name, grants, office.now()).await?;
                transaction.commit().await?;
                Printed::one(CreatedApiKey { api_key, key: key.reveal().to_owned() })
            }
            Self::List { organization } => {
                let keys = api_keys::of(&mut *transaction, organization).await?;
                Printed::list(
                    &keys,
                    &["id", "name", "prefix", "scopes", "drain_id", "created_by", "created_at", "last_used_at", "revoked_at"],
                )
            }
            Self::Revoke { id } => {
                let revoked = api_keys::revoke(&mut transaction, office.author(), id, None, office.now()).await?;
                transaction.commit().await?;
                Printed::one(revoked)
            }
        }
    }
}
