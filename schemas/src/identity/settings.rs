//! The settings flags of an organisation (docs/api/identity.md#settings).

use super::OrgType;
use crate::ids::OrgId;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrganizationSettings {
    pub organization_id: OrgId,
    /// A platform or an agent lets its click tokens be looked up.
    pub share_sessions_via_click_tokens: bool,
    /// A content owner lets events on its domains appear in click manifests.
    pub visible_in_click_token_lookups: bool,
}

impl OrganizationSettings {
    /// Whether an organisation of this type may set `share_sessions_via_click_tokens`: whoever makes tokens.
    pub fn has_sharing(org_type: OrgType) -> bool {
        org_type.is_platform_or_agent()
    }

    /// Whether an organisation of this type may set `visible_in_click_token_lookups`: whoever has content.
    pub fn has_visibility(org_type: OrgType) -> bool {
        org_type == OrgType::ContentOwner
    }
}
