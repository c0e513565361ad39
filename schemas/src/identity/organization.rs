use super::{Domain, OrgType, OrganizationSettings};
use crate::ids::OrgId;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// An organization in responses to its members (docs/api/identity.md#organizations).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Organization {
    pub id: OrgId,
    pub name: String,
    /// Never changes.
    pub org_type: OrgType,
    /// The oldest of `domains`.
    pub domain: Option<String>,
    /// Verified and unverified domains, oldest first.
    pub domains: Vec<Domain>,
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    pub settings: OrganizationSettings,
}
