//! Members of an organization, and invitations.

use crate::ids::{InviteId, OrgId, UserId};
use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

pub const MAX_MEMBERS: i64 = 1_000;

pub const INVITE_LIFETIME: TimeDelta = TimeDelta::days(7);

named_enum! {
    pub enum Role {
        /// Has all permissions and manages members. An organization that had an owner always keeps one.
        Owner = "owner",
        /// Has all permissions except managing members.
        Member = "member",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    pub organization_id: OrgId,
    pub user_id: UserId,
    pub email: String,
    pub role: Role,
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invite {
    pub id: InviteId,
    pub organization_id: OrgId,
    /// Only a person with this address can claim the invitation.
    pub email: String,
    pub role: Role,
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    /// RFC 3339; the invitation can't be claimed after this time.
    #[serde(with = "crate::instant")]
    pub expires_at: DateTime<Utc>,
    /// RFC 3339; absent if the email wasn't sent. In that case, invite again.
    #[serde(default, with = "crate::instant::optional")]
    pub mailed_at: Option<DateTime<Utc>>,
}
