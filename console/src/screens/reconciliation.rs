//! Reconciliation: what agents claim next to what servers saw, by licensee and finding.

use super::filters::host_and_path;
use super::{Filters, Pager, TableFooter};
use crate::State;
use crate::failure::Failure;
use crate::layout::{Layout, Page};
use crate::numbers::{Count, Time};
use crate::query::{Query, path_segment};
use crate::responses::List;
use crate::session::Member;
use crate::window::PeriodParameters;
use askama::Template;
use axum::extract::State as Shared;
use serde::Deserialize;
use std::sync::Arc;

const RECONCILIATION: &str = "/content-owners/reconciliation";
const LIMIT: u64 = 50;
const BY: [(&str, &str); 4] = [("finding", "By finding"), ("agent", "By agent"), ("url", "By page"), ("event", "Fetches")];
/// Names of findings in the API, labels and explanations.
const FINDINGS: [(&str, &str, &str); 9] = [
    ("matched", "Matched", "Claimed and seen."),
    ("missing", "Not claimed", "A server saw the fetch, but no agent claims it."),
    ("extra", "Not seen", "An agent claims the fetch. Your servers reported in that hour, but no server saw it."),
    (
        "no_coverage",
        "No server data",
        "An agent claims the fetch. No server saw it, and yours reported nothing comparable in that hour.",
    ),
    ("content_mismatch", "Different content", "A server returned another page, or no content."),
    ("identity_mismatch", "Different operator", "One operator’s agent claims the fetch, but another operator’s bot made it."),
    ("timestamp_mismatch", "Different time", "The times of agent and server differ by more than two seconds."),
    ("duplicate_report", "Reported twice", "The same reporter reported the fetch before."),
    ("signature_unverified", "Invalid signature", "A report of the fetch has a signature that isn’t valid."),
];

#[derive(Deserialize)]
struct Row {
    operator: String,
    finding: String,
    #[serde(default)]
    platform_id: String,
    #[serde(default)]
    agent_id: String,
    #[serde(default)]
    content_url: String,
    #[serde(default)]
    event_id: String,
    event_timestamp: Option<Time>,
    #[serde(default)]
    fetches: Count,
    last_seen: Option<Time>,
}

impl Row {
    fn label(&self) -> &str {
        FINDINGS.iter().find(|(name, ..)| *name == self.finding).map_or(self.finding.as_str(), |(_, label, _)| *label)
    }
}

#[derive(Template)]
#[template(path = "reconciliation.html")]
pub(crate) struct ReconciliationPage {
    frame: Layout,
    filters: Filters,
    home: String,
    by: &'static str,
    /// The chosen finding; empty for all.
    finding: String,
    rows: Vec<Row>,
    pager: Pager,
    behind: TableFooter,
}

impl ReconciliationPage {
    /// Returns the address of another grouping.
    fn grouped(&self, by: &str) -> String {
        format!("{}?{}", self.filters.here, self.filters.window.query_and(&[("by", by), ("finding", &self.finding)]))
    }

    fn with_finding(&self, finding: &str) -> String {
        format!("{}?{}", self.filters.here, self.filters.window.query_and(&[("by", self.by), ("finding", finding)]))
    }

    /// Returns the address of the row's fetches.
    fn fetches_of(&self, row: &Row) -> String {
        let mut window = self.filters.window.clone();
        for (name, value) in [("operator", &row.operator), ("agent_id", &row.agent_id), ("platform_id", &row.platform_id)] {
            window = if value.is_empty() { window } else { window.with(name, value) };
        }
        if let Some((host, path)) = host_and_path(&row.content_url) {
            window = window.on_domain(host).with("path", path);
        }
        format!("{}?{}", self.filters.here, window.query_and(&[("by", "event"), ("finding", &row.finding)]))
    }

    fn event(&self, row: &Row) -> String {
        format!("{}/event/{}?{}", self.home, path_segment(&row.event_id), self.filters.window.query())
    }
}

/// `GET /console/o/{organization}/reconciliation`
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Query(asked): Query<PeriodParameters>,
) -> Result<Page<ReconciliationPage>, Failure> {
    let filters = Filters::read(&state, &member, "reconciliation", &asked).await?;
    let by = BY.iter().map(|(name, _)| *name).find(|name| *name == asked.by).unwrap_or("finding");
    let (limit, offset) = (LIMIT.to_string(), asked.offset.to_string());
    let parameters =
        filters.window.parameters_and(&[("by", by), ("finding", &asked.finding), ("limit", &limit), ("offset", &offset)]);
    let page: List<Row> = member.api().get(RECONCILIATION, &parameters).await?;
    let address = format!("{}?{}", filters.here, filters.window.query_and(&[("by", by), ("finding", &asked.finding)]));
    Ok(Page(ReconciliationPage {
        frame: member.frame("Reconciliation", &filters.window.query()),
        home: member.organization.home(),
        by,
        finding: asked.finding,
        rows: page.items,
        pager: Pager::numbered(address, page.total, asked.offset, LIMIT),
        behind: TableFooter::new(&state, &member, "reconciliation", RECONCILIATION, &parameters),
        filters,
    }))
}
