//! `telemetry identity-api admin key …`

use super::AdminContext;
use super::command_output::CommandOutput;
use crate::access::organization_rows;
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
    pub(super) async fn run(self, context: &AdminContext) -> Result<CommandOutput, ApiError> {
        let mut transaction = context.begin().await?;
        match self {
            Self::Create { organization, name, mut scopes } => {
                let name = text_rules::label("name", Some(name)).map_err(bodies::refuse)?;
                let org_type = organization_rows::type_of(&context.pool, organization).await?;
                let org_type = org_type.ok_or_else(organization_rows::no_organization)?;
                if scopes.is_empty() {
                    scopes = Scope::DEFAULT.to_vec();
                }
                scopes.sort_unstable();
                scopes.dedup();
                let holder = api_keys::KeyHolder { org: organization, org_type };
                let grants = api_keys::Grants::Scopes(&scopes);
                let (api_key, key) =
                    api_keys::issue(&mut transaction, context.author(), holder, &name, grants, context.now()).await?;
                transaction.commit().await?;
                CommandOutput::one(CreatedApiKey { api_key, key: key.reveal().to_owned() })
            }
            Self::List { organization } => {
                let keys = api_keys::list(&mut *transaction, organization).await?;
                CommandOutput::list(
                    &keys,
                    &["id", "name", "prefix", "scopes", "drain_id", "created_by", "created_at", "last_used_at", "revoked_at"],
                )
            }
            Self::Revoke { id } => {
                let revoked = api_keys::revoke(&mut transaction, context.author(), id, None, context.now()).await?;
                transaction.commit().await?;
                CommandOutput::one(revoked)
            }
        }
    }
}
