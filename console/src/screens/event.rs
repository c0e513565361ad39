//! One event: the agent's report next to the servers' reports.

use super::events::as_text;
use super::{PartnerView, ROLES, TableFooter, reporter};
use crate::State;
use crate::api::Parameters;
use crate::failure::Failure;
use crate::labels;
use crate::layout::{Layout, Page};
use crate::query::{Query, path_segment};
use crate::responses::{OneEvent, Report};
use crate::session::Member;
use askama::Template;
use axum::extract::{Path, State as Shared};
use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

#[derive(Template)]
#[template(path = "event.html")]
pub(crate) struct EventPage {
    frame: Layout,
    home: String,
    seen_as: Option<PartnerView>,
    /// Query of the link back to the list.
    query: String,
    event: OneEvent,
    rows: Vec<Row>,
    behind: TableFooter,
}

/// Label of the row with the IDs that reporters chose.
const EVENT_ID: &str = "Event ID";

/// One field's values, one per reporter; empty if missing.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    name: String,
    values: Vec<String>,
}

impl Row {
    /// Returns whether the reporters disagree. IDs always differ, because reporters choose them.
    fn differs(&self) -> bool {
        self.name != EVENT_ID && self.values.iter().filter(|value| !value.is_empty()).collect::<BTreeSet<_>>().len() > 1
    }
}

impl Report {
    fn reporter(&self) -> &str {
        reporter(&self.source_role)
    }

    /// Returns class and label of the signature's badge, if there is a signature.
    fn signature(&self) -> Option<(&'static str, String)> {
        match self.signature.as_str() {
            "valid" => Some(("good", "Signed".to_owned())),
            "invalid" => Some(("bad", format!("Invalid signature: {}", labels::signature_reason(&self.signature_reason)))),
            _ => None,
        }
    }
}

impl OneEvent {
    fn step(&self) -> &str {
        labels::event_with_outcome(&self.event_type, &self.outcome)
    }

    /// Returns a sentence with the reporters.
    fn describe(&self) -> &'static str {
        match self.corroboration.as_deref() {
            Some("seen_by_both") => "An AI agent claims this fetch, and another organization’s server confirmed it.",
            Some("claimed_by_agent_only") => "An AI agent claims this fetch. No other organization’s server has confirmed it.",
            Some("seen_by_server_only") => "A server reported this fetch. No AI agent has claimed it.",
            Some(_) => "Neither an AI agent nor a CDN or web server reported this fetch.",
            None if self.event_type == "content_retrieved" => {
                "This request returned no new content, so it isn\u{2019}t counted as a fetch."
            }
            None => "Only fetches can be confirmed. Other events have a single reporter.",
        }
    }

    /// Returns the labels of the roles that did not report a fetch.
    fn silent(&self) -> String {
        let is_silent = |role: &&str| self.reports.iter().all(|report| report.source_role != *role);
        let silent: Vec<&str> = ROLES.into_iter().filter(is_silent).map(reporter).collect();
        if self.corroboration.is_some() { silent.join(", ") } else { String::new() }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct EventParameters {
    at: String,
    seen_by: String,
}

/// `GET /console/o/{organization}/event/{id}`
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Path(named): Path<HashMap<String, String>>,
    Query(EventParameters { at, seen_by }): Query<EventParameters>,
) -> Result<Page<EventPage>, Failure> {
    let id = named.get("id").map(String::as_str).unwrap_or_default();
    let path = format!("/content-owners/events/{}", path_segment(id));
    let (view, mut parameters) = (as_whom(&seen_by), window(&at)?);
    parameters.extend(view.clone());
    let api = member.api();
    let asked = api.get::<OneEvent>(&path, &parameters).await;
    let event = match asked {
        // Another report may represent the event by now, with another time.
        Err(Failure::Refused(problem)) if problem.status == 404 && parameters != view => {
            parameters.clone_from(&view);
            api.get(&path, &parameters).await?
        }
        asked => asked?,
    };
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&view).finish();
    let home = member.organization.home();
    let moment = url::form_urlencoded::Serializer::new(String::new()).append_pair("at", &at).finish();
    let back = format!("{home}/event/{}?{moment}", path_segment(id));
    Ok(Page(EventPage {
        frame: member.frame("Events", &query),
        home,
        seen_as: PartnerView::find(&api, &seen_by, back).await?,
        query,
        rows: rows(&event.reports),
        behind: TableFooter::within(&state, &member, "reports-of-event", ("event", id), &path, &parameters),
        event,
    }))
}

/// Returns the parameter for the partner whose view is shown, if any.
fn as_whom(seen_by: &str) -> Parameters {
    if seen_by.is_empty() { Vec::new() } else { vec![("seen_by", seen_by.to_owned())] }
}

/// Returns the event's millisecond as a period; empty without a time.
fn window(at: &str) -> Result<Parameters, Failure> {
    if at.is_empty() {
        return Ok(Vec::new());
    }
    let at: DateTime<Utc> =
        at.parse().map_err(|_| Failure::Unreadable("at must be a time such as 2026-01-31T12:00:00Z.".to_owned()))?;
    let end = at.checked_add_signed(TimeDelta::milliseconds(1)).unwrap_or(at);
    Ok(vec![("since", schemas::instant::text(at)), ("until", schemas::instant::text(end))])
}

/// Returns a row for each field that a report has.
fn rows(reports: &[Report]) -> Vec<Row> {
    let of = |name: &str, value: fn(&Report) -> &String| Row {
        name: name.to_owned(),
        values: reports.iter().map(|report| value(report).clone()).collect(),
    };
    let own = [
        of("Page", |report| &report.content_url),
        of("Agent", |report| &report.agent_id),
        of("Signed by", |report| &report.signed_by),
        of("Organization", |report| &report.platform_name),
        of("Session ID", |report| &report.session_id),
        of(EVENT_ID, |report| &report.event_id),
    ];
    let names: BTreeSet<&String> = reports.iter().flat_map(|report| report.event_data.keys()).collect();
    let facts = names.into_iter().map(|name| Row {
        name: name.clone(),
        values: reports.iter().map(|report| report.event_data.get(name).map(as_text).unwrap_or_default()).collect(),
    });
    own.into_iter().chain(facts).filter(|row| row.values.iter().any(|value| !value.is_empty())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report(role: &str, agent: &str, data: &serde_json::Value) -> Report {
        serde_json::from_value(json!({
            "source_role": role, "event_id": format!("of-{role}"), "session_id": "", "content_url": "https://a.test/",
            "event_timestamp": "2026-01-01T00:00:00Z", "event_data": data, "platform_name": "", "agent_id": agent,
            "signature": "none", "signature_reason": "", "signed_by": "",
        }))
        .unwrap()
    }

    #[test]
    fn each_row_has_a_value_for_every_reporter() {
        let reports = [
            report("agent", "alpha", &json!({"purpose": "user"})),
            report("edge", "", &json!({"purpose": "training", "status": 200})),
        ];
        let rows = rows(&reports);
        let told: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.values.join("|"), row.differs())).collect();
        let expected = [
            ("Page", "https://a.test/|https://a.test/", false),
            ("Agent", "alpha|", false),
            (EVENT_ID, "of-agent|of-edge", false),
            ("purpose", "user|training", true),
            ("status", "|200", false),
        ];
        assert_eq!(told, expected.map(|(name, values, differs)| (name, values.to_owned(), differs)));
    }

    #[test]
    fn signatures_have_a_badge() {
        let badge = |signature: &str, reason: &str| {
            let report = Report {
                signature: signature.to_owned(),
                signature_reason: reason.to_owned(),
                ..report("agent", "", &json!({}))
            };
            report.signature().map(|(class, label)| format!("{class} {label}"))
        };
        assert_eq!(badge("none", ""), None);
        assert_eq!(badge("valid", "").unwrap(), "good Signed");
        assert_eq!(badge("invalid", "no_key").unwrap(), "bad Invalid signature: unknown key");
        assert_eq!(badge("invalid", "new_reason").unwrap(), "bad Invalid signature: new_reason");
    }

    #[test]
    fn window_spans_the_events_millisecond() {
        let named = window("2026-01-01T00:00:00.999Z").unwrap();
        assert_eq!(named[1].1, "2026-01-01T00:00:01.000Z");
        assert!(window("").unwrap().is_empty() && window("yesterday").is_err() && window("+262142-12-31T23:59:59.999Z").is_ok());
    }
}
