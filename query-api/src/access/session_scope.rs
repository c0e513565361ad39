//! The session that a read may see; reads by session accept only this (invariant 5 of ARCHITECTURE.md).
//!
//! Create one only after checking the caller's permission: by looking up a click token, or because the session belongs to the caller.

use schemas::ids::{OrgId, SessionId};

/// One session of one organization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionScope {
    org: OrgId,
    session: SessionId,
}

impl SessionScope {
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
