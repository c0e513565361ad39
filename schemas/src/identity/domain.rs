//! Domains as their organisation sees them (docs/api/identity.md#domains), and how one is proved to be somebody's.
//!
//! Must not decide who owns a host: that is identity-api's, and in the end the database's.

use super::UnknownName;
use crate::ids::{DomainId, OrgId};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Beneath this label of a domain stands the TXT record that proves it.
pub const TXT_LABEL: &str = "_content-telemetry";
/// What the TXT record starts with, before the token.
pub const TXT_PREFIX: &str = "svc-verify=";
/// Where a participant publishes its manifest; the token stands in its member [`MANIFEST_MEMBER`].
pub const MANIFEST_PATH: &str = "/.well-known/content-telemetry.json";
/// A token, or a list of tokens.
pub const MANIFEST_MEMBER: &str = "verification_token";
/// The name of the `<meta>` element in the head of the root page whose `content` is the token.
pub const META_NAME: &str = "content-telemetry-verification";

/// A way to prove that a domain is one's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerificationMethod {
    /// A TXT record.
    DnsTxt,
    WellKnown,
    /// An element of the root page.
    MetaTag,
}

impl VerificationMethod {
    /// Every way, in the order in which they are believed.
    pub const ALL: [Self; 3] = [Self::DnsTxt, Self::WellKnown, Self::MetaTag];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DnsTxt => "dns_txt",
            Self::WellKnown => "well_known",
            Self::MetaTag => "meta_tag",
        }
    }
}

impl FromStr for VerificationMethod {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|method| method.as_str() == name).ok_or_else(|| UnknownName(name.to_owned()))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    pub id: DomainId,
    pub organization_id: OrgId,
    /// The canonical host, in reading order.
    pub domain: String,
    /// Whether it is the organisation's.
    pub verified: bool,
    /// How that is known: a [`VerificationMethod`], or by whom it was vouched for.
    pub verification_method: Option<String>,
    /// What to publish to prove it.
    pub verification_token: String,
    /// RFC 3339.
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    /// RFC 3339.
    #[serde(default, with = "crate::instant::optional")]
    pub verified_at: Option<DateTime<Utc>>,
}
