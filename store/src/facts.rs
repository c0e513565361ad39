//! The columns of a report that the merge function doesn't read.

use schemas::ids::{OrgId, SessionId};
use schemas::signature::SignatureResult;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The only event type with several observers, because servers and agents both report fetches.
pub const CONTENT_RETRIEVED: &str = "content_retrieved";

/// Role codes in the tables: the reported role, or agent for event types that only agents report.
pub mod role {
    pub const NONE: u8 = 0;
    pub const AGENT: u8 = 1;
    pub const EDGE: u8 = 2;
    pub const ORIGIN: u8 = 3;
}

/// Columns of `events` that describe one report. Shared, because merging clones reports.
pub type Facts = Arc<ReportFacts>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportFacts {
    pub event_type: String,
    /// Canonical URL; empty if none was reported.
    pub url: String,
    /// The [`role`] that the report counts for.
    pub role: u8,
    /// The session's organization: the reporter, or the issuer of the click token.
    pub platform: OrgId,
    /// The reporter's name for its agent; empty if unnamed.
    pub agent: String,
    /// The [`session_digest`]; 0 without a session.
    pub session: u64,
    /// Host that readers must be allowed to see to get platform, agent and session. An empty host shows them to all readers, and `-` hides
    /// them from all.
    pub link_site: String,
    /// The bot and its response, if an edge or origin reported the event.
    pub fetch: Option<Fetch>,
    /// Whether the host's owner reported it ([`LogRecord::is_owners`](schemas::log::LogRecord::is_owners)).
    pub is_owners: bool,
    /// Result for the report's signature, or for the signature of the fetch in its log line.
    pub signature: SignatureResult,
}

/// A bot and the response to its request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetch {
    /// Name of the bot, or `other`; empty if unknown.
    pub bot: String,
    pub operator: String,
    /// `training`, `search` or `user`; empty if unknown.
    pub purpose: String,
    /// Whether the operator publishes the request's address: 0 unknown, 1 no, 2 yes.
    pub verified: u8,
    /// HTTP status; 0 if unknown.
    pub status: u16,
    /// Bytes of the response; 0 if unknown.
    pub bytes: u64,
}

impl ReportFacts {
    /// Returns whether the report counts as an agent's: its role is agent, or it has a session but no role.
    pub fn is_claim(&self) -> bool {
        self.role == role::AGENT || (self.role == role::NONE && self.session != 0)
    }

    pub fn is_seen_by_server(&self) -> bool {
        matches!(self.role, role::EDGE | role::ORIGIN)
    }
}

/// Returns a 64-bit digest of a session, never 0. Session ids are unique only within an organization.
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
    fn session_digests_differ_by_organization() {
        let digest = |org, session| session_digest(OrgId(Uuid::from_u128(org)), SessionId(Uuid::from_u128(session)));
        assert_eq!(digest(1, 2), digest(1, 2));
        assert_ne!(digest(1, 2), digest(2, 1));
        // Stored digests must not change, or a session would count twice.
        assert_eq!(digest(1, 2), 8_707_295_509_107_917_372);
    }
}
