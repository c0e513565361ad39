//! What becomes of content, from its retrieval to an engagement (docs/api/counting.md#figures).

use super::page;
use crate::parameters::sort::{Sort, Sortable, order_by};
use crate::read_model::owned::Owned;
use crate::read_model::retrievals::{retrievals, shown};
use crate::read_model::shapes::{IS_CLAIM, counted};
use crate::read_model::shown_columns::NONE;

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

impl FunnelBy {
    /// What its rows can be sorted by.
    pub(crate) fn sortable(self) -> &'static Sortable {
        match self {
            Self::Agent => &[("agent_id", "name"), STEPS[0], STEPS[1], STEPS[2], STEPS[3], STEPS[4]],
            Self::Url => &[("content_url", "name"), STEPS[0], STEPS[1], STEPS[2], STEPS[3], STEPS[4]],
            Self::Day => &[("day", "name"), STEPS[0], STEPS[1], STEPS[2], STEPS[3], STEPS[4]],
        }
    }
}

/// The steps of a funnel, each by the column of its name.
const STEPS: [(&str, &str); 5] = [
    ("retrieved", "retrieved"),
    ("grounded", "grounded"),
    ("cited", "cited"),
    ("presented", "presented"),
    ("engaged", "engaged"),
];

/// Content events per agent, URL or day, in the order of what becomes of content.
pub(in crate::read_model) fn funnel(owned: &Owned, by: FunnelBy, sort: Option<Sort>) -> String {
    let each = || {
        format!(
            "SELECT *, toUInt64(1) AS retrievals FROM ({})",
            retrievals(owned, &[shown("event_type"), shown("at"), shown("url")])
        )
    };
    let (counted, keys, order) = match by {
        FunnelBy::Agent => (
            counted(owned),
            format!("if({IS_CLAIM}, platforms[1], {NONE}) AS of, if({IS_CLAIM}, agents[1], '') AS name"),
            "whole DESC, toString(platform), name",
        ),
        FunnelBy::Url => (each(), format!("{NONE} AS of, url AS name"), "whole DESC, name"),
        FunnelBy::Day => (each(), format!("{NONE} AS of, toString(toDate(at)) AS name"), "name DESC"),
    };
    let steps = STEPS.map(|(step, _)| step);
    let counts = steps.map(|step| format!("sumIf(retrievals, event_type = 'content_{step}') AS {step}")).join(", ");
    let types = steps.map(|step| format!("'content_{step}'")).join(", ");
    // A condition on the type would be tried on each retrieval, before they are counted.
    let parts = format!(
        "SELECT of AS platform, name, sumIf(retrievals, event_type IN ({types})) AS whole, {counts} \
         FROM (SELECT {keys}, event_type, retrievals FROM ({counted})) GROUP BY of, name HAVING whole > 0"
    );
    let names = "platform, name, retrieved, grounded, cited, presented, engaged";
    page(owned, &parts, names, &order_by(sort, &format!("{order}, whole")))
}
