//! The list of events, newest first. An event reported by several observers is one row.

use super::{Filters, Pager, ROLES, TableFooter, reporter};
use crate::State;
use crate::failure::Failure;
use crate::layout::{Layout, Page};
use crate::numbers::money;
use crate::query::{Query, path_segment};
use crate::responses::{Event, List};
use crate::session::Member;
use crate::window::{PeriodParameters, Window};
use askama::Template;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use data_encoding::HEXLOWER;
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::sync::Arc;

const EVENTS: &str = "/content-owners/events";
const LIMIT: u64 = 50;
#[derive(Template)]
#[template(path = "events.html")]
pub(crate) struct Events {
    frame: Layout,
    filters: Filters,
    home: String,
    is_live: bool,
    /// Query with period and filters.
    query: String,
    tail: Tail,
    pager: Pager,
    behind: TableFooter,
}

/// The rows. With `live`, new rows are added.
#[derive(Template)]
#[template(path = "parts/tail.html")]
pub(crate) struct Tail {
    /// Address of new rows; empty without them.
    again: String,
    /// Address of the page.
    here: String,
    home: String,
    window: Window,
    events: Vec<Event>,
}

impl askama::filters::HtmlSafe for Tail {}

/// The rows that an open page doesn't show yet.
#[derive(Template)]
#[template(path = "parts/new_events.html")]
pub(crate) struct NewEvents {
    home: String,
    window: Window,
    events: Vec<Event>,
}

/// The rows that an open page shows.
#[derive(Deserialize)]
pub(crate) struct Known {
    /// Keys, separated by periods.
    #[serde(default)]
    known: String,
}

/// Whether the list refreshes.
#[derive(Deserialize)]
pub(crate) struct LiveParameters {
    #[serde(default)]
    live: String,
}

impl Event {
    /// Returns the roles that reported the event and their labels, always in the same order.
    pub(crate) fn reporters(&self) -> Vec<(&'static str, &'static str)> {
        let seen = self.event_data.get("observers").and_then(Value::as_array);
        let has = |name: &str| seen.is_some_and(|seen| seen.iter().any(|observer| observer == name));
        ROLES.into_iter().filter(|role| has(role)).map(|role| (role, reporter(role))).collect()
    }

    /// Returns the other reported details as text.
    pub(crate) fn facts(&self) -> Vec<(&str, String)> {
        let own = self.event_data.iter().filter(|(name, _)| *name != "observers");
        own.map(|(name, value)| (name.as_str(), fact(name, value, &self.event_data))).collect()
    }

    /// Returns a short digest that identifies the row.
    pub(crate) fn key(&self) -> String {
        let at = self.event_timestamp.0.timestamp_millis();
        let told = format!("{}\n{at}\n{}\n{}", self.event_id, self.event_type, self.content_url);
        HEXLOWER.encode(&Sha256::digest(told)[..6])
    }

    /// Returns whether the ID can be part of a path. Browsers resolve `.` and `..` as relative segments.
    pub(crate) fn has_address(&self) -> bool {
        !["", ".", ".."].contains(&self.event_id.as_str())
    }

    /// Returns the event's path below the organization. The time distinguishes events with the same ID.
    pub(crate) fn address(&self, seen_by: &str) -> String {
        let at = schemas::instant::text(self.event_timestamp.0);
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("at", &at).extend_pairs((!seen_by.is_empty()).then_some(("seen_by", seen_by)));
        format!("event/{}?{}", path_segment(&self.event_id), query.finish())
    }

    pub(crate) fn step(&self) -> &str {
        crate::labels::event_with_outcome(&self.event_type, &self.outcome)
    }

    /// Returns the query of the events of the same agent or bot.
    pub(crate) fn of_same_agent(&self, window: &Window) -> String {
        let others = ["agent_id", "bot", "platform_id"].iter().fold(window.clone(), |window, name| window.with(name, ""));
        others.with("agent_or_bot", self.agent_or_bot()).query()
    }

    /// Returns the agent's name or, without an agent, the bot's; empty if both are unknown.
    pub(crate) fn agent_or_bot(&self) -> &str {
        if self.agent_id.is_empty() { &self.bot } else { &self.agent_id }
    }
}

/// Formats an event detail for a reader. Amounts are in minor units of the event's currency.
pub(crate) fn fact(name: &str, value: &Value, data: &Map<String, Value>) -> String {
    let currency = data.get("currency").and_then(Value::as_str).filter(|_| name == "value_amount");
    currency.map_or_else(|| as_text(value), |currency| money(&as_text(value), currency))
}

/// Formats a value for a reader.
pub(crate) fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `GET /console/o/{organization}/events`
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Query(asked): Query<PeriodParameters>,
    Query(LiveParameters { live }): Query<LiveParameters>,
) -> Result<Page<Events>, Failure> {
    let is_live = !live.is_empty() && asked.after.is_empty();
    let mut filters = Filters::read(&state, &member, "events", &asked).await?.of_events(&asked);
    let narrowing = asked.narrowing();
    let query = filters.window.query_and(&narrowing);
    filters.kept.extend(is_live.then(|| ("live", "1".to_owned())));
    let limit = LIMIT.to_string();
    let page_of = [("limit", limit.as_str()), ("after", &asked.after)];
    let parameters = filters.window.parameters_and(&[&narrowing[..], &page_of].concat());
    let (page, next) = member.api().get_with_next::<Event>(EVENTS, &parameters).await?;
    let address = format!("{}?{query}", filters.here);
    let again = if is_live { format!("{}/tail?{query}", filters.here) } else { String::new() };
    let here = format!("{}?{query}&live=1", filters.here);
    let frame = member.frame("Events", &filters.window.query());
    let home = member.organization.home();
    Ok(Page(Events {
        frame: if is_live { frame.following() } else { frame },
        is_live,
        query,
        tail: Tail { again, here, home: home.clone(), window: filters.window.clone(), events: page.items },
        home,
        pager: Pager::by_cursor(address, page.total, LIMIT, next, !asked.after.is_empty()),
        behind: TableFooter::new(&state, &member, "events", EVENTS, &parameters),
        filters,
    }))
}

/// Handles `GET /console/o/{organization}/events/tail`: returns the newest events that an open page doesn't show, or 204 if there are none.
pub(crate) async fn tail(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Query(asked): Query<PeriodParameters>,
    Query(Known { known }): Query<Known>,
) -> Result<Response, Failure> {
    let window = Window::new(&asked, state.clock.now())?;
    let (narrowing, limit) = (asked.narrowing(), LIMIT.to_string());
    let parameters = window.parameters_and(&[&narrowing[..], &[("limit", &limit)]].concat());
    let mut page: List<Event> = member.api().get(EVENTS, &parameters).await?;
    let known: BTreeSet<&str> = known.split('.').collect();
    page.items.retain(|event| !known.contains(event.key().as_str()));
    if page.items.is_empty() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let home = member.organization.home();
    Ok(Page(NewEvents { home, window, events: page.items }).into_response())
}
