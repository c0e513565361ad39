//! A key's drain: its provider, hosts and role (docs/api/drains.md#credentials).

use crate::State;
use crate::request::report_signature;
use schemas::event::SourceRole;
use schemas::identity::{DrainProvider, DrainRole};
use schemas::ids::DrainId;
use schemas::problem::Code;
use schemas::site::Site;
use service_kit::auth::Caller;
use service_kit::http::ApiError;
use service_kit::secret_encryption::Sealer;
use service_kit::stale_cache::StaleCache;
use sqlx::PgPool;

const FIND: &str = "SELECT provider, hosts, role, secret_sealed FROM drains WHERE id = $1 AND deleted_at IS NULL";

/// A drain's settings.
#[derive(Clone)]
pub(super) struct KeyDrain {
    pub(super) id: DrainId,
    provider: String,
    /// Hosts whose lines are kept. If empty, every host the organization may report for.
    pub(super) hosts: Vec<Site>,
    pub(super) role: SourceRole,
    secret_sealed: Option<Vec<u8>>,
}

impl KeyDrain {
    /// Returns the drain's signing secret, if it has one. Returns 503 if this process can't decrypt it.
    pub(super) fn secret(&self, sealer: Option<&Sealer>) -> Result<Option<String>, ApiError> {
        let Some(sealed) = &self.secret_sealed else { return Ok(None) };
        let opened = match sealer {
            Some(sealer) => sealer.open(sealed, self.id.0.as_bytes()),
            None => Err(anyhow::anyhow!("TELEMETRY_SECRETS_KEY is not set, but a drain has a secret: use identity-api's key")),
        };
        opened.map(Some).map_err(ApiError::unavailable)
    }
}

/// Drain cache. Stale entries are used while PostgreSQL is unavailable.
pub(super) type DrainCache = StaleCache<DrainId, KeyDrain>;

/// Returns the key's drain, if it has one. Returns 403 if the drain belongs to another provider, or the key may not report.
pub(super) async fn for_caller(state: &State, caller: &Caller, provider: DrainProvider) -> Result<Option<KeyDrain>, ApiError> {
    let Some(id) = caller.require_drain_or_write()? else {
        // Providers can't sign their logs.
        return if caller.require_signature { Err(report_signature::refusal("none")) } else { Ok(None) };
    };
    let fed = state.drains.drain_cache.find(&id, || find(&state.drains.pool, id)).await?;
    match fed.filter(|fed| fed.provider == provider.as_str()) {
        Some(fed) => Ok(Some(fed)),
        None => Err(ApiError::new(Code::Forbidden, "The API key belongs to another drain or a deleted drain.")),
    }
}

/// Provider, hosts, role, secret.
type Row = (String, Vec<String>, String, Option<Vec<u8>>);

async fn find(pool: &PgPool, id: DrainId) -> Result<Option<KeyDrain>, sqlx::Error> {
    let row: Option<Row> = sqlx::query_as(FIND).bind(id.0).fetch_optional(pool).await?;
    Ok(row.map(|(provider, hosts, role, secret_sealed)| KeyDrain {
        id,
        provider,
        hosts: hosts.iter().filter_map(|host| Site::from_domain(host).ok()).collect(),
        role: role.parse().map_or(SourceRole::Edge, observer),
        secret_sealed,
    }))
}

/// Returns the role in which a drain's lines are reported.
pub(super) fn observer(role: DrainRole) -> SourceRole {
    match role {
        DrainRole::Edge => SourceRole::Edge,
        DrainRole::Origin => SourceRole::Origin,
    }
}
