//! Domains of an organization (docs/api/identity.md#domains), and how they are verified.

use crate::ids::{DomainId, OrgId};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// Label of the TXT record, below the domain.
pub const TXT_LABEL: &str = "_content-telemetry";
/// Prefix of the TXT record's value, before the token.
pub const TXT_PREFIX: &str = "svc-verify=";
/// Path of a participant's manifest. Its member [`MANIFEST_MEMBER`] contains the verification token.
pub const MANIFEST_PATH: &str = "/.well-known/content-telemetry.json";
/// Member with a token or a list of tokens.
pub const MANIFEST_MEMBER: &str = "verification_token";
/// Name of the `<meta>` element in the head of the root page. Its `content` is the token.
pub const META_NAME: &str = "content-telemetry-verification";

named_enum! {
    /// Ways to verify a domain, most trusted first.
    pub enum VerificationMethod {
        DnsTxt = "dns_txt",
        WellKnown = "well_known",
        /// A `<meta>` element of the root page.
        MetaTag = "meta_tag",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    pub id: DomainId,
    pub organization_id: OrgId,
    /// The canonical host, not reversed.
    pub domain: String,
    /// Whether the organization has verified the domain.
    pub verified: bool,
    /// A [`VerificationMethod`], or `attested` or `operator`.
    pub verification_method: Option<String>,
    /// The token to publish.
    pub verification_token: String,
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    #[serde(default, with = "crate::instant::optional")]
    pub verified_at: Option<DateTime<Utc>>,
}
