//! The settings flags of an organisation (spec.md, "Settings flags").
//!
//! Must not say what they do: query-api reads them where it discloses.

use super::OrgType;
use crate::ids::OrgId;
use serde::{Deserialize, Serialize};

/// Both flags, as every answer shows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrganizationSettings {
    /// Whose they are.
    pub organization_id: OrgId,
    /// An agent lets its click tokens be looked up.
    pub share_sessions_via_click_tokens: bool,
    /// A content owner lets events on its domains appear in click manifests.
    pub visible_in_click_token_lookups: bool,
}

impl OrganizationSettings {
    /// Who may set `share_sessions_via_click_tokens`.
    pub const SHARES_SESSIONS: OrgType = OrgType::Agent;
    /// Who may set `visible_in_click_token_lookups`.
    pub const IS_VISIBLE: OrgType = OrgType::ContentOwner;
}
