//! An organisation, as its members see it.

use super::{Domain, OrgType, OrganizationSettings};
use crate::ids::OrgId;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// An organisation as its members see it (docs/api/identity.md#organisations).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Organization {
    pub id: OrgId,
    pub name: String,
    /// Never changes.
    pub org_type: OrgType,
    /// The oldest of `domains`.
    pub domain: Option<String>,
    /// Registered ones, verified or not, oldest first.
    pub domains: Vec<Domain>,
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    pub settings: OrganizationSettings,
}
