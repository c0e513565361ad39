//! Log streams of CDNs and servers as their organisation sees them (docs/api/identity.md#drains).
//!
//! Must not hold a key but in [`CreatedDrain`], nor the secret of a provider anywhere.

use super::{KeyMaker, UnknownName};
use crate::ids::{DrainId, OrgId};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Most drains of one organisation.
pub const MAX_DRAINS: i64 = 20;
/// Most hosts that one drain names.
pub const MAX_DRAIN_HOSTS: usize = 100;

/// Whose lines a drain takes, and in which form: the last part of the path that they are sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DrainProvider {
    /// Cloudflare Logpush.
    Cloudflare,
    /// Fastly's HTTPS logging.
    Fastly,
    /// Amazon Data Firehose with the logs of `CloudFront`.
    Firehose,
    /// Akamai `DataStream` 2.
    Akamai,
    /// Vercel's log drains.
    Vercel,
    /// JSON objects in lines, or one array of them.
    Ndjson,
    /// The combined log format.
    Combined,
}

impl DrainProvider {
    /// Every provider.
    pub const ALL: [Self; 7] =
        [Self::Cloudflare, Self::Fastly, Self::Firehose, Self::Akamai, Self::Vercel, Self::Ndjson, Self::Combined];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cloudflare => "cloudflare",
            Self::Fastly => "fastly",
            Self::Firehose => "firehose",
            Self::Akamai => "akamai",
            Self::Vercel => "vercel",
            Self::Ndjson => "ndjson",
            Self::Combined => "combined",
        }
    }

    /// Who wrote the lines when nobody says: a log in the combined format is a server's own.
    pub fn usual_role(self) -> DrainRole {
        if self == Self::Combined { DrainRole::Origin } else { DrainRole::Edge }
    }
}

impl FromStr for DrainProvider {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|provider| provider.as_str() == name).ok_or_else(|| UnknownName(name.to_owned()))
    }
}

/// Where the lines of a drain were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DrainRole {
    /// By a CDN, or a proxy before the server.
    Edge,
    /// By the server itself.
    Origin,
}

impl DrainRole {
    /// Every role.
    pub const ALL: [Self; 2] = [Self::Edge, Self::Origin];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Edge => "edge",
            Self::Origin => "origin",
        }
    }
}

impl FromStr for DrainRole {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|role| role.as_str() == name).ok_or_else(|| UnknownName(name.to_owned()))
    }
}

/// A log stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Drain {
    /// Row id.
    pub id: DrainId,
    /// Whose it is.
    pub organization_id: OrgId,
    /// Given by its owner.
    pub name: String,
    /// Who sends the lines.
    pub provider: DrainProvider,
    /// Where they are sent to.
    pub path: String,
    /// Canonical hosts whose lines are taken; none means every host that the organisation may report for.
    pub hosts: Vec<String>,
    /// Where the lines were written.
    pub role: DrainRole,
    /// The share of lines that the provider sends, as the owner declares it.
    pub sampling: f64,
    /// Whether a secret of the provider is kept, with which it signs.
    pub has_secret: bool,
    /// The service that Fastly asks for before it sends.
    pub fastly_service_id: Option<String>,
    /// Who made it.
    pub created_by: KeyMaker,
    /// RFC 3339.
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
}

/// The answer that creates a drain or replaces its key: the only places where the key is shown.
#[derive(Clone, Serialize, Deserialize)]
pub struct CreatedDrain {
    /// The drain's public members.
    #[serde(flatten)]
    pub drain: Drain,
    /// What feeds it, and opens nothing else.
    pub key: String,
}
