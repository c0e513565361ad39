//! The text of a page of who saw the retrievals.

use super::report::Report;
use super::{page, retrievals};
use crate::sql::within::Within;

/// Retrievals per day and agent, by who saw them. A server of the very organisation that claims a retrieval is no second
/// reporter.
pub(in crate::sql) fn corroboration(within: &Within) -> String {
    let (first, other) = (Report::first(within), Report::other(within, "other"));
    let (platform, agent) = first.claimed_by();
    // Of all reports of a retrieval: the organisations of those that fulfil a condition.
    let who = |of_first: &str, of_other: &str| {
        format!(
            "arrayConcat(if({of_first}, [{first}], []), arrayMap(other -> {other}, arrayFilter(other -> {of_other}, others)))",
            first = first.org,
            other = other.org,
        )
    };
    let is_server = |report: &Report| format!("{} IN (2, 3)", report.role);
    let counted = format!(
        "SELECT at, {platform} AS of_platform, {agent} AS of_agent, \
           {claimants} AS claimants, {servers} AS servers, notEmpty(claimants) AS is_claimed, \
           arrayExists(server -> NOT has(claimants, server), servers) AS is_seen \
         FROM {retrievals} WHERE event_type = 'content_retrieved'",
        claimants = who(&first.is_claim(), &other.is_claim()),
        servers = who(&is_server(&first), &is_server(&other)),
        retrievals = retrievals(within, "event_type, at, org, role, session, platform, agent, link_site, others"),
    );
    let items = format!(
        "SELECT toString(toDate(at)) AS day, of_platform AS platform, of_agent AS agent, count() AS retrievals, \
           countIf(is_claimed AND is_seen) AS both, countIf(is_claimed AND NOT is_seen) AS claimed_only, \
           countIf(NOT is_claimed AND is_seen) AS seen_only, countIf(NOT is_claimed AND NOT is_seen) AS neither \
         FROM ({counted}) GROUP BY day, platform, agent"
    );
    let names = "day, platform, agent, retrievals, both, claimed_only, seen_only, neither";
    page(within, &items, names, "day DESC, retrievals DESC, toString(platform), agent")
}
