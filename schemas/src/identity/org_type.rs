//! The types of organisations.

use super::UnknownName;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// What an organisation is; decides the key prefix and which surfaces it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrgType {
    /// Owns domains and reads their telemetry.
    ContentOwner,
    /// Marketplace, network, vendor: reports events, reads what is delegated to it.
    Platform,
    /// Runs an AI agent: reports sessions and events, reads its own.
    Agent,
}

impl OrgType {
    /// Every type.
    pub const ALL: [Self; 3] = [Self::ContentOwner, Self::Platform, Self::Agent];

    /// Whether its keys begin with `svc_pk_`: it may be delegated to, and makes click tokens.
    pub fn is_platform_or_agent(self) -> bool {
        matches!(self, Self::Platform | Self::Agent)
    }

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ContentOwner => "content_owner",
            Self::Platform => "platform",
            Self::Agent => "agent",
        }
    }
}

impl FromStr for OrgType {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name).ok_or_else(|| UnknownName(name.to_owned()))
    }
}
