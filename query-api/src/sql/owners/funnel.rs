//! The text of a page of a funnel.

use super::report::Report;
use super::{page, retrievals};
use crate::sql::faces::NONE;
use crate::sql::within::Within;

/// What a funnel is split by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FunnelBy {
    /// Platform and agent.
    Agent,
    /// URL.
    Url,
    /// UTC day.
    Day,
}

/// Content events per agent, URL or day, in the order of what becomes of content.
pub(in crate::sql) fn funnel(within: &Within, by: FunnelBy) -> String {
    let (platform, agent) = Report::first(within).claimed_by();
    let (whose, name, columns, order) = match by {
        FunnelBy::Agent => (
            platform.as_str(),
            agent.as_str(),
            "event_type, org, role, at, session, platform, agent, link_site",
            "whole DESC, toString(platform), name",
        ),
        FunnelBy::Url => (NONE, "url", "event_type, url", "whole DESC, name"),
        FunnelBy::Day => (NONE, "toString(toDate(at))", "event_type, at", "name DESC"),
    };
    let steps = ["retrieved", "grounded", "cited", "presented", "engaged"];
    let types = steps.map(|step| format!("'content_{step}'")).join(", ");
    let counts = steps.map(|step| format!("countIf(event_type = 'content_{step}') AS {step}")).join(", ");
    let items = format!(
        "SELECT whose AS platform, name, count() AS whole, {counts} FROM ( \
           SELECT {whose} AS whose, {name} AS name, event_type FROM {retrievals} WHERE event_type IN ({types})) \
         GROUP BY whose, name",
        retrievals = retrievals(within, columns),
    );
    let names = "platform, name, retrieved, grounded, cited, presented, engaged";
    page(within, &items, names, &format!("{order}, whole"))
}
