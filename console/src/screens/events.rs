//! Events, newest first: one row each, however many observers reported it, and all of them beside each other.
//!
//! Must show what others wrote as text and nothing else.

use super::{Behind, Filters, Pager};
use crate::State;
use crate::answers::{Event, List};
use crate::failure::Failure;
use crate::frame::{Frame, Page};
use crate::query::Query;
use crate::session::Member;
use crate::window::{PeriodParameters, Window};
use askama::Template;
use axum::extract::State as Shared;
use serde::Deserialize;
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
    is_live: bool,
    tail: Tail,
    pager: Pager,
    behind: Behind,
}

/// The rows; with `live` a part of the page that is asked for again while it is open.
#[derive(Template)]
#[template(path = "parts/tail.html")]
pub(crate) struct Tail {
    /// Where the part is asked for again; empty when it is not.
    again: String,
    events: Vec<Event>,
}

impl askama::filters::HtmlSafe for Tail {}

/// Whether new events appear by themselves.
#[derive(Deserialize)]
pub(crate) struct Live {
    #[serde(default)]
    live: String,
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
    Query(asked): Query<PeriodParameters>,
    Query(Live { live }): Query<Live>,
) -> Result<Page<Events>, Failure> {
    let is_live = !live.is_empty() && asked.after.is_empty();
    let mut filters = Filters::read(&state, &member, "events", &asked).await?;
    filters.kept.extend(is_live.then(|| ("live", "1".to_owned())));
    let limit = LIMIT.to_string();
    let parameters = filters.window.parameters_and(&[("limit", &limit), ("after", &asked.after)]);
    let (page, next) = member.api().get_with_next::<Event>("/content-owners/events", &parameters).await?;
    let address = format!("{}?{}", filters.here, filters.window.query());
    let again = if is_live { format!("{}/tail?{}", filters.here, filters.window.query()) } else { String::new() };
    let frame = member.frame("Events", &filters.window.query());
    Ok(Page(Events {
        frame: if is_live { frame.live() } else { frame },
        home: member.organization.home(),
        is_live,
        tail: Tail { again, events: page.items },
        pager: Pager::by_cursor(address, page.total, LIMIT, next, !asked.after.is_empty()),
        behind: Behind::of(&state, &member, "events", "/content-owners/events", &parameters),
        filters,
    }))
}

/// `GET /console/o/{organization}/events/tail`
pub(crate) async fn tail(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Query(asked): Query<PeriodParameters>,
) -> Result<Page<Tail>, Failure> {
    let window = Window::of(&asked, state.clock.now())?;
    let parameters = window.parameters_and(&[("limit", &LIMIT.to_string())]);
    let page: List<Event> = member.api().get("/content-owners/events", &parameters).await?;
    let again = format!("{}/events/tail?{}", member.organization.home(), window.query());
    Ok(Page(Tail { again, events: page.items }))
}
