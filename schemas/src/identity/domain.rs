//! Domains as their organisation sees them (docs/api/identity.md#domains), and how one is proved to be somebody's.

use crate::ids::{DomainId, OrgId};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

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

named_enum! {
    /// A way to prove that a domain is one's own, in the order in which they are believed.
    pub enum VerificationMethod {
        DnsTxt = "dns_txt",
        WellKnown = "well_known",
        /// An element of the root page.
        MetaTag = "meta_tag",
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
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    #[serde(default, with = "crate::instant::optional")]
    pub verified_at: Option<DateTime<Utc>>,
}
