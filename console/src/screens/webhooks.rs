//! Webhook endpoints and their deliveries: create, test, redeliver, rotate the secret, disable and delete.

use super::{FormError, Pager, TableFooter};
use crate::api::Parameters;
use crate::failure::Failure;
use crate::forms::Form;
use crate::layout::{Layout, Page};
use crate::numbers::Time;
use crate::query::Query;
use crate::session::Member;
use crate::sort::{Headings, Key, SortParameter};
use askama::Template;
use axum::extract::Path;
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::json;
use std::collections::HashMap;
use uuid::Uuid;

const WEBHOOKS: &str = "/api/v1/identity/webhooks";
/// Event types: API value and label.
const TYPES: [(&str, &str); 5] = [
    ("delegation_request.created", "Data access requested"),
    ("delegation.created", "Data access granted"),
    ("delegation.revoked", "Data access revoked"),
    ("reconciliation.exception", "Claims and server reports differ"),
    ("invite.claimed", "Invite accepted to an organization you set up"),
];
/// Delivery filters: value in the address and the API, and label.
const STATES: [(&str, &str); 4] = [("", "All"), ("pending", "Pending"), ("dead_letter", "Failed"), ("delivered", "Delivered")];
const DELIVERIES: u64 = 50;

/// Filters and position in an endpoint's log.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct LogParameters {
    status: String,
    offset: u64,
}

impl LogParameters {
    fn status(&self) -> &'static str {
        STATES.iter().map(|(name, _)| *name).find(|name| *name == self.status).unwrap_or_default()
    }

    /// Returns the API parameters, with a limit of one more than a page shows.
    pub(crate) fn asked(&self) -> Parameters {
        let page = [("limit", (DELIVERIES + 1).to_string()), ("offset", self.offset.to_string())];
        page.into_iter().chain(self.narrowing()).collect()
    }

    fn narrowing(&self) -> Option<(&'static str, String)> {
        Some(("status", self.status().to_owned())).filter(|(_, status)| !status.is_empty())
    }

    /// Returns the parameters for downloads of the log.
    pub(crate) fn of_file(&self, endpoint: Uuid) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("webhook", &endpoint.to_string()).extend_pairs(self.narrowing()).finish()
    }

    /// Returns the log for the page at `here`.
    pub(crate) fn log(&self, here: &str, mut deliveries: Vec<Delivery>) -> Log {
        let address = |status: &str| if status.is_empty() { here.to_owned() } else { format!("{here}?status={status}") };
        let choices = STATES.map(|(name, label)| (address(name), label, name == self.status())).to_vec();
        let pager = Pager::of_part(address(self.status()), &mut deliveries, self.offset, DELIVERIES);
        Log { choices, is_whole: self.status().is_empty() && self.offset == 0, deliveries, pager }
    }
}

/// One page of an endpoint's log.
pub(crate) struct Log {
    /// Filters: address, label, and whether it is selected.
    pub(crate) choices: Vec<(String, &'static str, bool)>,
    /// Whether an empty log means that the endpoint has no deliveries at all.
    pub(crate) is_whole: bool,
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) pager: Pager,
}

#[derive(Clone, Deserialize)]
pub(crate) struct Endpoint {
    id: Uuid,
    url: String,
    event_types: Vec<String>,
    created_at: Time,
    disabled_at: Option<Time>,
    last_attempt: Option<Attempt>,
    /// Present only in the response that creates it.
    #[serde(default)]
    secret: String,
}

#[derive(Deserialize)]
pub(crate) struct Delivery {
    id: Uuid,
    pub(crate) event_type: String,
    status: String,
    pub(crate) attempts: u64,
    pub(crate) created_at: Time,
    pub(crate) next_attempt_at: Option<Time>,
    pub(crate) last_attempt: Option<Attempt>,
}

#[derive(Clone, Deserialize)]
pub(crate) struct Attempt {
    pub(crate) at: Time,
    outcome: String,
    status_code: Option<u16>,
    duration_ms: u64,
}

/// Returns the CSS class of a state's badge.
pub(super) fn badge(state: &str) -> &'static str {
    match state {
        "Working" => "good",
        "No attempts yet" => "",
        _ => "bad",
    }
}

impl Endpoint {
    /// Returns the latest attempt if it failed and will be retried.
    fn failure(&self) -> Option<&Attempt> {
        self.last_attempt.as_ref().filter(|attempt| self.disabled_at.is_none() && attempt.outcome != "delivered")
    }

    fn state(&self) -> &'static str {
        match (self.disabled_at.is_some(), self.failure().is_some(), self.last_attempt.is_some()) {
            (true, ..) => "Disabled",
            (_, true, _) => "Failing",
            (.., true) => "Working",
            _ => "No attempts yet",
        }
    }

    fn badge(&self) -> &'static str {
        badge(self.state())
    }

    fn key(&self, column: &str) -> Option<Key> {
        match column {
            "url" => Some(Key::text(&self.url)),
            "state" => Some(Key::text(self.state())),
            "attempt" => Some(Key::time(self.last_attempt.as_ref().map(|attempt| attempt.at))),
            "since" => Some(Key::time(Some(self.created_at))),
            _ => None,
        }
    }
}

impl Attempt {
    /// Returns the result as text.
    pub(crate) fn describe(&self) -> String {
        match (self.outcome.as_str(), self.status_code) {
            ("delivered", Some(code)) => format!("returned {code} after {} ms", self.duration_ms),
            ("bad_status", Some(code)) => format!("returned {code}, expected 2xx"),
            ("no_public_address", _) => "hostname has no public address".to_owned(),
            ("unreachable", _) => "connection failed".to_owned(),
            ("timeout", _) => format!("no response within {} ms", self.duration_ms),
            ("not_http", _) => "response is not HTTP".to_owned(),
            ("tls_expired", _) => "TLS certificate has expired".to_owned(),
            ("tls_not_yet_valid", _) => "TLS certificate is not valid yet".to_owned(),
            ("tls_unknown_authority", _) => "TLS certificate is not signed by a trusted authority".to_owned(),
            ("tls_other_name", _) => "TLS certificate is for another hostname".to_owned(),
            ("tls_authority_as_server", _) => "TLS certificate is a CA certificate, not a server certificate".to_owned(),
            ("tls", _) => "TLS handshake failed".to_owned(),
            (other, _) => other.replace('_', " "),
        }
    }
}

/// Capitalizes the first letter.
pub(crate) fn sentence(told: &str) -> String {
    let mut letters = told.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

impl Delivery {
    /// Returns the state's label. Deliveries that failed and will be retried are pending in the API.
    pub(crate) fn state(&self) -> &str {
        match self.status.as_str() {
            "pending" if self.attempts > 0 => "Retrying",
            "pending" => "Pending",
            "delivered" => "Delivered",
            "dead_letter" => "Failed",
            "dropped" => "Dropped",
            other => other,
        }
    }

    pub(crate) fn badge(&self) -> &'static str {
        match self.status.as_str() {
            "delivered" => "good",
            "pending" => "warn",
            _ => "bad",
        }
    }

    /// Returns a sentence with the result and its reason.
    pub(crate) fn why(&self) -> String {
        let attempt = self.last_attempt.as_ref().map(|attempt| sentence(&attempt.describe()));
        match (self.status.as_str(), attempt) {
            ("pending", None) => "Not attempted yet.".to_owned(),
            ("pending", Some(told)) => format!("{told}. Will be retried."),
            ("dead_letter", Some(told)) => format!("{told}. Stopped after eight attempts."),
            ("dropped", Some(told)) => format!("{told}. The endpoint was disabled before the next attempt."),
            ("dropped", None) => "The endpoint was disabled, or its queue was full.".to_owned(),
            (_, Some(told)) => format!("{told}."),
            (other, None) => sentence(&other.replace('_', " ")) + ".",
        }
    }
}

#[derive(Template)]
#[template(path = "webhooks.html")]
pub(crate) struct Webhooks {
    frame: Layout,
    headings: Headings,
    home: String,
    /// Whether the reader can create endpoints and replace secrets, which only owners can.
    may_change: bool,
    types: [(&'static str, &'static str); 5],
    /// `None` if only the new endpoint is known.
    endpoints: Option<Vec<Endpoint>>,
    made: Option<Endpoint>,
    typed: String,
    behind: TableFooter,
    problem: FormError,
}

#[derive(Template)]
#[template(path = "webhook.html")]
pub(crate) struct Webhook {
    frame: Layout,
    home: String,
    may_change: bool,
    endpoint: Endpoint,
    made: Option<Endpoint>,
    /// `None` if only the new secret is known.
    log: Option<Log>,
    behind: TableFooter,
    problem: FormError,
}

/// `GET /console/o/{organization}/webhooks`
pub(crate) async fn list(member: Member, Query(SortParameter { sort }): Query<SortParameter>) -> Result<Page<Webhooks>, Failure> {
    all(&member, &sort, None, String::new(), None).await
}

/// `POST /console/o/{organization}/webhooks`
pub(crate) async fn create(member: Member, form: Form) -> Result<Response, Failure> {
    let url = form.text("url");
    let asked = json!({"url": url, "event_types": form.all("event_type")});
    match form.once.submit::<Endpoint>(&member.api(), WEBHOOKS, &asked).await {
        Ok((made, sent)) => Ok((sent, all(&member, "", Some(made), String::new(), None).await?).into_response()),
        Err(failure) => Ok(all(&member, "", None, url, Some(failure.refusal()?)).await?.into_response()),
    }
}

/// `GET /console/o/{organization}/webhooks/{id}`
pub(crate) async fn show(
    member: Member,
    Path(named): Path<HashMap<String, String>>,
    Query(asked): Query<LogParameters>,
) -> Result<Page<Webhook>, Failure> {
    part(&member, id(&named, "id")?, &asked, (None, None)).await
}

/// `POST /console/o/{organization}/webhooks/{id}/rotate`
pub(crate) async fn rotate(member: Member, Path(named): Path<HashMap<String, String>>, form: Form) -> Result<Response, Failure> {
    let id = id(&named, "id")?;
    match form.once.submit::<Endpoint>(&member.api(), &format!("{WEBHOOKS}/{id}/rotate-secret"), &json!({})).await {
        Ok((made, sent)) => Ok((sent, one(&member, id, Some(made), None).await?).into_response()),
        Err(failure) => Ok(one(&member, id, None, Some(failure.refusal()?)).await?.into_response()),
    }
}

/// `POST /console/o/{organization}/webhooks/{id}/test`
pub(crate) async fn test(member: Member, Path(named): Path<HashMap<String, String>>) -> Result<Response, Failure> {
    let id = id(&named, "id")?;
    acted(&member, id, member.api().send(Method::POST, &format!("{WEBHOOKS}/{id}/test"), None).await.map(drop)).await
}

/// `POST /console/o/{organization}/webhooks/{id}/disable`
pub(crate) async fn disable(member: Member, Path(named): Path<HashMap<String, String>>) -> Result<Response, Failure> {
    set_disabled(&member, id(&named, "id")?, true).await
}

/// `POST /console/o/{organization}/webhooks/{id}/enable`
pub(crate) async fn enable(member: Member, Path(named): Path<HashMap<String, String>>) -> Result<Response, Failure> {
    set_disabled(&member, id(&named, "id")?, false).await
}

async fn set_disabled(member: &Member, id: Uuid, disabled: bool) -> Result<Response, Failure> {
    let body = json!({"disabled": disabled});
    acted(member, id, member.api().send(Method::PATCH, &format!("{WEBHOOKS}/{id}"), Some(&body)).await.map(drop)).await
}

/// `POST /console/o/{organization}/webhooks/{id}/delete`
pub(crate) async fn delete(member: Member, Path(named): Path<HashMap<String, String>>) -> Result<Response, Failure> {
    let id = id(&named, "id")?;
    match member.api().send(Method::DELETE, &format!("{WEBHOOKS}/{id}"), None).await {
        Ok(_) => Ok(Redirect::to(&format!("{}/webhooks", member.organization.home())).into_response()),
        Err(failure) => Ok(one(&member, id, None, Some(failure.refusal()?)).await?.into_response()),
    }
}

/// `POST /console/o/{organization}/webhooks/{id}/deliveries/{delivery}/redeliver`
pub(crate) async fn redeliver(member: Member, Path(named): Path<HashMap<String, String>>) -> Result<Response, Failure> {
    let (id, delivery) = (id(&named, "id")?, id(&named, "delivery")?);
    let path = format!("{WEBHOOKS}/{id}/deliveries/{delivery}/redeliver");
    acted(&member, id, member.api().send(Method::POST, &path, None).await.map(drop)).await
}

/// Redirects to the endpoint, or shows its page with the error.
async fn acted(member: &Member, id: Uuid, done: Result<(), Failure>) -> Result<Response, Failure> {
    match done {
        Ok(()) => Ok(Redirect::to(&format!("{}/webhooks/{id}", member.organization.home())).into_response()),
        Err(failure) => Ok(one(member, id, None, Some(failure.refusal()?)).await?.into_response()),
    }
}

fn id(named: &HashMap<String, String>, name: &str) -> Result<Uuid, Failure> {
    named.get(name).and_then(|id| id.parse().ok()).ok_or(Failure::NotFound)
}

async fn all(
    member: &Member,
    sort: &str,
    made: Option<Endpoint>,
    typed: String,
    problem: FormError,
) -> Result<Page<Webhooks>, Failure> {
    let mut endpoints = super::beside_secret(made.is_some(), member.api().get::<Vec<Endpoint>>(WEBHOOKS, &Vec::new()).await)?;
    let headings = Headings::new(format!("{}/webhooks", member.organization.home()), sort, "");
    for endpoints in endpoints.iter_mut() {
        headings.sort(endpoints, Endpoint::key);
    }
    let (frame, may_change) = (member.frame("Webhooks", ""), member.organization.is_owner());
    let (home, behind) = (member.organization.home(), TableFooter::identity(member, "webhooks", WEBHOOKS, ""));
    Ok(Page(Webhooks { frame, headings, home, may_change, types: TYPES, endpoints, made, typed, behind, problem }))
}

async fn one(member: &Member, id: Uuid, made: Option<Endpoint>, problem: FormError) -> Result<Page<Webhook>, Failure> {
    part(member, id, &LogParameters::default(), (made, problem)).await
}

async fn part(
    member: &Member,
    id: Uuid,
    asked: &LogParameters,
    (made, problem): (Option<Endpoint>, FormError),
) -> Result<Page<Webhook>, Failure> {
    let (api, path) = (member.api(), format!("{WEBHOOKS}/{id}"));
    let log = format!("{path}/deliveries");
    let endpoint = match &made {
        Some(made) => made.clone(),
        None => api.get(&path, &Vec::new()).await?,
    };
    let deliveries = super::beside_secret(made.is_some(), api.get(&log, &asked.asked()).await)?;
    let (frame, may_change) = (member.frame("Webhooks", ""), member.organization.is_owner());
    let (home, behind) = (member.organization.home(), TableFooter::identity(member, "deliveries", &log, &asked.of_file(id)));
    let log = deliveries.map(|deliveries| asked.log(&format!("{home}/webhooks/{id}"), deliveries));
    Ok(Page(Webhook { frame, home, may_change, endpoint, made, log, behind, problem }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::webhook::delivery_log::{AttemptOutcome, DeliveryStatus};

    fn delivery(status: &str, attempt: Option<(&str, Option<u16>)>) -> Delivery {
        let attempt = attempt.map(|(outcome, status_code)| {
            json!({"at": "2026-11-01T10:00:00.000Z", "outcome": outcome, "status_code": status_code, "duration_ms": 7})
        });
        let delivery = json!({"id": Uuid::nil(), "event_type": "webhook.test", "status": status, "attempts": 1,
            "created_at": "2026-11-01T10:00:00.000Z", "next_attempt_at": null, "last_attempt": attempt});
        serde_json::from_value(delivery).unwrap()
    }

    #[test]
    fn describes_every_outcome_and_status() {
        for outcome in AttemptOutcome::ALL.map(AttemptOutcome::as_str) {
            let code = ["delivered", "bad_status"].contains(&outcome).then_some(500);
            for status in DeliveryStatus::ALL.map(DeliveryStatus::as_str) {
                let why = delivery(status, Some((outcome, code))).why();
                assert!(!why.contains('_') && why.ends_with('.') && why.len() > 12, "{status} {outcome}: {why}");
                assert!(why.contains(' ') && why.chars().next().is_some_and(char::is_uppercase), "{status} {outcome}: {why}");
                let spelt = outcome.replace('_', " ");
                assert!(!why.to_lowercase().starts_with(&format!("{spelt}.")), "{outcome} has no label: {why}");
            }
        }
    }

    #[test]
    fn delivery_sentence_names_the_result_and_next_step() {
        for (status, attempt, why) in [
            ("pending", None, "Not attempted yet."),
            ("pending", Some(("bad_status", Some(500))), "Returned 500, expected 2xx. Will be retried."),
            ("dead_letter", Some(("unreachable", None)), "Connection failed. Stopped after eight attempts."),
            ("delivered", Some(("delivered", Some(204))), "Returned 204 after 7 ms."),
            ("dropped", None, "The endpoint was disabled, or its queue was full."),
        ] {
            assert_eq!(delivery(status, attempt).why(), why);
        }
    }
}
