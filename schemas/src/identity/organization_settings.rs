//! Settings of an organization (docs/api/identity.md#settings).

use super::OrgType;
use crate::ids::OrgId;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrganizationSettings {
    pub organization_id: OrgId,
    /// Whether a platform's or agent's click tokens can be looked up.
    pub share_sessions_via_click_tokens: bool,
    /// Whether events on a content owner's domains appear in click manifests.
    pub visible_in_click_token_lookups: bool,
}

impl OrganizationSettings {
    /// Returns whether `share_sessions_via_click_tokens` applies to this type, because it creates click tokens.
    pub fn has_sharing(org_type: OrgType) -> bool {
        org_type.is_platform_or_agent()
    }

    /// Returns whether `visible_in_click_token_lookups` applies to this type, because it owns content.
    pub fn has_visibility(org_type: OrgType) -> bool {
        org_type == OrgType::ContentOwner
    }
}
