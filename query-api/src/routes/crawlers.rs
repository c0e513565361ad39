//! `GET /content-owners/crawlers`: who fetched, how it was answered, and how many came back
//! (docs/api/reads.md#get-content-ownerscrawlers).
//!
//! Must not compute figures that the stores did not, but for adding up clicks by operator and dividing what is told beside it.

use super::coverage::{coverage, refused};
use super::lists::{ListParameters, ListRequest};
use crate::State;
use crate::read_limiter::AdmittedReader;
use crate::read_model::CrawlerRow;
use crate::respond::page;
use axum::http::HeaderMap;
use axum::response::Response;
use schemas::bots::BotTable;
use schemas::crawler_reads::{CrawlerItem, Crawlers, RefusedCount, StatusCount};
use schemas::pages::{EVENTS_PAGE, Page};
use service_kit::http::{ApiError, Parameters};
use std::collections::BTreeMap;
use std::sync::Arc;

const COLUMNS: &[&str] = &[
    "operator",
    "bot",
    "purpose",
    "verified",
    "retrievals",
    "bytes",
    "statuses",
    "corroborated",
    "corroborated_share",
    "refused",
    "operator_clicks",
    "retrievals_per_click",
];

/// `GET /content-owners/crawlers`.
pub(crate) async fn read_crawlers(
    axum::extract::State(state): axum::extract::State<Arc<State>>,
    reading: AdmittedReader,
    headers: HeaderMap,
    Parameters(asked): Parameters<ListParameters>,
) -> Result<Response, ApiError> {
    // Drains count what was refused by the hour, and not by host.
    let is_narrowed = asked.view.domain.is_some();
    let asked = ListRequest::unsplit(&state, reading, asked, EVENTS_PAGE).await?;
    let (seen, period, at) = (&asked.visibility, &asked.period, asked.paging);
    let refused = if is_narrowed { None } else { Some(refused(&state, seen, period).await?) };
    let coverage = coverage(&state, seen, period).await?;
    let mut clicks = Clicks { bots: Arc::clone(&state.bots), of: BTreeMap::new(), of_nobody: 0 };
    let found = state.telemetry.crawlers(seen, period, at, |agent, count| clicks.add(agent, count)).await?;
    let beside = Beside { clicks: clicks.of, refused: refused.as_deref().map(by_bot) };
    let envelope = Crawlers {
        organization_id: seen.organization_id(),
        domains: seen.domains().to_vec(),
        period_start: period.start.clone(),
        period_end: period.end.clone(),
        unattributed_clicks: clicks.of_nobody,
        refused,
        coverage,
        page: Page { items: Vec::new(), total: found.total, limit: at.limit, offset: at.offset },
    };
    page::answer_within(asked.answering(&headers, COLUMNS), &envelope, found, move |row| item(row, &beside)).await
}

/// Clicks by the operator whose bot's name stands in the name of the agent.
struct Clicks {
    bots: Arc<BotTable>,
    of: BTreeMap<String, u64>,
    of_nobody: u64,
}

impl Clicks {
    fn add(&mut self, agent: &str, count: u64) {
        match self.bots.classify(agent, None, None) {
            Some(bot) => *self.of.entry(bot.operator.to_string()).or_default() += count,
            None => self.of_nobody += count,
        }
    }
}

/// What stands beside retrievals.
struct Beside {
    clicks: BTreeMap<String, u64>,
    /// By operator and bot.
    refused: Option<BTreeMap<(String, String), u64>>,
}

fn by_bot(refused: &[RefusedCount]) -> BTreeMap<(String, String), u64> {
    let mut bots = BTreeMap::new();
    for RefusedCount { operator, bot, count, .. } in refused {
        *bots.entry((operator.clone(), bot.clone())).or_default() += count;
    }
    bots
}

fn item(row: CrawlerRow, beside: &Beside) -> CrawlerItem {
    let operator_clicks = beside.clicks.get(&row.operator).copied().unwrap_or_default();
    let bot = (row.operator, row.bot);
    CrawlerItem {
        purpose: row.purpose,
        verified: match row.verified {
            1 => Some(false),
            2 => Some(true),
            _ => None,
        },
        retrievals: row.retrievals,
        bytes: row.bytes,
        statuses: row.statuses.into_iter().map(|(status, count)| StatusCount { status, count }).collect(),
        corroborated: row.corroborated,
        corroborated_share: share(row.corroborated, row.retrievals),
        refused: beside.refused.as_ref().map(|refused| refused.get(&bot).copied().unwrap_or_default()),
        operator_clicks,
        retrievals_per_click: (operator_clicks > 0).then(|| share(row.of_operator, operator_clicks)),
        operator: bot.0,
        bot: bot.1,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share is told beside its two numbers, which are exact")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}
