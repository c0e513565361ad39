//! Organisations, scopes and keys, as the identity surface and every authenticated service name them.
//!
//! Must not know how they are stored or looked up.

use crate::ids::{ApiKeyId, OrgId};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// What an organisation is; decides the key prefix and which surfaces it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrgType {
    /// Owns domains and reads their telemetry.
    ContentOwner,
    /// Marketplace, network, vendor: reports events, reads what is delegated to it.
    Platform,
    /// Runs an AI agent: reports sessions and events, reads its own.
    Agent,
}

/// What a key may do, independent of its prefix (spec.md, "Scopes").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Scope {
    /// List identity objects of the own organisation.
    #[serde(rename = "identity:read")]
    IdentityRead,
    /// Change identity objects of the own organisation.
    #[serde(rename = "identity:write")]
    IdentityWrite,
    /// Query `/content-owners/*` and `/agent/*`.
    #[serde(rename = "telemetry:read")]
    TelemetryRead,
    /// Report events and sessions.
    #[serde(rename = "telemetry:write")]
    TelemetryWrite,
}

impl Scope {
    /// Every scope, alphabetical.
    pub const ALL: [Self; 4] = [Self::IdentityRead, Self::IdentityWrite, Self::TelemetryRead, Self::TelemetryWrite];
    /// What a key gets when nobody asks for more (spec.md, "API keys").
    pub const DEFAULT: [Self; 3] = [Self::IdentityRead, Self::TelemetryRead, Self::TelemetryWrite];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::IdentityRead => "identity:read",
            Self::IdentityWrite => "identity:write",
            Self::TelemetryRead => "telemetry:read",
            Self::TelemetryWrite => "telemetry:write",
        }
    }
}

impl OrgType {
    /// Every type.
    pub const ALL: [Self; 3] = [Self::ContentOwner, Self::Platform, Self::Agent];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ContentOwner => "content_owner",
            Self::Platform => "platform",
            Self::Agent => "agent",
        }
    }
}

/// A stored or sent name that is none of those this build knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName(String);

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown name {:?}", self.0)
    }
}

impl std::error::Error for UnknownName {}

impl FromStr for Scope {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name).ok_or_else(|| UnknownName(name.to_owned()))
    }
}

impl FromStr for OrgType {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name).ok_or_else(|| UnknownName(name.to_owned()))
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
