//! Which retrievals an agent claims and which a server of another organisation saw (docs/api/counting.md#figures).

use super::page;
use crate::parameters::sort::{Sort, Sortable, order_by};
use crate::read_model::owned::Owned;
use crate::read_model::shapes::counted_by_day;
use crate::read_model::shown_columns::NONE;

/// What a row of corroboration is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CorroborationBy {
    /// A UTC day and an agent.
    Agent,
    /// A UTC day.
    Day,
}

impl CorroborationBy {
    /// What its rows can be sorted by.
    pub(crate) fn sortable(self) -> &'static Sortable {
        const BY_AGENT: &Sortable = &[
            ("agent_id", "agent"),
            ("day", "day"),
            ("retrievals", "retrievals"),
            ("seen_by_both", "both"),
            ("claimed_by_agent_only", "claimed_only"),
            ("seen_by_server_only", "seen_only"),
            ("seen_by_neither", "neither"),
        ];
        match self {
            Self::Agent => BY_AGENT,
            Self::Day => &BY_AGENT[1..],
        }
    }
}

/// Of a retrieval with its reports: which of them claim it.
pub(in crate::read_model) const CLAIM: &str =
    "arrayMap((role, is_agents) -> role IN (0, 1) AND is_agents, all_role, are_agents) AS claim";
/// Whether an agent claims it, and whether a server of another organisation saw it.
pub(in crate::read_model) const CLAIMED_AND_SEEN: &str = "arrayFilter((org, is_claim) -> is_claim, all_org, claim) AS claimants, \
    notEmpty(claimants) AS is_claimed, \
    arrayExists((org, role) -> role IN (2, 3) AND NOT has(claimants, org), all_org, all_role) AS is_seen";

/// Retrievals per day, or per day and agent, by who saw them. A server of the very organisation that claims a retrieval is no second
/// reporter.
pub(in crate::read_model) fn corroboration(owned: &Owned, by: CorroborationBy, sort: Option<Sort>) -> String {
    let whose = match by {
        CorroborationBy::Agent => format!("if(claim[1], platforms[1], {NONE}) AS platform, if(claim[1], agents[1], '') AS agent"),
        CorroborationBy::Day => format!("{NONE} AS platform, '' AS agent"),
    };
    let parts = format!(
        "SELECT toString(one.1) AS day, platform, agent, sum(one.2) AS retrievals, \
           sumIf(one.2, is_claimed AND is_seen) AS both, sumIf(one.2, is_claimed AND NOT is_seen) AS claimed_only, \
           sumIf(one.2, NOT is_claimed AND is_seen) AS seen_only, sumIf(one.2, NOT is_claimed AND NOT is_seen) AS neither \
         FROM ( \
           SELECT {of_days} AS of_days, {whose}, {CLAIMED_AND_SEEN} \
           FROM (SELECT *, {CLAIM} FROM ({shapes}))) \
         ARRAY JOIN of_days AS one GROUP BY day, platform, agent",
        // A condition on the type would be tried on each retrieval, before they are counted.
        of_days = "if(event_type = 'content_retrieved', days, [])",
        shapes = counted_by_day(owned),
    );
    let names = "day, platform, agent, retrievals, both, claimed_only, seen_only, neither";
    page(owned, &parts, names, &order_by(sort, "day DESC, retrievals DESC, toString(platform), agent"))
}
