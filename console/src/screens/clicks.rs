//! Results of an organization's click tokens: what others reported with them, and how its sessions ended.

use super::events::as_text;
use super::reported::{SUMMARY, behind_outcomes};
use super::reports::{BY_OTHERS, OWN_EVENTS};
use super::{Filters, Pager, TableFooter, reporter};
use crate::State;
use crate::failure::Failure;
use crate::labels;
use crate::layout::{Layout, Page};
use crate::numbers::money;
use crate::query::Query;
use crate::responses::{ALL_OTHERS, Clicks, Outcomes, OwnEvent, TypeCount};
use crate::session::Member;
use crate::sort::{Headings, Key};
use crate::window::PeriodParameters;
use askama::Template;
use axum::extract::State as Shared;
use serde::Deserialize;
use std::sync::Arc;

const LIMIT: u64 = 50;

/// `GET /agent/summary`
#[derive(Deserialize)]
struct Summary {
    clicks: Clicks,
    outcomes: Outcomes,
}

impl TypeCount {
    /// Returns the label of events that others reported with click tokens.
    pub(super) fn token_label(&self) -> &str {
        if self.other { ALL_OTHERS } else { labels::token_events(&self.event_type) }
    }

    fn key(&self, column: &str) -> Option<Key> {
        match column {
            "type" => Some(Key::text(self.token_label())),
            "clicks" => Some(Key::number(self.count.0)),
            _ => None,
        }
    }
}

impl OwnEvent {
    /// Returns the kind of engagement; empty if unknown.
    fn engagement(&self) -> String {
        self.event_data.get("engagement_type").map(as_text).map(|told| labels::engagement(&told).to_owned()).unwrap_or_default()
    }

    /// Returns the reporting role's label.
    fn reporter(&self) -> &str {
        if self.source_role == "origin" { "Site" } else { reporter(&self.source_role) }
    }

    /// Returns the reported amount and its currency; empty if missing.
    fn paid(&self) -> String {
        let [amount, currency] =
            ["value_amount", "currency"].map(|name| self.event_data.get(name).map(as_text).unwrap_or_default());
        money(&amount, &currency)
    }
}

#[derive(Template)]
#[template(path = "clicks.html")]
pub(crate) struct ClicksPage {
    frame: Layout,
    filters: Filters,
    headings: Headings,
    home: String,
    summary: Summary,
    clicks: Vec<OwnEvent>,
    pager: Pager,
    behind: TableFooter,
    behind_types: TableFooter,
    behind_outcomes: [TableFooter; 2],
}

/// `GET /console/o/{organization}/clicks`
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Query(asked): Query<PeriodParameters>,
) -> Result<Page<ClicksPage>, Failure> {
    let filters = Filters::period_only(&state, &member, "clicks", &asked)?;
    let (api, limit) = (member.api(), LIMIT.to_string());
    let whole = filters.window.parameters();
    let parameters = filters.window.parameters_and(&[BY_OTHERS, ("limit", &limit), ("after", &asked.after)]);
    let (mut summary, (page, next)) =
        tokio::try_join!(api.get::<Summary>(SUMMARY, &whole), api.get_with_next::<OwnEvent>(OWN_EVENTS, &parameters))?;
    let address = format!("{}?{}", filters.here, filters.window.query_and(&[("sort", &asked.sort)]));
    let headings = filters.headings(&asked, &[("after", &asked.after)], "-clicks");
    headings.sort(&mut summary.clicks.events_by_type, TypeCount::key);
    summary.outcomes.sort(&headings);
    Ok(Page(ClicksPage {
        headings,
        frame: member.frame("Click token events", &filters.window.query()),
        home: member.organization.home(),
        summary,
        clicks: page.items,
        pager: Pager::by_cursor(address, page.total, LIMIT, next, !asked.after.is_empty()),
        behind: TableFooter::new(&state, &member, "clicks", OWN_EVENTS, &parameters),
        behind_types: TableFooter::new(&state, &member, "click-types", SUMMARY, &whole),
        behind_outcomes: behind_outcomes(&state, &member, &whole),
        filters,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn shows_the_paid_amount_and_currency() {
        let paid = |data: serde_json::Value| {
            let event = json!({
                "event_id": "", "session_id": "", "event_type": "checkout_completed", "content_url": "",
                "event_timestamp": "2026-01-01T00:00:00Z", "event_data": data, "agent_id": "", "source_role": "", "reported_by": "other",
            });
            serde_json::from_value::<OwnEvent>(event).unwrap().paid()
        };
        assert_eq!(paid(json!({"value_amount": 4_999, "currency": "EUR", "observers": []})), "49.99 EUR");
        assert_eq!((paid(json!({"value_amount": "49"})), paid(json!({}))), ("49".to_owned(), String::new()));
    }
}
