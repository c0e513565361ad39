//! Reads from the tables `events` and `reports`: one flat statement each, in `query-api/sql`.
//!
//! A statement is a file with named parameters and tables; values are never inserted into its text. All figures in a response come from one
//! statement, so they describe the same moment.

mod agent_events;
mod agent_figures;
mod agent_series;
pub(crate) mod query_limits;
mod series_cells;
mod corroboration;
mod crawlers;
mod documents;
mod event_page;
mod evidence;
mod funnel;
mod list_limits;
mod reconciliation;
mod event_with_reports;
mod sort_order;
pub(crate) mod session_outcomes;
mod clickhouse_errors;
mod report_content;
mod robots;
mod rows;
mod scope;
mod series;
mod sessions;
mod statement;
mod summary;
mod urls;
mod usage;

#[cfg(test)]
mod list_tests;
#[cfg(test)]
mod tests;

use crate::read_limiter::ReadSettings;
use crate::read_limiter::time_limits::TimeLimits;
use clickhouse::Client;
use clickhouse::query::Query;
use list_limits::ListLimits;
use service_kit::databases::clickhouse_responds;
use service_kit::http::ApiError;
use statement::Statement;
use std::time::Duration;

pub(crate) use agent_figures::OwnFigure;
pub(crate) use agent_series::OwnSplit;
pub(crate) use clickhouse_errors::to_api_error;
pub(crate) use corroboration::{CorroborationBy, CorroborationRow};
pub(crate) use crawlers::{BotRow, DrainLinesRow, Requests};
pub(crate) use documents::{ExportedReport, ReportPage};
pub(crate) use event_page::EventRow;
pub(crate) use event_with_reports::FoundEvent;
pub(crate) use evidence::{EvidenceRow, EvidenceSources};
pub(crate) use funnel::{FunnelBy, FunnelRow};
pub(crate) use query_limits::BACKGROUND;
pub(crate) use reconciliation::{ReconciledBy, ReconciledFetches, ReconciliationRow, Servers, scanned_days};
pub(crate) use robots::BotFetches;
pub(crate) use rows::{ListPage, PageRow, Rows};
pub(crate) use series::{BucketLength, Split};
pub(crate) use series_cells::{Cell, Cells, Extent, Value};
pub(crate) use sessions::{SessionEvent, SessionEvents, SessionPart};
pub(crate) use sort_order::SortOrder;
pub(crate) use summary::SummaryFigures;
pub(crate) use urls::{PagesBy, UrlRow};

/// Interval for checking whether ClickHouse responds while a statement runs.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// If a check takes longer, ClickHouse counts as unavailable.
const WATCH_DEADLINE: Duration = Duration::from_secs(2);

pub(crate) struct Reads {
    client: Client,
    times: TimeLimits,
    list_limits: ListLimits,
}

impl Reads {
    pub(crate) fn new(client: &Client, settings: &ReadSettings) -> Self {
        Self {
            client: query_limits::with_limits(client, settings),
            times: TimeLimits::new(settings),
            list_limits: ListLimits::default(),
        }
    }

    /// Returns the same reads with another priority in ClickHouse; 1 is the highest.
    pub(crate) fn with_priority(&self, priority: usize) -> Self {
        let client = query_limits::with_priority(&self.client, priority);
        Self { client, times: self.times, list_limits: self.list_limits }
    }

    /// Returns all rows of a statement with a small result.
    async fn all<R>(&self, statement: Statement) -> Result<Vec<R>, ApiError>
    where
        R: clickhouse::RowOwned + clickhouse::RowRead,
    {
        self.all_of(statement.query(&self.client)).await
    }

    /// Returns all rows of a query. Fails early if the server stops responding, while a slow statement may use all of its time.
    async fn all_of<R>(&self, query: Query) -> Result<Vec<R>, ApiError>
    where
        R: clickhouse::RowOwned + clickhouse::RowRead,
    {
        tokio::select! {
            rows = query.fetch_all::<R>() => rows.map_err(to_api_error),
            () = self.wait_until_unavailable() => Err(ApiError::unavailable(anyhow::anyhow!("ClickHouse hangs"))),
        }
    }

    async fn wait_until_unavailable(&self) {
        loop {
            tokio::time::sleep(WATCH_EVERY).await;
            if !clickhouse_responds(&self.client, WATCH_DEADLINE).await {
                return;
            }
        }
    }
}
