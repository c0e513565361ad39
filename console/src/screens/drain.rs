//! One drain: setup, received lines, the last 48 hours, key rotation and deletion.

use super::{FormError, TableFooter};
use crate::State;
use crate::coverage::Coverage;
use crate::failure::Failure;
use crate::forms::Form;
use crate::labels;
use crate::layout::{Layout, Page};
use crate::numbers::{Bytes, Count, Millis, Time, grouped};
use crate::platforms::{self, Block, Platform};
use crate::query::{Query, mail};
use crate::session::Member;
use askama::Template;
use axum::extract::{Path, State as Shared};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

pub(super) const DRAINS: &str = "/api/v1/identity/drains";

#[derive(Clone, Deserialize)]
pub(crate) struct Drain {
    pub(crate) id: Uuid,
    pub(crate) name: String,
    pub(crate) provider: String,
    pub(crate) hosts: Vec<String>,
    pub(crate) role: String,
    pub(crate) created_at: Time,
    /// Present only in the response that creates a key.
    #[serde(default)]
    pub(crate) key: String,
}

#[derive(Default, Deserialize)]
struct Health {
    last_batch_at: Option<Time>,
    #[serde(flatten)]
    figures: Figures,
    bad_lines: Vec<BadLine>,
    hours: Vec<Hour>,
}

#[derive(Default, Deserialize)]
struct Figures {
    lines: Count,
    kept: Count,
    people: Count,
    bad: Count,
    bytes: Bytes,
    dropped: Vec<Dropped>,
    /// Requests that returned no content.
    refused: Count,
    lag_ms: Option<Millis>,
}

/// `drains` in `GET /content-owners/coverage`.
#[derive(Deserialize)]
struct Correlated {
    drains: Vec<DrainLines>,
}

#[derive(Deserialize)]
struct DrainLines {
    drain_id: Uuid,
    lines_with_id: Count,
    joined: Count,
    reused_ids: Count,
}

#[derive(Deserialize)]
struct Dropped {
    reason: String,
    count: Count,
}

#[derive(Deserialize)]
struct BadLine {
    reason: String,
    excerpt: String,
    seen_at: Time,
}

/// Missing figures mean that no lines arrived.
#[derive(Deserialize)]
struct Hour {
    hour: DateTime<Utc>,
    coverage: bool,
    #[serde(flatten)]
    figures: Option<Figures>,
}

impl Drain {
    pub(super) fn provider_label(&self) -> &str {
        labels::provider(&self.provider)
    }

    fn reporter(&self) -> &str {
        super::reporter(&self.role)
    }
}

impl Dropped {
    /// Returns the reason as text.
    fn describe(&self) -> String {
        match self.reason.as_str() {
            "method" => "not GET or HEAD".to_owned(),
            "subrequest" => "made by the CDN itself".to_owned(),
            "cdn" => "with a CDN\u{2019}s user agent instead of the visitor\u{2019}s".to_owned(),
            "other_host" => "for a host this drain doesn\u{2019}t cover".to_owned(),
            "asset" => "styles, scripts, images and other assets".to_owned(),
            "no_request" => "not a request".to_owned(),
            other => other.replace('_', " "),
        }
    }
}

impl BadLine {
    /// Returns why the line is unreadable.
    fn describe(&self) -> &str {
        match self.reason.as_str() {
            "not_json" => "Not a JSON object",
            "not_an_event" => "Not a log event",
            "not_a_record" => "Not a Firehose record",
            "not_combined" => "Not in a known text format",
            "too_few_fields" => "Too few fields",
            "too_many_fields" => "Too many fields",
            "repeated_member" => "A field occurs twice",
            "too_long" => "Line too long",
            "no_time" => "No time",
            "bad_time" => "Invalid time",
            "no_user_agent" => "No user agent",
            "no_method" => "No method",
            "no_host" => "No host",
            "bad_host" => "Invalid host",
            "no_path" => "No path",
            "no_status" => "No status code",
            "bad_status" => "Invalid status code",
            "wrong_columns" => "Columns don\u{2019}t match the format",
            "no_columns" => "No #Fields line precedes it",
            "bad_url" => "Invalid URL",
            "bad_text" => "Invalid text",
            other => other,
        }
    }
}

impl Figures {
    fn dropped_in_all(&self) -> Count {
        Count(self.dropped.iter().map(|dropped| dropped.count.0).sum())
    }
}

impl Hour {
    fn start(&self) -> Time {
        Time(self.hour)
    }
}

/// A key that was just created.
pub(crate) struct NewDrainKey {
    /// The drain, with its key.
    pub(crate) drain: Drain,
    /// Whether the key replaces another one.
    pub(crate) is_another: bool,
}

#[derive(Template)]
#[template(path = "drain.html")]
pub(crate) struct DrainPage {
    frame: Layout,
    home: String,
    may_change: bool,
    is_owner_of_content: bool,
    drain: Drain,
    /// Platforms that use this provider.
    platforms: Vec<&'static Platform>,
    platform: &'static Platform,
    /// Steps for an engineer, without a key.
    steps: String,
    blocks: Vec<Block>,
    made: Option<NewDrainKey>,
    arrival: DrainActivity,
    problem: FormError,
}

impl DrainPage {
    /// Returns a link that emails the steps to an engineer.
    fn mail(&self) -> String {
        mail(&format!("Send the access log of {} to Content Telemetry", self.platform.label), &self.steps)
    }
}

/// Received lines, a part of the page that refreshes.
#[derive(Template)]
#[template(path = "parts/drain_lines.html")]
pub(crate) struct DrainActivity {
    here: String,
    last_batch_at: Option<Time>,
    figures: Figures,
    bad_lines: Vec<BadLine>,
    /// Lines with a correlation ID; `None` if there are none. Only content owners can read them.
    correlated: Option<DrainLines>,
    coverage: Coverage,
    /// Newest first.
    hours: Vec<Hour>,
    behind: TableFooter,
}

impl askama::filters::HtmlSafe for DrainActivity {}

impl DrainActivity {
    /// Refresh interval. Short until the first line arrives.
    fn pause(&self) -> &'static str {
        if self.last_batch_at.is_none() { "2s" } else { "10s" }
    }

    /// Returns a summary of the lines.
    fn describe(&self) -> String {
        let Figures { lines, kept, people, .. } = &self.figures;
        if lines.0 == 0 {
            return "No lines in the last 48 hours".to_owned();
        }
        let counted = |count: &Count, one: &str| format!("{} {one}{}", grouped(count.0), if count.0 == 1 { "" } else { "s" });
        let requests = [counted(kept, "AI request"), counted(people, "human request")];
        format!("{}: {}", counted(lines, "line"), requests.join(", "))
    }
}

#[derive(Deserialize)]
pub(crate) struct PlatformParameters {
    #[serde(default)]
    with: String,
}

/// `GET /console/o/{organization}/drains/{id}`
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Path(named): Path<HashMap<String, String>>,
    Query(PlatformParameters { with }): Query<PlatformParameters>,
) -> Result<Page<DrainPage>, Failure> {
    view(&state, &member, id(&named)?, platforms::named(&with), None, None).await
}

/// Handles `GET /console/o/{organization}/drains/{id}/lines`. Returns 204 until a line has arrived.
pub(crate) async fn lines(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Path(named): Path<HashMap<String, String>>,
) -> Result<Response, Failure> {
    let id = id(&named)?;
    let health = health(&member, id).await?;
    if health.last_batch_at.is_none() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let correlated = correlated(&state, &member, id).await;
    Ok(Page(DrainActivity::new(&member, id, health, correlated)).into_response())
}

/// `POST /console/o/{organization}/drains/{id}/rotate`
pub(crate) async fn rotate(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Path(named): Path<HashMap<String, String>>,
    form: Form,
) -> Result<Response, Failure> {
    let (id, chosen) = (id(&named)?, platforms::named(&form.text("with")));
    match form.once.submit(&member.api(), &format!("{DRAINS}/{id}/rotate"), &json!({})).await {
        Ok((drain, sent)) => {
            let new = NewDrainKey { drain, is_another: true };
            Ok((sent, view(&state, &member, id, chosen, Some(new), None).await?).into_response())
        }
        Err(failure) => Ok(view(&state, &member, id, chosen, None, Some(failure.refusal()?)).await?.into_response()),
    }
}

/// `POST /console/o/{organization}/drains/{id}/delete`
pub(crate) async fn delete(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Path(named): Path<HashMap<String, String>>,
) -> Result<Response, Failure> {
    let id = id(&named)?;
    match member.api().send(Method::DELETE, &format!("{DRAINS}/{id}"), None).await {
        Ok(_) => Ok(Redirect::to(&format!("{}/drains", member.organization.home())).into_response()),
        Err(failure) => Ok(view(&state, &member, id, None, None, Some(failure.refusal()?)).await?.into_response()),
    }
}

/// Returns a drain's page with the chosen platform's instructions.
pub(super) async fn view(
    state: &State,
    member: &Member,
    id: Uuid,
    chosen: Option<&'static Platform>,
    made: Option<NewDrainKey>,
    problem: FormError,
) -> Result<Page<DrainPage>, Failure> {
    let drain = match &made {
        Some(made) => made.drain.clone(),
        None => member.api().get(&format!("{DRAINS}/{id}"), &Vec::new()).await?,
    };
    let health = super::beside_secret(made.is_some(), health(member, id).await)?.unwrap_or_default();
    let correlated = correlated(state, member, id).await;
    let arrival = DrainActivity::new(member, id, health, correlated);
    let platforms = platforms::of_provider(&drain.provider);
    let chosen = chosen.filter(|chosen| chosen.provider == drain.provider);
    let platform = chosen.or(platforms.first().copied()).ok_or_else(|| unknown(&drain.provider))?;
    Ok(Page(DrainPage {
        frame: member.frame("Log drains", "").live(),
        home: member.organization.home(),
        may_change: member.organization.is_owner(),
        is_owner_of_content: member.is_owner_of_content(),
        steps: platform.steps(state.public_base()),
        blocks: platform.blocks(state.public_base(), made.as_ref().map(|made| made.drain.key.as_str())),
        drain,
        platforms,
        platform,
        made,
        arrival,
        problem,
    }))
}

async fn health(member: &Member, id: Uuid) -> Result<Health, Failure> {
    member.api().get(&format!("{DRAINS}/{id}/health"), &Vec::new()).await
}

/// Returns `None` for platforms, for drains without such lines, and while figures are unavailable, because the page works without them.
async fn correlated(state: &State, member: &Member, id: Uuid) -> Option<DrainLines> {
    if !member.is_owner_of_content() {
        return None;
    }
    let since = state.clock.now() - TimeDelta::hours(schemas::identity::HEALTH_HOURS);
    let period = vec![("since", schemas::instant::text(since))];
    let found: Correlated = member.api().get("/content-owners/coverage", &period).await.ok()?;
    found.drains.into_iter().find(|drain| drain.drain_id == id)
}

impl DrainActivity {
    fn new(member: &Member, id: Uuid, health: Health, correlated: Option<DrainLines>) -> Self {
        let here = format!("{}/drains/{id}", member.organization.home());
        let Health { last_batch_at, figures, bad_lines, mut hours } = health;
        let coverage = Coverage::of_hours(hours.iter().map(|hour| (hour.hour, hour.coverage)));
        hours.reverse();
        let behind = TableFooter::identity(member, "drain-hours", &format!("{DRAINS}/{id}/health"), &format!("drain={id}"));
        Self { here, last_batch_at, figures, bad_lines, correlated, coverage, hours, behind }
    }
}

fn unknown(provider: &str) -> Failure {
    Failure::away(anyhow::anyhow!("no platform for drain provider {provider}"))
}

fn id(named: &HashMap<String, String>) -> Result<Uuid, Failure> {
    named.get("id").and_then(|id| id.parse().ok()).ok_or(Failure::NotFound)
}
