//! Checks every item of a response against what was sent.

use super::operations::items;
use super::sender::LoadState;
use crate::drive::lock;
use crate::oracle::{Ledger, Rule};
use crate::workload::{AGENT, NUMBER, ROLES, Shape, TYPES, shelf_host};
use schemas::event::SourceRole;
use schemas::paged_responses::{EventItem, UrlMetric};
use std::collections::BTreeSet;

type Broken = Vec<(Rule, String)>;

impl LoadState {
    /// Checks a page of events and returns the events' numbers. An agent's own page must contain only its own reports.
    pub(super) fn check_events(&self, tenant: usize, page: &[EventItem], is_own: bool) -> Vec<u32> {
        let (mut broken, mut seen) = (Broken::new(), BTreeSet::new());
        let mut oracle = lock(&self.oracle);
        for item in page {
            match self.check_event(oracle.ledger(tenant), tenant, item, is_own) {
                Ok(number) if seen.insert(number) => {}
                Ok(number) => broken.push((Rule::Double, format!("event {number} is on a page twice"))),
                Err(fault) => broken.push(fault),
            }
        }
        broken.into_iter().for_each(|(rule, what)| oracle.report_violation(tenant, rule, what));
        seen.into_iter().collect()
    }

    fn check_event(&self, ledger: &Ledger, tenant: usize, item: &EventItem, is_own: bool) -> Result<u32, (Rule, String)> {
        let EventItem { event_id, content_url, event_type, .. } = item;
        let member = |name: &str| item.event_data.get(name).map(|value| value.get());
        let foreign = |what: &str| (Rule::Foreign, format!("event {event_id} of {content_url}: {what}"));
        let request = self.request_of(tenant, content_url).ok_or_else(|| foreign("no request of this tenant contains it"))?;
        let number: u32 = member(NUMBER).and_then(|n| n.parse().ok()).ok_or_else(|| foreign("its number is missing"))?;
        if number / self.shape.request_length(tenant) != request {
            return Err(foreign("its number belongs to another request"));
        }
        if *event_type != TYPES[self.shape.describe(tenant, number).event_type] {
            return Err(foreign("its type belongs to another event"));
        }
        let is_visible = if is_own { ledger.may_show(number, AGENT) } else { ledger.may_show_at_all(number) };
        if !is_visible {
            return Err((Rule::Phantom, format!("event {number} was rejected or never sent, but is shown")));
        }
        let has_id = |role: &usize| self.shape.report_id(tenant, *role, number).to_string() == *event_id;
        let teller = (0..ROLES.len()).find(has_id).ok_or_else(|| foreign("no report has this id"))?;
        if !ledger.may_show(number, teller) {
            return Err((Rule::Phantom, format!("event {number} is from {}, which did not report it", ROLES[teller].as_str())));
        }
        let observers: Vec<String> = member("observers").and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default();
        let place = |observer: &String| ROLES.iter().position(|role| role.as_str() == observer);
        match observers.iter().find(|observer| !place(observer).is_some_and(|role| ledger.may_show(number, role))) {
            Some(observer) => {
                Err((Rule::Phantom, format!("event {number} has the observer {observer}, which did not report it")))
            }
            None => Ok(number),
        }
    }

    /// Checks a page of URLs. Each URL belongs to one request, and must count all of its events or those of the other observers.
    pub(super) fn check_urls(&self, tenant: usize, page: &[UrlMetric]) -> u64 {
        let (mut broken, mut seen) = (Broken::new(), BTreeSet::new());
        for item in page {
            let UrlMetric { content_url, total_events, .. } = item;
            let Some(request) = self.request_of(tenant, content_url) else {
                broken.push((Rule::Foreign, format!("{content_url} belongs to another tenant")));
                continue;
            };
            if !seen.insert(request) {
                broken.push((Rule::Double, format!("{content_url} is on a page twice")));
            }
            let of_types: u64 = item.event_types.iter().map(|row| row.count).sum();
            if of_types != *total_events {
                broken.push((Rule::Sum, format!("{content_url}: types add up to {of_types}, total_events is {total_events}")));
            }
            let whole = [AGENT, AGENT + 1].map(|role| items(&self.shape, tenant, role, request).len() as u64);
            if !whole.contains(total_events) {
                broken.push((Rule::Torn, format!("{content_url}: {total_events} events of a request of {}", whole[0])));
            }
            let first = request * self.shape.request_length(tenant);
            let ledger_shows = (first..first + self.shape.request_length(tenant)).any(|number| {
                let oracle = lock(&self.oracle);
                oracle.ledger(tenant).may_show_at_all(number)
            });
            if !ledger_shows {
                broken.push((Rule::Phantom, format!("{content_url} was rejected or never sent, but is shown")));
            }
        }
        let mut oracle = lock(&self.oracle);
        broken.into_iter().for_each(|(rule, what)| oracle.report_violation(tenant, rule, what));
        page.iter().map(|item| item.total_events).sum()
    }

    /// Checks the ids in a session's document and returns the numbers of the events.
    pub(super) fn check_document(&self, tenant: usize, session: u32, ids: &[&str]) -> Vec<u32> {
        let (mut broken, mut seen) = (Broken::new(), BTreeSet::new());
        let mut oracle = lock(&self.oracle);
        for id in ids {
            let has_id = |number: &u32| self.shape.report_id(tenant, AGENT, *number).to_string() == **id;
            match Shape::numbers_of_session(session).find(has_id) {
                None => broken.push((Rule::Foreign, format!("the document of session {session} has foreign event {id}"))),
                Some(number) if !oracle.ledger(tenant).may_show(number, AGENT) => {
                    broken.push((Rule::Phantom, format!("event {number} was rejected or never sent, but is in a document")));
                }
                Some(number) if !seen.insert(number) => {
                    broken.push((Rule::Double, format!("event {number} is in a document twice")));
                }
                Some(_) => {}
            }
        }
        broken.into_iter().for_each(|(rule, what)| oracle.report_violation(tenant, rule, what));
        seen.into_iter().collect()
    }

    pub(super) fn due_in_document(&self, tenant: usize, session: u32) -> Vec<u32> {
        let oracle = lock(&self.oracle);
        Shape::numbers_of_session(session).filter(|number| oracle.ledger(tenant).must_show(*number, AGENT)).collect()
    }

    /// Returns the minimum and maximum number of fetches that both the agent and a server have reported.
    pub(super) fn corroborated(&self, tenant: usize) -> (u64, u64) {
        let is_both = |seen: [bool; ROLES.len()]| {
            let is_server = |role: usize| matches!(ROLES[role], SourceRole::Edge | SourceRole::Origin);
            seen[AGENT] && (0..ROLES.len()).any(|role| seen[role] && is_server(role))
        };
        let oracle = lock(&self.oracle);
        oracle.ledger(tenant).events().fold((0, 0), |(least, most), (acked, possible)| {
            (least + u64::from(is_both(acked)), most + u64::from(is_both(possible)))
        })
    }

    /// Returns the number of the request to which a URL belongs, if this tenant sent it.
    pub(super) fn request_of(&self, tenant: usize, content_url: &str) -> Option<u32> {
        let (host, request) = content_url.strip_prefix("https://")?.split_once("/requests/")?;
        let request = request.parse().ok()?;
        (shelf_host(&self.tenants[tenant].domain, request) == host).then_some(request)
    }
}
