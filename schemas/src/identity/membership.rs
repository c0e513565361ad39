//! Who belongs to an organisation, and who is invited to.

use crate::ids::{InviteId, OrgId, UserId};
use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

pub const MAX_MEMBERS: i64 = 1_000;

pub const INVITE_LIFETIME: TimeDelta = TimeDelta::days(7);

named_enum! {
    pub enum Role {
        /// Everything, and decides who belongs to it. An organisation that had one always keeps one.
        Owner = "owner",
        /// Everything but that.
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
    /// Whom: only who signs in with this address can claim it.
    pub email: String,
    pub role: Role,
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    /// RFC 3339; from here on it cannot be claimed.
    #[serde(with = "crate::instant")]
    pub expires_at: DateTime<Utc>,
    /// RFC 3339; absent when no mail went out: invite again.
    #[serde(default, with = "crate::instant::optional")]
    pub mailed_at: Option<DateTime<Utc>>,
}
