//! Statements: closing months, and what each statement contains.

use super::{FormError, TableFooter, members, pasted_call};
use crate::State;
use crate::failure::Failure;
use crate::forms::Form;
use crate::layout::{Layout, Page};
use crate::numbers::{Count, Time};
use crate::session::Member;
use askama::Template;
use axum::body::Body;
use axum::extract::{Path, State as Shared};
use axum::http::{Method, header};
use axum::response::{IntoResponse, Redirect, Response};
use chrono::{DateTime, Datelike, Months, Utc};
use futures::stream;
use schemas::bots::BotTable;
use schemas::statement_responses::STATEMENT_NOTE;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use uuid::Uuid;

const STATEMENTS: &str = "/content-owners/statements";
/// Months that can be chosen.
const MONTHS: u32 = 24;
/// Lines and changes that a page shows; the files contain all.
const SHOWN: usize = 100;
const FILES: [(&str, &str, &str); 5] = [
    ("json", "JSON (signed)", "application/json"),
    ("csv", "CSV", "text/csv"),
    ("xlsx", "XLSX", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("counter", "COUNTER", "text/csv"),
    ("evidence", "Evidence", "application/x-ndjson"),
];

#[derive(Template)]
#[template(path = "statements.html")]
pub(crate) struct Statements {
    frame: Layout,
    home: String,
    may_close: bool,
    /// The organization's owners, if the reader isn't one.
    owners: String,
    months: Vec<String>,
    operators: BTreeSet<String>,
    items: Vec<Item>,
    note: &'static str,
    behind: TableFooter,
    problem: FormError,
}

#[derive(Deserialize)]
struct List {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    id: Uuid,
    period: String,
    operator: Option<String>,
    by: String,
    revision: u64,
    closed: Time,
    reports: Count,
    late_reports: Count,
}

#[derive(Template)]
#[template(path = "statement.html")]
pub(crate) struct OneStatement {
    frame: Layout,
    home: String,
    id: Uuid,
    statement: Document,
    files: [(&'static str, &'static str, &'static str); 5],
    call: String,
    note: &'static str,
}

/// `GET /content-owners/statements/{id}`
#[derive(Deserialize)]
struct Document {
    by: String,
    closed: Time,
    corrections: Option<Corrections>,
    evidence: Evidence,
    hosts: Vec<String>,
    lines: Vec<Line>,
    number: u64,
    operator: Option<String>,
    owner: Owner,
    period: String,
    revision: u64,
    totals: Totals,
}

#[derive(Deserialize)]
struct Corrections {
    changes: Vec<Change>,
    late_reports: Count,
    other_reports: i64,
}

#[derive(Deserialize)]
struct Change {
    content: String,
    figure: String,
    license: String,
    before: Count,
    after: Count,
}

#[derive(Deserialize)]
struct Evidence {
    reports: Count,
    sha256: String,
}

#[derive(Deserialize)]
struct Owner {
    name: String,
}

#[derive(Deserialize)]
struct Line {
    content: String,
    license: String,
    events: BTreeMap<String, Tiers>,
    sessions: Count,
}

#[derive(Deserialize)]
struct Totals {
    events: BTreeMap<String, Tiers>,
    sessions: Count,
    covered_hours: Count,
    hours: Count,
}

#[derive(Clone, Copy, Deserialize)]
struct Tiers {
    claimed: Count,
    corroborated: Count,
    observed: Count,
    unknown: Count,
    signed: Count,
}

impl Item {
    fn operator(&self) -> &str {
        self.operator.as_deref().unwrap_or("All operators")
    }
}

impl Document {
    fn operator(&self) -> &str {
        self.operator.as_deref().unwrap_or("All operators")
    }

    /// Returns content, license, label of the measure, figures and sessions of the first rows.
    fn rows(&self) -> Vec<(String, String, String, Tiers, Count)> {
        let all = self.lines.iter().flat_map(|line| line.events.iter().map(move |event| (line, event)));
        let row = |(line, (name, tiers)): (&'_ Line, (&'_ String, &'_ Tiers))| {
            (line.content.clone(), line.license.clone(), measure_label(name), *tiers, line.sessions)
        };
        all.take(SHOWN).map(row).collect()
    }

    fn is_shortened(&self) -> bool {
        self.lines.iter().map(|line| line.events.len()).sum::<usize>() > SHOWN
    }
}

impl Corrections {
    fn shown(&self) -> &[Change] {
        &self.changes[..self.changes.len().min(SHOWN)]
    }
}

/// `GET /console/o/{organization}/statements`
pub(crate) async fn list(Shared(state): Shared<Arc<State>>, member: Member) -> Result<Page<Statements>, Failure> {
    view(&state, &member, None).await
}

/// Handles `POST /console/o/{organization}/statements`: closes a month.
pub(crate) async fn close(Shared(state): Shared<Arc<State>>, member: Member, form: Form) -> Result<Response, Failure> {
    let operator = Some(form.text("operator")).filter(|name| !name.is_empty());
    let by = if form.text("by") == "section" { "section" } else { "url" };
    let month = json!({"period": form.text("period"), "operator": operator, "by": by});
    match member.api().change::<Value>(Method::POST, STATEMENTS, &month).await {
        Ok(closed) => {
            let id = closed["id"].as_str().and_then(|id| id.parse::<Uuid>().ok()).ok_or(Failure::NotFound)?;
            Ok(Redirect::to(&format!("{}/statements/{id}", member.organization.home())).into_response())
        }
        Err(failure) => Ok(view(&state, &member, Some(failure.refusal()?)).await?.into_response()),
    }
}

async fn view(state: &State, member: &Member, problem: FormError) -> Result<Page<Statements>, Failure> {
    if !member.is_owner_of_content() {
        return Err(Failure::NotFound);
    }
    let api = member.api();
    let none = Vec::new();
    let (found, owners) = tokio::try_join!(api.get::<List>(STATEMENTS, &none), members::owners(member))?;
    Ok(Page(Statements {
        frame: member.frame("Statements", ""),
        home: member.organization.home(),
        may_close: member.organization.is_owner(),
        owners,
        months: months(state.clock.now()),
        operators: BotTable::bundled().bots().map(|(_, operator, _)| operator.to_owned()).collect(),
        items: found.items,
        note: STATEMENT_NOTE,
        behind: TableFooter::new(state, member, "statements", STATEMENTS, &none),
        problem,
    }))
}

/// Returns the months that have ended, latest first.
fn months(now: DateTime<Utc>) -> Vec<String> {
    let first = now.date_naive().with_day(1).unwrap_or_default();
    (1..=MONTHS).filter_map(|ago| first.checked_sub_months(Months::new(ago))).map(|day| day.format("%Y-%m").to_string()).collect()
}

/// `GET /console/o/{organization}/statements/{id}`
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Path(named): Path<HashMap<String, String>>,
) -> Result<Page<OneStatement>, Failure> {
    let id = id(&named)?;
    let path = format!("{STATEMENTS}/{id}");
    let statement = member.api().get(&path, &Vec::new()).await?;
    let (frame, home) = (member.frame("Statements", ""), member.organization.home());
    let call = pasted_call(state.public_base(), &path, "X-API-Key: $KEY");
    Ok(Page(OneStatement { frame, home, id, statement, files: FILES, call, note: STATEMENT_NOTE }))
}

/// `GET /console/o/{organization}/statements/{id}/export/{file}`: a download, as the API returns it.
pub(crate) async fn download(member: Member, Path(named): Path<HashMap<String, String>>) -> Result<Response, Failure> {
    let (id, file) = (id(&named)?, named.get("file").map(String::as_str).unwrap_or_default());
    let (name, _, media) = FILES.into_iter().find(|(name, ..)| *name == file).ok_or(Failure::NotFound)?;
    let response = match name {
        "evidence" => member.api().text(&format!("{STATEMENTS}/{id}/evidence"), &Vec::new(), media).await?,
        format => member.api().text(&format!("{STATEMENTS}/{id}"), &vec![("format", format.to_owned())], media).await?,
    };
    let named = response.headers().get(header::CONTENT_DISPOSITION).cloned();
    let headers = [(header::CONTENT_TYPE, media)];
    let pieces = stream::try_unfold(response, |mut response| async move {
        Ok::<_, reqwest::Error>(response.chunk().await?.map(|piece| (piece, response)))
    });
    let mut download = (headers, Body::from_stream(pieces)).into_response();
    download.headers_mut().extend(named.map(|named| (header::CONTENT_DISPOSITION, named)));
    Ok(download)
}

fn id(named: &HashMap<String, String>) -> Result<Uuid, Failure> {
    named.get("id").and_then(|id| id.parse().ok()).ok_or(Failure::NotFound)
}

/// Returns the label of a measure.
pub(crate) fn measure_label(measure: &str) -> String {
    match measure {
        "fetch" => "Fetches",
        "failed_fetch" => "Failed fetches",
        "revalidation" => "Revalidations",
        "grounding" => "Groundings",
        "citation" => "Citations",
        "presentation" => "Presentations",
        "engagement" => "Engagements",
        "visit" => "Visits",
        other => other,
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_end_before_the_current_one() {
        let of = |now: &str| months(now.parse().unwrap());
        assert_eq!(of("2026-01-31T23:59:59Z")[..2], ["2025-12", "2025-11"]);
        assert_eq!(of("2026-03-31T00:00:00Z")[0], "2026-02");
        assert_eq!(of("2026-03-01T00:00:00Z").len(), 24);
    }
}
