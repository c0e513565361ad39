//! Scopes, and keys as lists show them.

use crate::ids::{ApiKeyId, DrainId, OrgId};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub const MAX_KEYS: i64 = 1_000;

named_enum! {
    /// What a key may do, independent of its prefix (docs/api/http.md#authentication). Alphabetical.
    pub enum Scope {
        /// List identity objects of the own organisation.
        IdentityRead = "identity:read",
        /// Change identity objects of the own organisation.
        IdentityWrite = "identity:write",
        /// Provision organisations and attest their domains; the organisation must also be a trusted partner.
        PartnerProvision = "partner:provision",
        /// Query `/content-owners/*` and `/agent/*`.
        TelemetryRead = "telemetry:read",
        TelemetryWrite = "telemetry:write",
    }
}

impl Scope {
    /// What a key gets when nobody asks for more (docs/api/identity.md#api-keys).
    pub const DEFAULT: [Self; 3] = [Self::IdentityRead, Self::TelemetryRead, Self::TelemetryWrite];
}

named_enum! {
    /// How somebody came to make a key, as the audit trail names it.
    pub enum MakerKind {
        Key = "key",
        /// As an owner of the organisation.
        User = "user",
        Operator = "operator",
        /// At the machine itself, in nobody's name.
        System = "system",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyMaker {
    pub kind: MakerKind,
    /// A key's or a person's; absent where nobody is named.
    pub id: Option<Uuid>,
    /// The person's address or the key's name; absent for operators.
    pub name: Option<String>,
}

/// A key as lists show it (docs/api/identity.md#api-keys); the raw key appears only in [`CreatedApiKey`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ApiKey {
    /// Row id, for revoking.
    pub id: ApiKeyId,
    pub organization_id: OrgId,
    pub name: String,
    /// First characters of the raw key.
    pub prefix: String,
    /// Sorted scope names; a key that feeds a drain has none.
    pub scopes: Vec<Scope>,
    /// The drain that it feeds; such a key opens nothing else.
    pub drain_id: Option<DrainId>,
    pub created_by: KeyMaker,
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    /// RFC 3339; never exact to more than a minute.
    #[serde(default, with = "crate::instant::optional")]
    pub last_used_at: Option<DateTime<Utc>>,
    /// RFC 3339; until then it works beside the one that has replaced it.
    #[serde(default, with = "crate::instant::optional")]
    pub expires_at: Option<DateTime<Utc>>,
    /// RFC 3339; a revoked key stays listed.
    #[serde(default, with = "crate::instant::optional")]
    pub revoked_at: Option<DateTime<Utc>>,
}

/// The 201 of a minted key: the only place where the raw key is shown.
#[derive(Clone, Serialize, Deserialize)]
pub struct CreatedApiKey {
    #[serde(flatten)]
    pub api_key: ApiKey,
    pub key: String,
}
