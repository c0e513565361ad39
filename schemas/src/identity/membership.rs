//! Who belongs to an organisation, and who is invited to.
//!
//! Must not hold an invite's token: that is mailed, and only its hash is kept.

use super::UnknownName;
use crate::ids::{InviteId, OrgId, UserId};
use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Most members and open invites of an organization.
pub const MAX_MEMBERS: i64 = 1_000;

/// How long an invite can be claimed.
pub const INVITE_LIFETIME: TimeDelta = TimeDelta::days(7);

/// What a person may do in an organisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Everything, and decides who belongs to it. An organisation that had one always keeps one.
    Owner,
    /// Everything but that.
    Member,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 2] = [Self::Owner, Self::Member];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Member => "member",
        }
    }
}

impl FromStr for Role {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|role| role.as_str() == name).ok_or_else(|| UnknownName(name.to_owned()))
    }
}

/// A person in an organisation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    pub organization_id: OrgId,
    pub user_id: UserId,
    pub email: String,
    pub role: Role,
    /// RFC 3339.
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
}

/// An invitation to an organisation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invite {
    pub id: InviteId,
    pub organization_id: OrgId,
    /// Whom: only who signs in with this address can claim it.
    pub email: String,
    pub role: Role,
    /// RFC 3339.
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    /// RFC 3339; from here on it cannot be claimed.
    #[serde(with = "crate::instant")]
    pub expires_at: DateTime<Utc>,
    /// RFC 3339; absent when no mail went out: invite again.
    #[serde(default, with = "crate::instant::optional")]
    pub mailed_at: Option<DateTime<Utc>>,
}
