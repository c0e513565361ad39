//! What the tables store of a report besides its identity, its acceptance and its observer.

use schemas::ids::{OrgId, SessionId};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The type that only servers and agents report about one fetch, so the only one with several observers.
pub const CONTENT_RETRIEVED: &str = "content_retrieved";

/// Codes of roles as stored: the reported role, or agent for event types that only agents report.
pub mod role {
    pub const NONE: u8 = 0;
    pub const AGENT: u8 = 1;
    /// A CDN or edge network.
    pub const EDGE: u8 = 2;
    /// The content owner's web server.
    pub const ORIGIN: u8 = 3;
}

/// The columns of `events` that describe one report. Reports are cloned while they are merged, so it is shared.
pub type Facts = Arc<ReportFacts>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportFacts {
    pub event_type: String,
    /// Canonical URL; empty if none was reported.
    pub url: String,
    /// The [`role`] it counts for.
    pub role: u8,
    /// The organization whose session it is: the reporter, or the issuer of the click token.
    pub platform: OrgId,
    /// As the reporter names its agent; empty if unnamed.
    pub agent: String,
    /// [`session_digest`]; 0 if it has no session.
    pub session: u64,
    /// If empty, platform, agent and session may be shown; else only to readers who may see this host; `-` hides them from all.
    pub link_site: String,
    /// Who fetched the content and the response, if an edge or origin reported it.
    pub fetch: Option<Fetch>,
    /// Whether the owner of the host reported it ([`LogRecord::is_owners`](schemas::log::LogRecord::is_owners)).
    pub is_owners: bool,
}

/// Who fetched content, and the response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetch {
    /// Name of the bot, or `other`; empty if unknown.
    pub bot: String,
    /// The company that operates the bot.
    pub operator: String,
    /// `training`, `search` or `user`; empty if unknown.
    pub purpose: String,
    /// Whether the request came from an address that the operator publishes: 0 unknown, 1 no, 2 yes.
    pub verified: u8,
    /// HTTP status; 0 if unknown.
    pub status: u16,
    /// Bytes of the response; 0 if unknown.
    pub bytes: u64,
}

impl ReportFacts {
    /// Returns whether the report counts as an agent's: it has the agent's role, or no role but a session.
    pub fn is_claim(&self) -> bool {
        self.role == role::AGENT || (self.role == role::NONE && self.session != 0)
    }

    pub fn is_seen_by_server(&self) -> bool {
        matches!(self.role, role::EDGE | role::ORIGIN)
    }
}

/// Returns 64 bits that stand for a session, never 0. Session ids are unique per organization only.
pub fn session_digest(platform: OrgId, session: SessionId) -> u64 {
    let digest: [u8; 32] = Sha256::new().chain_update(platform.0).chain_update(session.0).finalize().into();
    let [a, b, c, d, e, f, g, h, ..] = digest;
    u64::from_be_bytes([a, b, c, d, e, f, g, h]).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_session_belongs_to_its_organization() {
        let digest = |org, session| session_digest(OrgId(Uuid::from_u128(org)), SessionId(Uuid::from_u128(session)));
        assert_eq!(digest(1, 2), digest(1, 2));
        assert_ne!(digest(1, 2), digest(2, 1));
        // The stored digests must not change, or a session would count twice.
        assert_eq!(digest(1, 2), 8_707_295_509_107_917_372);
    }
}
