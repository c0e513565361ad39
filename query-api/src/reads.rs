//! Reads from the tables `events` and `reports`: one flat statement each, in `query-api/sql`.
//!
//! A statement is a file with named parameters and tables; no value is inserted into its text. All figures of a response come
//! from one statement, so they describe the same moment.

mod agent_events;
mod agent_figures;
mod agent_series;
pub(crate) mod caps;
mod cells;
mod corroboration;
mod crawlers;
mod event_page;
mod funnel;
mod most;
mod one_event;
mod order;
pub(crate) mod outcomes;
mod refusals;
mod report_content;
mod rows;
mod scope;
mod series;
mod sessions;
mod statement;
mod summary;
mod urls;

#[cfg(test)]
mod list_tests;
#[cfg(test)]
mod tests;

use crate::read_limiter::ReadSettings;
use crate::read_limiter::times::Times;
use clickhouse::Client;
use clickhouse::query::Query;
use most::Most;
use service_kit::http::ApiError;
use service_kit::stores::clickhouse_answers;
use statement::Statement;
use std::time::Duration;

pub(crate) use agent_figures::OwnFigure;
pub(crate) use agent_series::OwnSplit;
pub(crate) use cells::{Cell, Cells, Extent, Value};
pub(crate) use corroboration::{CorroborationBy, CorroborationRow};
pub(crate) use crawlers::{BotRow, DrainLinesRow, Requests};
pub(crate) use event_page::EventRow;
pub(crate) use funnel::{FunnelBy, FunnelRow};
pub(crate) use one_event::FoundEvent;
pub(crate) use order::Order;
pub(crate) use refusals::refused;
pub(crate) use rows::{ListPage, PageRow, Rows};
pub(crate) use series::{By, Split};
pub(crate) use sessions::{SessionEvent, SessionEvents, SessionPart};
pub(crate) use summary::SummaryFigures;
pub(crate) use urls::{URLS_SORTABLE, UrlRow};

/// Interval of the checks whether ClickHouse responds while a statement runs.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// ClickHouse counts as unavailable if a check takes longer.
const WATCH_DEADLINE: Duration = Duration::from_secs(2);

pub(crate) struct Reads {
    client: Client,
    times: Times,
    most: Most,
}

impl Reads {
    pub(crate) fn new(client: &Client, settings: &ReadSettings) -> Self {
        Self { client: caps::capped(client, settings), times: Times::new(settings), most: Most::default() }
    }

    /// Returns all rows of a statement with a small result.
    async fn all<R>(&self, statement: Statement) -> Result<Vec<R>, ApiError>
    where
        R: clickhouse::RowOwned + clickhouse::RowRead,
    {
        self.all_of(statement.query(&self.client)).await
    }

    /// Returns all rows of a query. Fails if the server stops responding: a slow statement may use all of its time, but a
    /// hanging server fails early.
    async fn all_of<R>(&self, query: Query) -> Result<Vec<R>, ApiError>
    where
        R: clickhouse::RowOwned + clickhouse::RowRead,
    {
        tokio::select! {
            rows = query.fetch_all::<R>() => rows.map_err(refused),
            () = self.until_away() => Err(ApiError::unavailable(anyhow::anyhow!("ClickHouse hangs"))),
        }
    }

    async fn until_away(&self) {
        loop {
            tokio::time::sleep(WATCH_EVERY).await;
            if !clickhouse_answers(&self.client, WATCH_DEADLINE).await {
                return;
            }
        }
    }
}
