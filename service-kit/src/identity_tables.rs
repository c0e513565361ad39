//! Read-only lookups in identity-api's tables: callers, verified domains, delegations.
//!
//! Credentials are not cached here, so a revocation takes effect at the next lookup.

use crate::caller::{Caller, Membership, SessionUser};
use crate::client_address::ClientSettings;
use crate::http::ApiError;
use crate::unknown_credentials::UnknownCredentials;
use chrono::{DateTime, Utc};
use schemas::identity::{OrgType, Scope};
use schemas::ids::{ApiKeyId, DrainId, OrgId, UserId};
use schemas::secrets::SecretHash;
use schemas::site::Site;
use schemas::summary_responses::OrgName;
use sqlx::PgPool;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// Performs the lookups; cheap to clone.
#[derive(Clone)]
pub struct IdentityTables {
    pool: PgPool,
    unknown_credentials: Arc<UnknownCredentials>,
}

/// A service state that can look up callers. The credential extractors require it.
pub trait HasIdentityTables: Send + Sync {
    fn identity_tables(&self) -> &IdentityTables;

    /// Returns a key's caller. Services that use cached callers while PostgreSQL is unavailable override this.
    fn find_caller(&self, hash: &SecretHash) -> impl Future<Output = Result<Option<Caller>, ApiError>> + Send {
        async { Ok(self.identity_tables().find_key(hash).await?) }
    }

    /// Called when a valid key is used. Services that record key uses pass it to their [`crate::key_uses::KeyUses`].
    fn record_use(&self, _key: ApiKeyId) {}
}

impl<T: HasIdentityTables> HasIdentityTables for Arc<T> {
    fn identity_tables(&self) -> &IdentityTables {
        self.as_ref().identity_tables()
    }

    fn find_caller(&self, hash: &SecretHash) -> impl Future<Output = Result<Option<Caller>, ApiError>> + Send {
        self.as_ref().find_caller(hash)
    }

    fn record_use(&self, key: ApiKeyId) {
        self.as_ref().record_use(key);
    }
}

/// An organization's verified host, with the part of its history that the organization may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedSite {
    pub site: Site,
    /// Start of the readable history. Earlier events belong to a previous owner; `None` means the whole history.
    pub visible_from: Option<DateTime<Utc>>,
    /// Subdomains that other organizations have verified.
    pub excluded: Vec<Site>,
    /// Subdomains that others owned until the given time. Those owners keep the earlier events. Sorted; an entry also applies to subdomains
    /// of its host.
    pub formerly_owned: Vec<(Site, DateTime<Utc>)>,
}

/// One version of a signing key, as listed in an organization's manifest.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct ListedKey {
    /// Id of the version.
    pub version: Uuid,
    /// The key's id in the manifest.
    pub key_id: String,
    /// Ed25519.
    pub public_key: [u8; 32],
    /// The key is invalid from this time on.
    pub expires: Option<DateTime<Utc>>,
}

/// Key, organization, its type, its earliest owner, scopes, whether it is strict, whether it requires signatures, its drain.
type KeyRow = (Uuid, Uuid, String, Option<Uuid>, Vec<String>, bool, bool, Option<Uuid>);

type OwnedRow = (String, Option<DateTime<Utc>>, Vec<String>, Option<Vec<String>>, Option<Vec<DateTime<Utc>>>);

impl From<OwnedRow> for OwnedSite {
    fn from((site, visible_from, except, left, until): OwnedRow) -> Self {
        let left: Vec<Site> = left.unwrap_or_default().iter().map(|site| Site::from_stored(site)).collect();
        let left: Vec<(Site, DateTime<Utc>)> = left.into_iter().zip(until.unwrap_or_default()).collect();
        Self {
            site: Site::from_stored(&site),
            visible_from,
            excluded: except.iter().map(|site| Site::from_stored(site)).collect(),
            formerly_owned: left.iter().map(|(site, until)| (site.clone(), latest(site, *until, &left))).collect(),
        }
    }
}

/// Returns the time until which another organization owned `site` or one of its parents.
fn latest(site: &Site, until: DateTime<Utc>, left: &[(Site, DateTime<Utc>)]) -> DateTime<Utc> {
    left.iter().filter(|(above, _)| site.is_within(above)).map(|(_, until)| *until).fold(until, DateTime::max)
}

/// Timeout of one lookup, even if PostgreSQL stops responding midway.
const LOOK_UP_DEADLINE: Duration = Duration::from_millis(2_500);

async fn bounded<T>(look_up: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    tokio::time::timeout(LOOK_UP_DEADLINE, look_up).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
}

fn org_type_of(text: &str) -> Result<OrgType, sqlx::Error> {
    text.parse().map_err(|unknown: <OrgType as std::str::FromStr>::Err| sqlx::Error::Decode(unknown.into()))
}

impl OwnedSite {
    /// Returns whether this verification makes the owner of `site`.
    pub fn covers(&self, site: &Site) -> bool {
        site.is_within(&self.site) && !self.excluded.iter().any(|other| site.is_within(other))
    }
}

impl IdentityTables {
    pub fn new(pool: PgPool) -> Self {
        Self::with_limits(&ClientSettings::default(), pool)
    }

    /// Creates lookups through `pool` with the limits on unknown credentials in `clients`.
    pub fn with_limits(clients: &ClientSettings, pool: PgPool) -> Self {
        Self { pool, unknown_credentials: Arc::new(UnknownCredentials::new(clients)) }
    }

    pub fn unknown_credentials(&self) -> &UnknownCredentials {
        &self.unknown_credentials
    }

    /// Returns the caller of a key unless the key is revoked or expired. A drain key gets no scopes, whatever its row contains, so only
    /// routes that call [`Caller::require_drain_or_write`] accept it.
    pub async fn find_key(&self, hash: &SecretHash) -> Result<Option<Caller>, sqlx::Error> {
        let row: Option<KeyRow> = bounded(sqlx::query_as(
            "SELECT k.id, o.id, o.org_type, m.user_id, CASE WHEN k.drain_id IS NULL THEN k.scopes ELSE '{}' END, k.strict, k.require_signature, k.drain_id FROM api_keys k JOIN organizations o ON o.id = k.organization_id \
             LEFT JOIN LATERAL (SELECT user_id FROM memberships WHERE organization_id = o.id AND role = 'owner' \
                 ORDER BY created_at, user_id LIMIT 1) AS m ON true \
             WHERE k.key_hash = $1 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())",
        )
        .bind(hash.as_bytes().as_slice())
        .fetch_optional(&self.pool))
        .await?;
        row.map(|(key, org, org_type, owner, scopes, strict, require_signature, drain)| {
            Ok(Caller {
                key_id: ApiKeyId(key),
                org_id: OrgId(org),
                org_type: org_type_of(&org_type)?,
                // Ignore scopes granted by a newer build that this one doesn't know.
                scopes: scopes.iter().filter_map(|scope| scope.parse::<Scope>().ok()).collect(),
                strict,
                require_signature,
                drain: drain.map(DrainId),
                owner: owner.map(UserId),
            })
        })
        .transpose()
    }

    /// Returns the person of a session that has not ended or expired, with their memberships.
    pub async fn find_user_session(&self, hash: &SecretHash, now: DateTime<Utc>) -> Result<Option<SessionUser>, sqlx::Error> {
        // One row per organization, or one row without organization columns.
        let rows: Vec<(Uuid, Option<Uuid>, Option<String>)> = bounded(
            sqlx::query_as(
                "SELECT s.user_id, o.id, o.org_type FROM user_sessions s LEFT JOIN memberships m ON m.user_id = s.user_id \
                 LEFT JOIN organizations o ON o.id = m.organization_id \
                 WHERE s.token_hash = $1 AND s.ended_at IS NULL AND s.expires_at > $2 AND s.idle_until > $2 ORDER BY o.id",
            )
            .bind(hash.as_bytes().as_slice())
            .bind(now)
            .fetch_all(&self.pool),
        )
        .await?;
        let Some(user) = rows.first().map(|(user, ..)| UserId(*user)) else { return Ok(None) };
        let organizations = rows.into_iter().filter_map(|(_, id, org_type)| Some((id?, org_type?)));
        let organizations =
            organizations.map(|(id, org_type)| Ok(Membership { org_id: OrgId(id), org_type: org_type_of(&org_type)? }));
        Ok(Some(SessionUser { user_id: user, organizations: organizations.collect::<Result<_, sqlx::Error>>()? }))
    }

    /// Returns an organization's verified sites, sorted. A host's subdomains are the index range from `host.` to `host/` (the character
    /// after the dot); `starts_with` would compare every pair of domains.
    pub async fn owned_sites(&self, org: OrgId) -> Result<Vec<OwnedSite>, sqlx::Error> {
        let rows: Vec<OwnedRow> = bounded(sqlx::query_as(
            "SELECT d.site, d.visible_from, array( \
                 SELECT o.site FROM domains o WHERE o.verified_at IS NOT NULL AND o.released_at IS NULL \
                 AND o.organization_id <> d.organization_id AND o.site ~>=~ (d.site || '.') AND o.site ~<~ (d.site || '/') ORDER BY 1), \
             f.sites, f.until \
             FROM domains d CROSS JOIN LATERAL ( \
                 SELECT array_agg(site) AS sites, array_agg(until) AS until FROM ( \
                     SELECT o.site, max(o.released_at) AS until FROM domains o WHERE o.verified_at IS NOT NULL AND o.released_at IS NOT NULL \
                     AND o.organization_id <> d.organization_id AND o.site ~>=~ (d.site || '.') AND o.site ~<~ (d.site || '/') \
                     GROUP BY o.site ORDER BY o.site) AS left_ones) AS f \
             WHERE d.organization_id = $1 AND d.verified_at IS NOT NULL AND d.released_at IS NULL ORDER BY 1",
        )
        .bind(org.0)
        .fetch_all(&self.pool))
        .await?;
        Ok(rows.into_iter().map(OwnedSite::from).collect())
    }

    /// Returns a host's verified owner: the owner of the longest verified host among it and its parents.
    pub async fn owner_of(&self, site: &Site) -> Result<Option<OrgName>, sqlx::Error> {
        let candidates: Vec<String> = site.candidates().iter().map(|site| site.as_str().to_owned()).collect();
        let row: Option<(Uuid, String)> = bounded(
            sqlx::query_as(
                "SELECT o.id, o.name FROM domains d JOIN organizations o ON o.id = d.organization_id \
             WHERE d.site = ANY($1) AND d.verified_at IS NOT NULL AND d.released_at IS NULL ORDER BY length(d.site) DESC LIMIT 1",
            )
            .bind(candidates)
            .fetch_optional(&self.pool),
        )
        .await?;
        Ok(row.map(|(id, name)| OrgName { id: OrgId(id), name }))
    }

    /// Returns the names of these organizations. Unknown IDs are left out.
    pub async fn organization_names(&self, ids: &[Uuid]) -> Result<Vec<(Uuid, String)>, sqlx::Error> {
        bounded(sqlx::query_as("SELECT id, name FROM organizations WHERE id = ANY($1)").bind(ids).fetch_all(&self.pool)).await
    }

    /// Returns the keys that the organization's manifests listed at this time, including expired ones, so a verifier can distinguish
    /// `expired_key` from `no_key`.
    pub async fn manifest_keys(&self, org: OrgId, at: DateTime<Utc>) -> Result<Vec<ListedKey>, sqlx::Error> {
        bounded(
            sqlx::query_as(
                "SELECT id AS version, key_id, public_key, expires FROM manifest_keys \
                 WHERE organization_id = $1 AND first_seen <= $2 AND (ended_at IS NULL OR ended_at > $2) ORDER BY first_seen, id",
            )
            .bind(org.0)
            .bind(at)
            .fetch_all(&self.pool),
        )
        .await
    }

    /// Returns whether `grantor` currently allows `grantee` to read its telemetry.
    pub async fn has_delegation(&self, grantor: OrgId, grantee: OrgId) -> Result<bool, sqlx::Error> {
        bounded(
            sqlx::query_scalar(
                "SELECT EXISTS (SELECT 1 FROM delegations WHERE grantor_org_id = $1 AND grantee_org_id = $2 \
             AND revoked_at IS NULL AND $3 = ANY(scopes))",
            )
            .bind(grantor.0)
            .bind(grantee.0)
            .bind(Scope::TelemetryRead.as_str())
            .fetch_one(&self.pool),
        )
        .await
    }
}
