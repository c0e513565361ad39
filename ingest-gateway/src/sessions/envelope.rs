//! A session, what it has said of itself, and what was said of it by the events that name it.

use crate::validate::EnvelopeFacts;
use schemas::ids::{OrgId, SessionId};
use schemas::session::PrivacyLevel;
use serde::{Deserialize, Serialize};

/// A session and whose it is.
pub(crate) type Session = (OrgId, SessionId);

/// What a session has said of itself so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SessionState {
    /// The answering agent.
    pub(crate) agent: Option<String>,
    /// The strictest level declared.
    pub(crate) level: Option<PrivacyLevel>,
}

/// A session that events named, and what their envelope said of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EnvelopeReport {
    pub(crate) org: OrgId,
    pub(crate) session: SessionId,
    /// The privacy level.
    pub(crate) level: Option<PrivacyLevel>,
    /// Everything else.
    pub(crate) told: EnvelopeFacts,
}

/// What is remembered of a report, however long its texts are.
pub(super) type Seen = (OrgId, SessionId, Option<PrivacyLevel>, Option<[u8; 16]>);

impl EnvelopeReport {
    /// The same, however long its texts are.
    pub(super) fn short(&self) -> Seen {
        (self.org, self.session, self.level, self.told.fingerprint())
    }
}
