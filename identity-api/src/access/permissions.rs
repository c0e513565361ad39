//! Permissions of owners and members, and which scopes a key can grant (docs/api/identity.md#what-a-member-may-do).
//!
//! Permissions are checked under the lock that removing a member takes, so nothing that a removed member was creating at that moment
//! survives.

use super::actor::{Actor, Credential};
use super::audit::Author;
use super::organization_rows;
use schemas::identity::{Role, Scope};
use schemas::ids::{ApiKeyId, OrgId, UserId};
use schemas::problem::Code;
use service_kit::http::ApiError;
use sqlx::PgConnection;
use uuid::Uuid;

/// Actions that require an owner or a key with `identity:write`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OwnerAction {
    Keys,
    Drains,
    Delegations,
    Webhooks,
    Domains,
    Analysts,
    Manifests,
    ReconciliationAlerts,
}

impl OwnerAction {
    fn refusal(self) -> &'static str {
        match self {
            Self::Keys => "Only owners can create and revoke API keys.",
            Self::Drains => "Only owners can create and delete log drains and replace their keys.",
            Self::Delegations => "Only owners can share the organization's data and stop sharing it.",
            Self::Analysts => "Only owners can revoke analyst accounts.",
            Self::Webhooks => "Only owners can create, enable and test webhook endpoints and replace their secrets.",
            Self::Manifests => "Only owners can register, refresh and delete manifests.",
            Self::Domains => "Only owners can release domains.",
            Self::ReconciliationAlerts => "Only owners can change reconciliation alerts.",
        }
    }
}

/// Locks the organization's row. Returns 403 for members who aren't owners, and 401 if the key was revoked in the meantime.
pub(crate) async fn require_owner(transaction: &mut PgConnection, actor: &Actor, to: OwnerAction) -> Result<(), ApiError> {
    organization_rows::lock(transaction, actor.org_id).await?;
    match actor.credential {
        Credential::Key(key) => held(transaction, key).await.map(drop),
        Credential::User(user) => match organization_rows::role_of(transaction, actor.org_id, user).await? {
            Some(Role::Owner) => Ok(()),
            Some(Role::Member) | None => Err(ApiError::new(Code::Forbidden, to.refusal())),
        },
    }
}

/// Returns the key's scopes and locks its row until the transaction ends.
async fn held(transaction: &mut PgConnection, key: ApiKeyId) -> Result<Vec<Scope>, ApiError> {
    let names: Option<Vec<String>> =
        sqlx::query_scalar("SELECT scopes FROM api_keys WHERE id = $1 AND revoked_at IS NULL FOR SHARE")
            .bind(key.0)
            .fetch_optional(transaction)
            .await?;
    let names = names.ok_or_else(ApiError::unauthenticated)?;
    Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
}

/// Rejects scopes that the key itself doesn't have. People can grant every scope.
pub(crate) async fn require_held(transaction: &mut PgConnection, author: Author, scopes: &[Scope]) -> Result<(), ApiError> {
    let Author::Key(key) = author else { return Ok(()) };
    let held = held(transaction, key).await?;
    let Some(lacking) = scopes.iter().find(|scope| !held.contains(scope)) else { return Ok(()) };
    let detail = format!(
        "This API key can't grant {}, because it doesn't have this scope. In scopes, list only scopes that the key has.",
        lacking.as_str()
    );
    Err(ApiError::new(Code::MissingScope, detail))
}

/// The creators of delegations and webhook endpoints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Creators<'a> {
    /// A person, as a member of an organization.
    pub(crate) member: Option<(OrgId, UserId)>,
    /// Keys of any organization.
    pub(crate) keys: &'a [Uuid],
}
