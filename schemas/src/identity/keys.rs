//! Scopes, and keys as lists show them.
//!
//! Must not hold a raw key but in [`CreatedApiKey`].

use super::UnknownName;
use crate::ids::{ApiKeyId, OrgId};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// What a key may do, independent of its prefix (spec.md, "Scopes").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Scope {
    /// List identity objects of the own organisation.
    #[serde(rename = "identity:read")]
    IdentityRead,
    /// Change identity objects of the own organisation.
    #[serde(rename = "identity:write")]
    IdentityWrite,
    /// Provision organisations and attest their domains; the organisation must also be a trusted partner.
    #[serde(rename = "partner:provision")]
    PartnerProvision,
    /// Query `/content-owners/*` and `/agent/*`.
    #[serde(rename = "telemetry:read")]
    TelemetryRead,
    /// Report events and sessions.
    #[serde(rename = "telemetry:write")]
    TelemetryWrite,
}

impl Scope {
    /// Every scope, alphabetical.
    pub const ALL: [Self; 5] =
        [Self::IdentityRead, Self::IdentityWrite, Self::PartnerProvision, Self::TelemetryRead, Self::TelemetryWrite];
    /// What a key gets when nobody asks for more (spec.md, "API keys").
    pub const DEFAULT: [Self; 3] = [Self::IdentityRead, Self::TelemetryRead, Self::TelemetryWrite];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::IdentityRead => "identity:read",
            Self::IdentityWrite => "identity:write",
            Self::PartnerProvision => "partner:provision",
            Self::TelemetryRead => "telemetry:read",
            Self::TelemetryWrite => "telemetry:write",
        }
    }
}

impl FromStr for Scope {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name).ok_or_else(|| UnknownName(name.to_owned()))
    }
}

/// A key as lists show it (decisions.md, "keys"); the raw key appears only in [`CreatedApiKey`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ApiKey {
    /// Row id, for revoking.
    pub id: ApiKeyId,
    /// Whose key it is.
    pub organization_id: OrgId,
    /// Given by its owner.
    pub name: String,
    /// First characters of the raw key.
    pub prefix: String,
    /// Sorted scope names.
    pub scopes: Vec<Scope>,
    /// RFC 3339.
    pub created_at: DateTime<Utc>,
    /// RFC 3339; never exact to more than a minute.
    pub last_used_at: Option<DateTime<Utc>>,
    /// RFC 3339; a revoked key stays listed.
    pub revoked_at: Option<DateTime<Utc>>,
}

/// The 201 of a minted key: the only place where the raw key is shown.
#[derive(Clone, Serialize, Deserialize)]
pub struct CreatedApiKey {
    /// The key's public members.
    #[serde(flatten)]
    pub api_key: ApiKey,
    /// The raw key.
    pub key: String,
}
