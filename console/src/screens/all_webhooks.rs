//! For operators: all organizations' webhook endpoints, failing ones first, and their delivery errors.

use super::operator::organizations_named;
use super::webhooks::{Attempt, Log, LogParameters, badge, sentence};
use super::{Pager, TableFooter};
use crate::State;
use crate::api::Parameters;
use crate::failure::Failure;
use crate::layout::{Layout, Page};
use crate::numbers::{Count, Time};
use crate::query::Query;
use crate::session::SignedIn;
use crate::sort::Headings;
use askama::Template;
use axum::extract::{Path, State as Shared};
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

const ALL: &str = "/api/v1/identity/operator/webhooks";
const HERE: &str = "/console/operator/webhooks";
/// Filters: value in the address, and label.
const CHOICES: [(&str, &str); 2] = [("failing", "Failing"), ("all", "All")];
const LIMIT: u64 = 50;

#[derive(Deserialize)]
struct WebhookStatus {
    id: Uuid,
    organization_id: Uuid,
    organization_name: String,
    host: String,
    event_types: Vec<String>,
    created_at: Time,
    disabled_at: Option<Time>,
    deleted_at: Option<Time>,
    disabled_by: Option<String>,
    is_failing: bool,
    last_attempt: Option<Attempt>,
    waiting: Count,
}

impl WebhookStatus {
    fn state(&self) -> &'static str {
        match (self.deleted_at.is_some(), self.disabled_at.is_some(), self.is_failing, self.last_attempt.is_some()) {
            (true, ..) => "Deleted",
            (_, true, ..) => "Disabled",
            (_, _, true, _) => "Failing",
            (.., true) => "Working",
            _ => "No attempts yet",
        }
    }

    fn badge(&self) -> &'static str {
        badge(self.state())
    }

    /// Returns a sentence with the status and its reason.
    fn describe(&self) -> String {
        let by = match self.disabled_by.as_deref() {
            Some("user") => " by a member of the organization",
            Some("key") => " by an API key of the organization",
            Some("operator") => " by an operator",
            Some("system") => " by the service",
            _ => "",
        };
        match (self.state(), &self.last_attempt) {
            (gone @ ("Deleted" | "Disabled"), _) => format!("{gone}{by}. Nothing is sent to this endpoint."),
            ("Failing", Some(attempt)) => format!("{}.", sentence(&attempt.describe())),
            (_, Some(attempt)) => format!("The last attempt {}.", attempt.describe()),
            (_, None) => "No delivery attempts yet.".to_owned(),
        }
    }

    /// Returns the address of the organization list, filtered by the endpoint's organization.
    fn organization(&self) -> String {
        organizations_named(&self.organization_name)
    }
}

#[derive(Template)]
#[template(path = "all_webhooks.html")]
pub(crate) struct AllWebhooks {
    frame: Layout,
    headings: Headings,
    choices: [(&'static str, &'static str); 2],
    which: &'static str,
    /// Filters by organization; empty for all.
    organization: String,
    endpoints: Vec<WebhookStatus>,
    pager: Pager,
    behind: TableFooter,
}

impl AllWebhooks {
    /// Returns the list's address with another filter.
    fn address(&self, which: &str) -> String {
        list_of(which, &self.organization, self.headings.asked())
    }
}

#[derive(Template)]
#[template(path = "any_webhook.html")]
pub(crate) struct OperatorWebhookPage {
    frame: Layout,
    endpoint: WebhookStatus,
    log: Log,
    behind: TableFooter,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct WebhookParameters {
    which: String,
    organization_id: String,
    sort: String,
    offset: u64,
}

/// Returns the address of the first page with the given filter and order.
fn list_of(which: &str, organization: &str, sort: &str) -> String {
    let said = [("organization_id", organization), ("sort", sort)].into_iter().filter(|(_, value)| !value.is_empty());
    let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("which", which).extend_pairs(said).finish();
    format!("{HERE}?{query}")
}

/// `GET /console/operator/webhooks`
pub(crate) async fn list(
    Shared(state): Shared<Arc<State>>,
    person: SignedIn,
    Query(asked): Query<WebhookParameters>,
) -> Result<Page<AllWebhooks>, Failure> {
    let which = CHOICES.iter().map(|(name, _)| *name).find(|name| *name == asked.which).unwrap_or("failing");
    let of = (!asked.organization_id.is_empty()).then(|| ("organization_id", asked.organization_id.clone()));
    let failing = (which == "failing").then(|| ("failing", "true".to_owned()));
    let sort = (!asked.sort.is_empty()).then(|| ("sort", asked.sort.clone()));
    let narrowing: Parameters = of.into_iter().chain(failing).chain(sort).collect();
    let page = [("limit", (LIMIT + 1).to_string()), ("offset", asked.offset.to_string())];
    let mut endpoints: Vec<WebhookStatus> = person.api.get(ALL, &page.into_iter().chain(narrowing.clone()).collect()).await?;
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&narrowing).finish();
    let behind = TableFooter::of_operator(&state, "webhooks", ALL, &query);
    let pager = Pager::of_part(list_of(which, &asked.organization_id, &asked.sort), &mut endpoints, asked.offset, LIMIT);
    let headings = Headings::new(list_of(which, &asked.organization_id, ""), &asked.sort, "-created_at");
    let (frame, organization) = (person.frame("All webhooks"), asked.organization_id);
    Ok(Page(AllWebhooks { frame, headings, choices: CHOICES, which, organization, endpoints, pager, behind }))
}

/// `GET /console/operator/webhooks/{id}`
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    person: SignedIn,
    Path(named): Path<HashMap<String, String>>,
    Query(asked): Query<LogParameters>,
) -> Result<Page<OperatorWebhookPage>, Failure> {
    let id: Uuid = named.get("id").and_then(|id| id.parse().ok()).ok_or(Failure::NotFound)?;
    let path = format!("{ALL}/{id}");
    let log = format!("{path}/deliveries");
    let endpoint = person.api.get(&path, &Vec::new()).await?;
    let deliveries = person.api.get(&log, &asked.asked()).await?;
    let behind = TableFooter::of_operator(&state, "deliveries", &log, &asked.of_file(id));
    let log = asked.log(&format!("{HERE}/{id}"), deliveries);
    Ok(Page(OperatorWebhookPage { frame: person.frame("All webhooks"), endpoint, log, behind }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn watched(changed: &Value) -> WebhookStatus {
        let mut endpoint = json!({"id": Uuid::nil(), "organization_id": Uuid::nil(), "organization_name": "A & B", "host": "a.test",
            "event_types": [], "created_at": "2026-11-01T10:00:00.000Z", "disabled_at": null, "deleted_at": null,
            "disabled_by": null, "is_failing": false, "last_attempt": null, "waiting": 0});
        endpoint.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
        serde_json::from_value(endpoint).unwrap()
    }

    #[test]
    fn describes_every_endpoint_status() {
        let at = "2026-11-01T10:00:00.000Z";
        let failed = json!({"at": at, "outcome": "bad_status", "status_code": 500, "duration_ms": 7});
        let taken = json!({"at": at, "outcome": "delivered", "status_code": 204, "duration_ms": 7});
        for (changed, state, told) in [
            (json!({}), "No attempts yet", "No delivery attempts yet."),
            (json!({"is_failing": true, "last_attempt": failed}), "Failing", "Returned 500, expected 2xx."),
            (json!({"last_attempt": taken}), "Working", "The last attempt returned 204 after 7 ms."),
            (
                json!({"disabled_at": at, "disabled_by": "user", "last_attempt": failed}),
                "Disabled",
                "Disabled by a member of the organization. Nothing is sent to this endpoint.",
            ),
            (
                json!({"disabled_at": at, "deleted_at": at, "disabled_by": "key"}),
                "Deleted",
                "Deleted by an API key of the organization. Nothing is sent to this endpoint.",
            ),
            (json!({"disabled_at": at}), "Disabled", "Disabled. Nothing is sent to this endpoint."),
        ] {
            let endpoint = watched(&changed);
            assert_eq!((endpoint.state(), endpoint.describe().as_str()), (state, told), "{changed}");
        }
        assert_eq!(watched(&json!({})).organization(), "/console/operator/organizations?q=A+%26+B");
    }
}
