//! Events, newest first: one row each, however many observers reported it, and all of them beside each other.
//!
//! Must show what others wrote as text and nothing else.

use super::{Behind, Filters, Pager};
use crate::State;
use crate::answers::Event;
use crate::failure::Failure;
use crate::frame::{Frame, Page};
use crate::session::Member;
use crate::window::Asked;
use askama::Template;
use axum::extract::{Query, State as Shared};
use serde_json::Value;
use std::sync::Arc;

const LIMIT: u64 = 50;
/// The observers that a row has a place for.
const OBSERVERS: [&str; 4] = ["agent", "edge", "origin", "index"];

#[derive(Template)]
#[template(path = "events.html")]
pub(crate) struct Events {
    frame: Frame,
    filters: Filters,
    home: String,
    events: Vec<Event>,
    pager: Pager,
    behind: Behind,
}

impl Event {
    /// Which of the observers reported it, in the same order in every row.
    pub(crate) fn observers(&self) -> Vec<(&'static str, bool)> {
        let seen = self.event_data.get("observers").and_then(Value::as_array);
        let has = |name: &str| seen.is_some_and(|seen| seen.iter().any(|observer| observer == name));
        OBSERVERS.iter().map(|name| (*name, has(name))).collect()
    }

    /// What was reported besides, as text.
    pub(crate) fn facts(&self) -> Vec<(&str, String)> {
        let told = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let own = self.event_data.iter().filter(|(name, _)| *name != "observers");
        own.map(|(name, value)| (name.as_str(), told(value))).collect()
    }

    /// The type in the words of the charts.
    pub(crate) fn step(&self) -> &str {
        self.event_type.strip_prefix("content_").unwrap_or(&self.event_type)
    }
}

/// `GET /console/o/{organization}/events`
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Query(asked): Query<Asked>,
) -> Result<Page<Events>, Failure> {
    let filters = Filters::read(&state, &member, "events", &asked).await?;
    let limit = LIMIT.to_string();
    let parameters = filters.window.parameters_and(&[("limit", &limit), ("after", &asked.after)]);
    let (page, next) = member.api().get_with_next::<Event>("/content-owners/events", &parameters).await?;
    let address = format!("{}?{}", filters.here, filters.window.query());
    Ok(Page(Events {
        frame: member.frame("Events", &filters.window.query()),
        home: member.organization.home(),
        events: page.items,
        pager: Pager::by_cursor(address, page.total, LIMIT, next, !asked.after.is_empty()),
        behind: Behind::of(&state, &member, "events", "/content-owners/events", &parameters),
        filters,
    }))
}
