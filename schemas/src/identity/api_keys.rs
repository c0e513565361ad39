//! Scopes and API keys, as listed.

use crate::ids::{ApiKeyId, DrainId, OrgId};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub const MAX_KEYS: i64 = 1_000;

named_enum! {
    /// What a key may do (docs/api/http.md#authentication), in alphabetical order. Doesn't depend on the key's prefix.
    pub enum Scope {
        /// List identity objects of the key's organization.
        IdentityRead = "identity:read",
        /// Change identity objects of the key's organization.
        IdentityWrite = "identity:write",
        /// Create organizations and attest their domains. The key's organization must also be a trusted partner.
        PartnerProvision = "partner:provision",
        /// Query `/content-owners/*` and `/agent/*`.
        TelemetryRead = "telemetry:read",
        TelemetryWrite = "telemetry:write",
    }
}

impl Scope {
    /// Default scopes of a new key (docs/api/identity.md#api-keys).
    pub const DEFAULT: [Self; 3] = [Self::IdentityRead, Self::TelemetryRead, Self::TelemetryWrite];
}

named_enum! {
    /// A key's creator, as in the audit trail.
    pub enum MakerKind {
        Key = "key",
        /// An owner of the organization.
        User = "user",
        Operator = "operator",
        /// A command on the machine itself.
        System = "system",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyCreator {
    pub kind: MakerKind,
    /// Id of the key or user; absent for others.
    pub id: Option<Uuid>,
    /// The person's email address or the key's name; absent for operators.
    pub name: Option<String>,
}

/// An API key in lists (docs/api/identity.md#api-keys). Only [`CreatedApiKey`] contains the key itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ApiKey {
    /// Row id, for revoking.
    pub id: ApiKeyId,
    pub organization_id: OrgId,
    pub name: String,
    /// First characters of the raw key.
    pub prefix: String,
    /// Sorted; empty for a drain's key.
    pub scopes: Vec<Scope>,
    /// The drain that the key belongs to. Such a key works only for that drain.
    pub drain_id: Option<DrainId>,
    /// Whether reports with this key need a valid signature (docs/api/signatures.md#results).
    pub require_signature: bool,
    pub created_by: KeyCreator,
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    /// RFC 3339, accurate to about a minute.
    #[serde(default, with = "crate::instant::optional")]
    pub last_used_at: Option<DateTime<Utc>>,
    /// RFC 3339; until then the key works alongside its replacement.
    #[serde(default, with = "crate::instant::optional")]
    pub expires_at: Option<DateTime<Utc>>,
    /// RFC 3339; revoked keys stay in lists.
    #[serde(default, with = "crate::instant::optional")]
    pub revoked_at: Option<DateTime<Utc>>,
}

/// The 201 of a created key, the only response with the key itself.
#[derive(Clone, Serialize, Deserialize)]
pub struct CreatedApiKey {
    #[serde(flatten)]
    pub api_key: ApiKey,
    pub key: String,
}
