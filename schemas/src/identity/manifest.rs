//! Registered manifests and their keys (docs/api/identity.md#manifests).

use crate::ids::{ManifestId, OrgId};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

pub const MAX_MANIFESTS: i64 = 10;

named_enum! {
    /// The result of the latest check of a manifest.
    pub enum ManifestState {
        Pending = "pending",
        Valid = "valid",
        Invalid = "invalid",
        Unreachable = "unreachable",
        /// The organization may no longer publish manifests on this host.
        Unverified = "unverified",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub id: ManifestId,
    pub organization_id: OrgId,
    pub url: String,
    pub state: ManifestState,
    /// Why the latest check failed.
    pub reason: Option<String>,
    /// The keys of the latest valid check.
    pub keys: Vec<ManifestKey>,
    #[serde(with = "crate::instant::optional")]
    pub checked_at: Option<DateTime<Utc>>,
    #[serde(with = "crate::instant::optional")]
    pub valid_at: Option<DateTime<Utc>>,
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestKey {
    pub id: String,
    /// RFC 7638.
    pub thumbprint: String,
    /// Multibase, as in the manifest.
    pub public_key: String,
    #[serde(with = "crate::instant::optional")]
    pub expires: Option<DateTime<Utc>>,
    #[serde(with = "crate::instant")]
    pub first_seen: DateTime<Utc>,
    #[serde(with = "crate::instant")]
    pub last_seen: DateTime<Utc>,
}
