//! Which session a read by session may see: the only other value that such a query accepts (invariant 5).
//!
//! Must be made by what has decided that the caller may: the look-up of a click token, or the ownership of a session.

use schemas::ids::{OrgId, SessionId};

/// One session of one organisation, as that organisation reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionScope {
    org: OrgId,
    session: SessionId,
}

impl SessionScope {
    /// For whoever may see this session.
    pub(crate) fn granted(org: OrgId, session: SessionId) -> Self {
        Self { org, session }
    }

    pub(crate) fn org(self) -> OrgId {
        self.org
    }

    pub(crate) fn session(self) -> SessionId {
        self.session
    }
}
