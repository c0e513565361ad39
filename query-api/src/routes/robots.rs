//! `GET /content-owners/robots`: fetches that robots.txt disallows (docs/api/robots.md).

mod rules;

use super::lists::{ListRequest, instant};
use crate::State;
use crate::access::visibility::Visibility;
use crate::parameters::period::Period;
use crate::parameters::{ReadParameters, invalid};
use crate::read_limiter::AdmittedReader;
use crate::reads::BotFetches;
use crate::reads::session_outcomes::wait_for_slot;
use crate::respond::page;
use axum::http::HeaderMap;
use axum::response::Response;
use chrono::{DateTime, Utc};
use futures::TryStreamExt as _;
use rules::{MAX_LINES, RobotsRules};
use schemas::paged_responses::{EVENTS_PAGE, Page};
use schemas::robots_responses::{DisallowedFetches, RobotsCompliance, RobotsFetches, RobotsFile, RobotsState};
use schemas::site::Site;
use service_kit::auth::Tenant;
use service_kit::http::{ApiError, Parameters};
use service_kit::slots::Slot;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// Maximum size of all files of one read, because their rules are in memory. A line counts for its text and [`LINE_BYTES`].
const MAX_TEXT_BYTES: usize = 32 << 20;
const LINE_BYTES: usize = 100;
/// Maximum number of bytes that one read compares.
const MAX_WORK: usize = 4 << 30;
/// Number of concurrent reads, because each occupies a thread.
pub(crate) const AT_ONCE: usize = 4;
/// Size of the URLs that are compared in one step.
const BATCH_BYTES: usize = 64 << 10;
/// Maximum number of items. Bots choose the paths, so the rest is returned as one sum.
const MAX_ITEMS: usize = 10_000;

const COLUMNS: &[&str] = &["host", "path", "bot", "operator", "purpose", "fetches", "last_fetch", "rule", "rule_line"];

pub(crate) async fn read_robots(
    axum::extract::State(state): axum::extract::State<Arc<State>>,
    reading: AdmittedReader,
    headers: HeaderMap,
    Parameters(asked): Parameters<ReadParameters>,
) -> Result<Response, ApiError> {
    asked.reject_unsupported_by_filtered(&["limit", "offset"])?;
    let asked = ListRequest::parse(&state, reading, &asked, EVENTS_PAGE).await?;
    let (seen, period, at) = (&asked.visibility, &asked.period, asked.paging);
    let slot = wait_for_slot(&state.robots, asked.tenant()).await?;
    let rows = state.outcomes.with_slot(asked.tenant(), FileRow::read(&state, seen, period)).await??;
    // The slot is released when the last step on another thread has ended, even if the client has disconnected.
    let (compared, listed, changes) = spawn_blocking(move || Compared::new(rows, slot)).await.map_err(ApiError::internal)?;
    let compared = state
        .reads(&asked.permit)
        .bot_fetches(seen, period, &asked.filter, (&changes, BATCH_BYTES), compared, Compared::with)
        .await?;
    let (counts, items) = spawn_blocking(|| compared.finish()).await.map_err(ApiError::internal)?;
    let total = items.len() as u64;
    let envelope = RobotsCompliance {
        organization_id: seen.organization_id(),
        domains: seen.domains().to_vec(),
        period_start: period.start.clone(),
        period_end: period.end.clone(),
        robots: listed,
        fetches: counts,
        page: Page { items: Vec::new(), total, limit: at.limit, offset: at.offset },
    };
    let on_page = page::in_memory(items, at);
    page::respond_with_total(asked.response_options(&headers, COLUMNS), &envelope, total, on_page, |item| item).await
}

/// The files of an owner's hosts that apply in a period.
#[derive(Default)]
struct Files {
    listed: Vec<RobotsFile>,
    /// By reversed host: when each version was first seen, in milliseconds since 1970, and its rules; oldest first.
    versions: HashMap<String, Vec<(i64, RobotsRules)>>,
}

#[derive(sqlx::FromRow)]
struct FileRow {
    site: String,
    state: Option<String>,
    checked_at: Option<DateTime<Utc>>,
    first_seen: Option<DateTime<Utc>>,
    body: Option<String>,
}

impl FileRow {
    async fn read(state: &State, seen: &Visibility, period: &Period) -> Result<Result<Vec<Self>, ApiError>, sqlx::Error> {
        let time = |ms: Option<i64>, otherwise: DateTime<Utc>| ms.and_then(DateTime::from_timestamp_millis).unwrap_or(otherwise);
        let sites: Vec<&str> = seen.own().iter().map(|own| own.site.as_str()).collect();
        let mut rows = sqlx::query_as::<_, Self>(include_str!("robots/files.sql"))
            .bind(sites)
            .bind(time(period.from_ms, DateTime::UNIX_EPOCH))
            .bind(time(period.before_ms, DateTime::from_timestamp_nanos(i64::MAX)))
            .fetch(&state.pool);
        let (mut files, mut bytes) = (Vec::new(), 0);
        while let Some(row) = rows.try_next().await? {
            bytes += row.body.as_ref().map_or(0, |body| body.len() + LINE_BYTES * body.lines().count().min(MAX_LINES));
            if bytes > MAX_TEXT_BYTES {
                return Ok(Err(invalid("The robots.txt files are too large. Choose a shorter period.")));
            }
            files.push(row);
        }
        Ok(Ok(files))
    }
}

impl Files {
    fn add(&mut self, row: FileRow) {
        let changed_at = row.first_seen.map(|at| instant(at.timestamp_millis()));
        let host = Site::from_stored(&row.site).domain();
        match self.listed.last_mut().filter(|file| file.host == host) {
            Some(file) => file.changed_at = changed_at,
            None => self.listed.push(RobotsFile {
                host,
                state: row.state.and_then(|state| state.parse().ok()).unwrap_or(RobotsState::Pending),
                checked_at: row.checked_at.map(|at| instant(at.timestamp_millis())),
                changed_at,
            }),
        }
        if let (Some(first_seen), Some(body)) = (row.first_seen, row.body) {
            let version = (first_seen.timestamp_millis(), RobotsRules::parse(&body));
            self.versions.entry(row.site).or_default().push(version);
        }
    }

    /// Returns the times at which a file changed, sorted.
    fn changes(&self) -> Vec<i64> {
        let mut changes: Vec<i64> = self.versions.values().flatten().map(|(first_seen, _)| *first_seen).collect();
        changes.sort_unstable();
        changes.dedup();
        changes
    }

    /// Returns the rules of a host at a time.
    fn rules(&self, site: &str, at_ms: i64) -> Option<&RobotsRules> {
        let versions = self.versions.get(site)?;
        versions.iter().rev().find(|(first_seen, _)| *first_seen <= at_ms).map(|(_, rules)| rules)
    }
}

/// Reversed host, path, bot and number of the line.
type FoundKey = (String, String, String, u64);

/// Fetches that a line disallows.
struct Found {
    operator: String,
    purpose: String,
    fetches: u64,
    last_ms: i64,
    rule: String,
}

/// Fetches compared with the files.
struct Compared {
    files: Files,
    changes: Vec<i64>,
    counts: RobotsFetches,
    found: BTreeMap<FoundKey, Found>,
    /// Number of bytes compared.
    work: usize,
    _slot: Option<Slot<Tenant>>,
}

impl Compared {
    /// Parses the files. Also returns their states, and the times at which a file changed.
    fn new(rows: Vec<FileRow>, slot: impl Into<Option<Slot<Tenant>>>) -> (Self, Vec<RobotsFile>, Vec<i64>) {
        let mut files = Files::default();
        rows.into_iter().for_each(|row| files.add(row));
        let (listed, changes) = (std::mem::take(&mut files.listed), files.changes());
        let (counts, found) = (RobotsFetches::default(), BTreeMap::new());
        (Self { files, changes: changes.clone(), counts, found, work: 0, _slot: slot.into() }, listed, changes)
    }

    /// Compares some more fetches. Returns 400 if the files and the URLs need too much work.
    fn with(mut self, rows: Vec<BotFetches>) -> Result<Self, ApiError> {
        for row in rows {
            self.add(row);
            if self.work > MAX_WORK {
                return Err(invalid("The robots.txt files and the URLs are too many to compare. Choose a shorter period."));
            }
        }
        Ok(self)
    }

    fn add(&mut self, row: BotFetches) {
        let began = row.interval.checked_sub(1).and_then(|at| self.changes.get(usize::try_from(at).ok()?));
        let Some(rules) = began.and_then(|began| self.files.rules(&row.host, *began)) else {
            self.counts.unknown += row.fetches;
            return;
        };
        let Some(line) = rules.disallowing(&row.bot_name, &row.target, &mut self.work) else {
            self.counts.allowed += row.fetches;
            return;
        };
        self.counts.disallowed += row.fetches;
        let path = row.target.split('?').next().unwrap_or_default().to_owned();
        let key = (row.host, path, row.bot_name, line.number);
        let found = self.found.entry(key).or_insert_with(|| Found {
            operator: row.operator_name,
            purpose: row.purpose_name,
            fetches: 0,
            last_ms: row.last_ms,
            rule: line.text.clone(),
        });
        found.fetches += row.fetches;
        found.last_ms = found.last_ms.max(row.last_ms);
        if self.found.len() > 2 * MAX_ITEMS {
            self.truncate();
        }
    }

    /// Keeps the items with the most fetches, and counts the others.
    fn truncate(&mut self) {
        let mut items: Vec<_> = std::mem::take(&mut self.found).into_iter().collect();
        items.sort_by_key(|(_, found)| Reverse(found.fetches));
        let others = items.drain(items.len().min(MAX_ITEMS)..);
        self.counts.other_disallowed += others.map(|(_, found)| found.fetches).sum::<u64>();
        self.found = items.into_iter().collect();
    }

    /// Returns the counts, and the items with the most fetches first.
    fn finish(mut self) -> (RobotsFetches, Vec<DisallowedFetches>) {
        self.truncate();
        let item = |((site, path, bot, rule_line), found): (FoundKey, Found)| DisallowedFetches {
            host: Site::from_stored(&site).domain(),
            path,
            bot,
            operator: found.operator,
            purpose: found.purpose,
            fetches: found.fetches,
            last_fetch: instant(found.last_ms),
            rule: found.rule,
            rule_line,
        };
        let mut items: Vec<_> = self.found.into_iter().map(item).collect();
        items.sort_by_key(|item| Reverse(item.fetches));
        (self.counts, items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(target: &str, interval: u64, fetches: u64) -> BotFetches {
        let [host, bot_name, operator_name, purpose_name] = ["com.example", "GPTBot", "OpenAI", "training"].map(str::to_owned);
        BotFetches { host, target: target.to_owned(), bot_name, operator_name, purpose_name, interval, fetches, last_ms: 0 }
    }

    fn file(first_seen: i64, body: &str) -> FileRow {
        FileRow {
            site: "com.example".to_owned(),
            state: Some("found".to_owned()),
            checked_at: None,
            first_seen: DateTime::from_timestamp_millis(first_seen),
            body: Some(body.to_owned()),
        }
    }

    /// Uses the version at the time of the fetch.
    #[test]
    fn fetches_are_compared_with_the_version_of_their_time() {
        let versions = [(1_000, "User-agent: *\nDisallow: /a"), (2_000, "User-agent: *\nDisallow: /b")];
        let (compared, listed, changes) = Compared::new(versions.map(|(first_seen, body)| file(first_seen, body)).into(), None);
        assert_eq!((listed.len(), changes.as_slice()), (1, [1_000, 2_000].as_slice()));
        let rows = [row("/a", 0, 1), row("/a", 1, 10), row("/a?x=1", 1, 5), row("/a", 2, 100), row("/b/c", 2, 1_000)];
        let compared = compared.with(rows.into()).ok().unwrap();
        let (counts, items) = compared.finish();
        assert_eq!(counts, RobotsFetches { allowed: 100, disallowed: 1_015, unknown: 1, other_disallowed: 0 });
        let items: Vec<_> =
            items.iter().map(|item| (item.path.as_str(), item.fetches, item.rule.as_str(), item.rule_line)).collect();
        assert_eq!(items, [("/b/c", 1_000, "Disallow: /b", 2), ("/a", 15, "Disallow: /a", 2)]);
    }

    #[test]
    fn stops_comparing_after_too_much_work() {
        let body: String = (0..9_000).map(|number| format!("Disallow: /*{number}a\n")).collect();
        let (mut compared, ..) = Compared::new(vec![file(1_000, &format!("User-agent: *\n{body}"))], None);
        let long = format!("/{}", "0".repeat(8_000));
        compared.work = MAX_WORK - 100_000_000;
        let compared = compared.with(vec![row(&long, 1, 1)]).ok().unwrap();
        assert!(compared.work > MAX_WORK - 50_000_000, "{}", compared.work);
        assert!(compared.with(vec![row(&long, 1, 1)]).is_err());
    }
}
