//! What the queries of pages bring, row by row.
//!
//! Must not decide how anything is shown.

use super::{Telemetry, refused};
use clickhouse::query::{Query, RowCursor};
use serde::Deserialize;
use service_kit::http::ApiError;
use std::time::Duration;
use uuid::Uuid;

/// How long the next row may take once the first is there.
const ROW_DEADLINE: Duration = Duration::from_secs(10);

/// What an answer is made of, as it comes.
pub(crate) trait Rows: Send + 'static {
    /// What one item is made of.
    type Row: Send;

    /// The next one.
    fn next(&mut self) -> impl Future<Output = Result<Option<Self::Row>, ApiError>> + Send;
}

/// A row of a page: an item, or the row of a page that has none.
pub(crate) trait PageRow: clickhouse::RowOwned + clickhouse::RowRead + Send + Sync + 'static {
    /// Items of the whole list.
    fn total(&self) -> u64;
    /// Whether it is an item.
    fn is_item(&self) -> bool;
}

/// A page on its way.
pub(crate) struct FoundPage<R> {
    /// Items of the whole list.
    pub(crate) total: u64,
    /// Where the next page begins, when there may be one and the list can be walked.
    pub(crate) next: Option<String>,
    pub(super) first: Option<R>,
    /// None where the page has no item.
    pub(super) rest: Option<RowCursor<R>>,
}

impl<R: PageRow> FoundPage<R> {
    /// One that has none.
    pub(super) fn without_items(total: u64) -> Self {
        Self { total, next: None, first: None, rest: None }
    }

    /// The next item of the page.
    pub(crate) async fn next(&mut self) -> Result<Option<R>, ApiError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let Some(rest) = &mut self.rest else { return Ok(None) };
        Ok(following(rest).await?.filter(R::is_item))
    }
}

impl<R: PageRow> Rows for FoundPage<R> {
    type Row = R;

    async fn next(&mut self) -> Result<Option<R>, ApiError> {
        Self::next(self).await
    }
}

impl Telemetry {
    /// The first row of what is streamed and always has one, and the rest on its way.
    pub(super) async fn begun<R>(&self, query: Query) -> Result<(R, RowCursor<R>), ApiError>
    where
        R: clickhouse::RowOwned + clickhouse::RowRead,
    {
        let (first, rows) = self.started(query).await?;
        let first = first.ok_or_else(|| ApiError::internal(anyhow::anyhow!("an answer begins with what there is in all")))?;
        Ok((first, rows))
    }

    /// The first row of what is streamed, if any, and the rest on its way. Until the first row the answer can still be an error.
    pub(super) async fn started<R>(&self, query: Query) -> Result<(Option<R>, RowCursor<R>), ApiError>
    where
        R: clickhouse::RowOwned + clickhouse::RowRead,
    {
        let mut rows = self.times.streamed(query).fetch::<R>().map_err(refused)?;
        let first = tokio::select! {
            row = self.times.started(rows.next()) => row?.map_err(refused)?,
            () = self.until_away() => return Err(ApiError::unavailable(anyhow::anyhow!("ClickHouse hangs"))),
        };
        Ok((first, rows))
    }
}

/// The next row of an answer that has begun.
pub(super) async fn following<R>(rest: &mut RowCursor<R>) -> Result<Option<R>, ApiError>
where
    R: clickhouse::RowOwned + clickhouse::RowRead,
{
    let row = tokio::time::timeout(ROW_DEADLINE, rest.next()).await;
    let row = row.map_err(|_| ApiError::unavailable(anyhow::anyhow!("ClickHouse hangs within an answer")))?;
    row.map_err(refused)
}

macro_rules! page_rows {
    ($($row:ident)*) => {$(
        impl PageRow for $row {
            fn total(&self) -> u64 {
                self.total
            }

            fn is_item(&self) -> bool {
                self.is_item == 1
            }
        }
    )*};
}

page_rows! {
    EventRow UrlRow CorroborationRow FunnelRow
}

/// One event, as its representing observation tells it.
#[derive(clickhouse::Row, Deserialize)]
pub(crate) struct EventRow {
    /// How many events the statement tells.
    pub(super) total: u64,
    /// In the first row, of the last one.
    pub(super) last_id: String,
    is_item: u8,
    pub(crate) id: String,
    pub(crate) r#type: String,
    #[serde(with = "clickhouse::serde::uuid")]
    pub(crate) session: Uuid,
    #[serde(with = "clickhouse::serde::uuid")]
    pub(crate) platform: Uuid,
    pub(crate) agent: String,
    pub(crate) url: String,
    pub(crate) telemetry_id: String,
    pub(crate) role: u8,
    /// 1 where another reported it, by a click token of who reads.
    pub(crate) by_other: u8,
    pub(crate) at_ms: i64,
    pub(crate) reported: String,
    pub(crate) unknown: String,
    pub(crate) roles: Vec<u8>,
}

/// One report of an event.
#[derive(clickhouse::Row, Deserialize)]
pub(crate) struct ReportRow {
    /// Of the event there are so many.
    pub(super) total: u64,
    pub(crate) id: String,
    pub(crate) r#type: String,
    #[serde(with = "clickhouse::serde::uuid")]
    pub(crate) session: Uuid,
    #[serde(with = "clickhouse::serde::uuid")]
    pub(crate) platform: Uuid,
    pub(crate) agent: String,
    pub(crate) url: String,
    pub(crate) role: u8,
    pub(crate) at_ms: i64,
    pub(crate) reported: String,
    pub(crate) unknown: String,
}

impl EventRow {
    /// As the report that represents it tells it.
    pub(crate) fn of_report(report: &ReportRow, roles: Vec<u8>) -> Self {
        Self {
            total: 1,
            last_id: String::new(),
            is_item: 1,
            id: report.id.clone(),
            r#type: report.r#type.clone(),
            session: report.session,
            platform: report.platform,
            agent: report.agent.clone(),
            url: report.url.clone(),
            telemetry_id: String::new(),
            role: report.role,
            by_other: 0,
            at_ms: report.at_ms,
            reported: report.reported.clone(),
            unknown: report.unknown.clone(),
            roles,
        }
    }
}

/// One URL.
#[derive(clickhouse::Row, Deserialize)]
pub(crate) struct UrlRow {
    total: u64,
    is_item: u8,
    pub(crate) url: String,
    pub(crate) events: u64,
    pub(crate) unique_sessions: u64,
    pub(crate) types: Vec<String>,
    pub(crate) per_type: Vec<u64>,
    pub(crate) last_ms: i64,
}

/// One agent's retrievals of one day.
#[derive(clickhouse::Row, Deserialize)]
pub(crate) struct CorroborationRow {
    total: u64,
    is_item: u8,
    pub(crate) day: String,
    #[serde(with = "clickhouse::serde::uuid")]
    pub(crate) platform: Uuid,
    pub(crate) agent: String,
    pub(crate) retrievals: u64,
    pub(crate) both: u64,
    pub(crate) claimed_only: u64,
    pub(crate) seen_only: u64,
    pub(crate) neither: u64,
}

/// One part of a funnel.
#[derive(clickhouse::Row, Deserialize)]
pub(crate) struct FunnelRow {
    total: u64,
    is_item: u8,
    #[serde(with = "clickhouse::serde::uuid")]
    pub(crate) platform: Uuid,
    pub(crate) name: String,
    pub(crate) retrieved: u64,
    pub(crate) grounded: u64,
    pub(crate) cited: u64,
    pub(crate) presented: u64,
    pub(crate) engaged: u64,
}
