//! What an owner is told of one report in the index.
//!
//! Must give whoever may not see the host of a click token's link nothing of the session behind it
//! (docs/api/click-tokens.md#what-a-token-tells).

use crate::sql::faces::NONE;
use crate::sql::within::Within;

/// Expressions on one report.
pub(in crate::sql) struct Report {
    /// Who reported it, as a number.
    pub(in crate::sql) org: String,
    /// In which role, as a number.
    pub(in crate::sql) role: String,
    /// Whose session it is, as far as that is told; the reporter otherwise.
    pub(in crate::sql) platform: String,
    /// The session's hash; 0 where there is none or it is not told.
    pub(in crate::sql) session: String,
    /// The agent's name, as a text of few values.
    pub(in crate::sql) agent: String,
    /// Whether an agent stands behind it: without that it names no agent (docs/api/counting.md#figures).
    pub(in crate::sql) is_agents: String,
}

impl Report {
    /// The one that represents its retrieval.
    pub(in crate::sql) fn first(within: &Within) -> Self {
        Self::told(within, ["org", "role", "at", "session", "platform", "agent", "link_site"].map(str::to_owned))
    }

    /// `name`, one of `others`.
    pub(in crate::sql) fn other(within: &Within, name: &str) -> Self {
        Self::told(within, [3, 5, 6, 9, 10, 11, 12].map(|part| format!("{name}.{part}")))
    }

    fn told(within: &Within, [org, role, at, session, platform, agent, link]: [String; 7]) -> Self {
        let is_told = format!("({link} = '' OR ({}))", within.sees_link(&link, &at));
        // Of a number the halves are the other way round.
        let reporter = format!("reinterpretAsUUID(bitOr(bitShiftLeft({org}, 64), bitShiftRight({org}, 64)))");
        let session = format!("if({is_told}, {session}, 0)");
        Self {
            platform: format!("if({is_told}, {platform}, {reporter})"),
            agent: format!("if({is_told}, toString({agent}), '')"),
            is_agents: format!("({role} = 1 OR {session} != 0)"),
            session,
            org,
            role,
        }
    }

    /// Whether an agent claims the retrieval by it.
    pub(in crate::sql) fn is_claim(&self) -> String {
        format!("({} IN (0, 1) AND {})", self.role, self.is_agents)
    }

    /// Whose agent, and which; nobody's where no agent claims it.
    pub(in crate::sql) fn claimed_by(&self) -> (String, String) {
        let is_claim = self.is_claim();
        (format!("if({is_claim}, {}, {NONE})", self.platform), format!("if({is_claim}, {}, '')", self.agent))
    }
}
