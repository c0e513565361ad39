//! CSV and JSON Lines downloads of lists, streamed page by page.

mod lists;

use crate::State;
use crate::api::{Parameters, SessionClient};
use crate::failure::Failure;
use crate::query::Query;
use crate::screens::reports::BY_OTHERS;
use crate::session::{Member, SignedIn};
use crate::window::{PeriodParameters, Window};
use axum::body::{Body, Bytes};
use axum::extract::{Path, State as Shared};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt, stream};
use lists::{File, FileParameters};
use service_kit::http::csv::{self, Totals};
use std::collections::HashMap;
use std::sync::Arc;

/// The API's maximum page size.
const PAGE: u64 = 1_000;

/// Name in the address, API path, and fixed parameters.
type List = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const LISTS: [List; 11] = [
    ("events", "/content-owners/events", &[]),
    ("pages", "/content-owners/urls", &[]),
    ("corroboration", "/content-owners/corroboration", &[]),
    ("reconciliation", "/content-owners/reconciliation", &[]),
    ("funnel", "/content-owners/funnel", &[]),
    ("crawlers", "/content-owners/crawlers", &[]),
    ("robots", "/content-owners/robots", &[]),
    ("series", "/content-owners/series", &[]),
    ("own-events", "/agent/events", &[]),
    ("own-series", "/agent/series", &[]),
    ("clicks", "/agent/events", &[BY_OTHERS]),
];

/// Columns that add up, for the last line of a CSV file.
const SUMMED: &[&str] = &[
    "total_events",
    "retrieved",
    "fetched",
    "failed",
    "revalidated",
    "grounded",
    "cited",
    "presented",
    "engaged",
    "engagements",
    "visits",
    "retrievals",
    "bytes",
    "corroborated",
    "seen_by_both",
    "claimed_by_agent_only",
    "seen_by_server_only",
    "seen_by_neither",
];
/// A CSV file with a byte order mark, without which some spreadsheets misread letters.
const CSV_WITH_MARK: &str = "text/csv; bom=1";

/// Position in a list that is being exported.
struct Progress {
    api: SessionClient,
    path: &'static str,
    parameters: Parameters,
    next: Option<Next>,
    /// Totals of a CSV file, until its last line is written.
    totals: Option<Totals<'static>>,
}

enum Next {
    First,
    Offset(u64),
    After(String),
}

/// Handles `GET /console/o/{organization}/export/{file}`, where `file` is a list and a format, such as `events.csv`.
pub(crate) async fn serve(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Path(named): Path<HashMap<String, String>>,
    Query(asked): Query<PeriodParameters>,
    Query(of_file): Query<FileParameters>,
) -> Result<Response, Failure> {
    let (list, format, media) = format_of(&named)?;
    let window = || Window::new(&asked, state.clock.now());
    let owner = &member.organization.name;
    if let Some(file) = File::new(&member, (list, format == "csv"), &of_file, window)? {
        let period = file.period.clone().unwrap_or_else(|| state.clock.now().date_naive().to_string());
        return respond(file, (&file_name(owner, list, &period, format), media)).await;
    }
    let (_, path, narrowed) = LISTS.into_iter().find(|(name, ..)| *name == list).ok_or(Failure::NotFound)?;
    let window = window()?;
    let split = [("by", asked.by.as_str()), ("split", &asked.split), ("sort", &asked.sort), ("finding", &asked.finding)];
    let parameters = window.parameters_and(&[&split[..], &asked.narrowing(), narrowed].concat());
    let mut progress = Progress {
        api: member.api(),
        path,
        parameters,
        next: Some(Next::First),
        totals: (format == "csv").then(|| Totals::new(SUMMED)),
    };
    // An error on the first page is shown as a page. An error on a later page aborts the download.
    let first = progress.page(media).await?.unwrap_or_default();
    let rest = stream::try_unfold(progress, move |mut progress| async move {
        let page = progress.page(media).await.map_err(|failure| std::io::Error::other(format!("{failure:?}")))?;
        Ok::<_, std::io::Error>(page.map(|page| (page, progress)))
    });
    let name = file_name(owner, &table_name(list, &asked), &window.days_named(), format);
    Ok(attachment(&name, media, "", first, rest))
}

/// Returns a table's name. Lists shown in several tables are named by their grouping.
fn table_name(list: &str, asked: &PeriodParameters) -> String {
    let grouped = [&asked.split, &asked.by].into_iter().find(|by| !["", "hour", "none"].contains(&by.as_str()));
    let by = grouped.filter(|by| list != "series" || *by != "day").map(|by| format!("-by-{by}")).unwrap_or_default();
    match list {
        "series" if asked.outcome.is_empty() => format!("events{by}-over-time"),
        "series" => format!("fetches{by}-over-time"),
        "own-series" => format!("own-events{by}-over-time"),
        list => format!("{list}{by}"),
    }
}

/// Returns a file's name: owner, table and period, with only letters, digits and hyphens.
fn file_name(owner: &str, table: &str, period: &str, format: &str) -> String {
    let text = format!("{owner} {table} {period}").to_lowercase();
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    format!("{}.{format}", words.collect::<Vec<_>>().join("-"))
}

/// Returns a download that starts with `first`.
fn attachment<T: Into<Bytes> + Send + 'static>(
    name: &str,
    media: &'static str,
    mark: &'static str,
    first: T,
    rest: impl Stream<Item = std::io::Result<T>> + Send + 'static,
) -> Response {
    let parts = stream::iter([Ok(Bytes::from_static(mark.as_bytes())), Ok(first.into())]);
    let body = Body::from_stream(parts.chain(rest.map(|part| part.map(Into::into))));
    let named = format!("attachment; filename=\"{name}\"");
    let media = if media == "text/csv" { "text/csv; charset=utf-8" } else { media };
    ([(header::CONTENT_TYPE, media.to_owned()), (header::CONTENT_DISPOSITION, named)], body).into_response()
}

/// `GET /console/operator/export/{file}`
pub(crate) async fn serve_operator(
    Shared(state): Shared<Arc<State>>,
    person: SignedIn,
    Path(named): Path<HashMap<String, String>>,
    Query(of_file): Query<FileParameters>,
) -> Result<Response, Failure> {
    let (list, format, media) = format_of(&named)?;
    let file = File::of_operators(&person, list, format == "csv", &of_file).ok_or(Failure::NotFound)?;
    let today = state.clock.now().date_naive().to_string();
    respond(file, (&file_name("all", list, &today, format), media)).await
}

/// `GET /console/export/{file}`
pub(crate) async fn serve_person(
    Shared(state): Shared<Arc<State>>,
    person: SignedIn,
    Path(named): Path<HashMap<String, String>>,
) -> Result<Response, Failure> {
    let (list, format, media) = format_of(&named)?;
    let file = File::of_person(&person, list, format == "csv").ok_or(Failure::NotFound)?;
    let today = state.clock.now().date_naive().to_string();
    respond(file, (&file_name("own", list, &today, format), media)).await
}

/// Returns the list and format in an address, and the format's media type.
fn format_of(named: &HashMap<String, String>) -> Result<(&str, &str, &'static str), Failure> {
    let file = named.get("file").map(String::as_str).unwrap_or_default();
    let (list, format) = file.split_once('.').ok_or(Failure::NotFound)?;
    match format {
        "csv" => Ok((list, format, "text/csv")),
        "ndjson" => Ok((list, format, "application/x-ndjson")),
        _ => Err(Failure::NotFound),
    }
}

/// Exports a list that the API returns only as JSON.
async fn respond(mut file: File, (name, media): (&str, &'static str)) -> Result<Response, Failure> {
    let first = file.next().await?.unwrap_or_default();
    let rest = stream::try_unfold(file, |mut file| async move {
        let part = file.next().await.map_err(|failure| std::io::Error::other(format!("{failure:?}")))?;
        Ok::<_, std::io::Error>(part.map(|part| (part, file)))
    });
    let mark = if media == "text/csv" { csv::BYTE_ORDER_MARK } else { "" };
    Ok(attachment(name, media, mark, first, rest))
}

impl Progress {
    /// Returns the next page, with the CSV header only on the first.
    async fn page(&mut self, media: &str) -> Result<Option<Bytes>, Failure> {
        let Some(next) = self.next.take() else {
            return Ok(self.totals.take().and_then(|totals| totals.line()).map(Bytes::from));
        };
        let is_first = matches!(next, Next::First);
        let asked = if is_first && media == "text/csv" { CSV_WITH_MARK } else { media };
        let mut parameters = self.parameters.clone();
        let is_whole = self.path.ends_with("/series");
        if !is_whole {
            parameters.push(("limit", PAGE.to_string()));
        }
        match &next {
            Next::First => {}
            Next::Offset(offset) => parameters.push(("offset", offset.to_string())),
            Next::After(after) => parameters.push(("after", after.clone())),
        }
        let response = self.api.text(self.path, &parameters, asked).await?;
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let told = match &next {
            Next::Offset(offset) => offset + PAGE,
            Next::First | Next::After(_) => PAGE,
        };
        let total = header("x-total-count").and_then(|total| total.parse::<u64>().ok()).unwrap_or_default();
        self.next = match header("x-next-after") {
            _ if is_whole => None,
            Some(after) => Some(Next::After(after)),
            None if self.path.ends_with("/events") => None,
            None => (told < total).then_some(Next::Offset(told)),
        };
        let page = response.bytes().await.map_err(|error| Failure::away(error.without_url()))?;
        let page = if is_first || media != "text/csv" { page } else { without_names(&page) };
        if let Some(totals) = &mut self.totals {
            totals.add(&page);
        }
        Ok(Some(page))
    }
}

fn without_names(page: &Bytes) -> Bytes {
    let end = page.iter().position(|byte| *byte == b'\n').map_or(page.len(), |at| at + 1);
    page.slice(end..)
}
