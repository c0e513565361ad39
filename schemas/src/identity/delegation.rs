//! Delegations: a content owner allows a platform to read its telemetry.

use super::Scope;
use crate::ids::{DelegationId, OrgId};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// A delegation (docs/api/identity.md#delegations).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delegation {
    pub id: DelegationId,
    /// The content owner; what readers pass as `delegated_from`.
    pub grantor_org_id: OrgId,
    pub grantee_org_id: OrgId,
    /// Name of the content owner; in lists only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grantor_name: Option<String>,
    /// Name of the partner; in lists only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grantee_name: Option<String>,
    pub scopes: Vec<Scope>,
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    /// RFC 3339; absent while it is active.
    #[serde(default, with = "crate::instant::optional")]
    pub revoked_at: Option<DateTime<Utc>>,
}

impl Delegation {
    /// Every scope that can be delegated, and the default.
    pub const SCOPES: [Scope; 1] = [Scope::TelemetryRead];
}
