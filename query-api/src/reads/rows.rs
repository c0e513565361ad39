//! Query results that are read row by row.

use super::Reads;
use super::clickhouse_errors::to_api_error;
use super::query_limits::without_size_limit;
use super::statement::Statement;
use crate::parameters::paging::Paging;
use clickhouse::query::{Query, RowCursor};
use service_kit::http::ApiError;
use std::time::Duration;

/// Maximum time until the next row, after the first has arrived.
const ROW_DEADLINE: Duration = Duration::from_secs(10);

/// A response's items as they arrive.
pub(crate) trait Rows: Send + 'static {
    type Row: Send;

    fn next(&mut self) -> impl Future<Output = Result<Option<Self::Row>, ApiError>> + Send;
}

pub(crate) trait ListPage: Rows {
    fn total(&self) -> u64;

    /// Returns the next page's cursor, if the list has cursors and this page is full.
    fn next_page(&self) -> Option<&str> {
        None
    }
}

/// A row of a page: an item, or the only row of an empty page.
pub(crate) trait PageRow: clickhouse::RowOwned + clickhouse::RowRead + Send + Sync + 'static {
    fn total(&self) -> u64;
    fn is_item(&self) -> bool;
}

/// Implements [`PageRow`] for a row with the columns `total` and `is_item`.
macro_rules! page_row {
    ($row:ident) => {
        impl $crate::reads::PageRow for $row {
            fn total(&self) -> u64 {
                self.total
            }

            fn is_item(&self) -> bool {
                self.is_item == 1
            }
        }
    };
}

pub(super) use page_row;

pub(crate) struct FoundPage<R> {
    total: u64,
    first: Option<R>,
    rest: RowCursor<R>,
}

impl<R: PageRow> Rows for FoundPage<R> {
    type Row = R;

    async fn next(&mut self) -> Result<Option<R>, ApiError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        Ok(following(&mut self.rest).await?.filter(R::is_item))
    }
}

impl<R: PageRow> ListPage for FoundPage<R> {
    fn total(&self) -> u64 {
        self.total
    }
}

impl Reads {
    /// Returns a page of a statement with the parameters `offset` and `through`, the end of the page. Each row contains the total. An empty
    /// page of a nonempty list is one row with only the total.
    pub(super) async fn page<R: PageRow>(&self, statement: Statement, at: Paging) -> Result<FoundPage<R>, ApiError> {
        let statement = statement.with("offset", at.offset).with("through", at.limit.saturating_add(at.offset));
        let (first, rest) = self.started::<R>(statement.query(&self.client)).await?;
        let total = first.as_ref().map_or(0, R::total);
        Ok(FoundPage { total, first: first.filter(R::is_item), rest })
    }

    /// Returns the first row of a result of any size, and a cursor for the rest.
    pub(super) async fn first_row<R>(&self, statement: Statement) -> Result<(Option<R>, RowCursor<R>), ApiError>
    where
        R: clickhouse::RowOwned + clickhouse::RowRead,
    {
        self.started(without_size_limit(statement.query(&self.client))).await
    }

    /// Returns a result's first row, and a cursor for the rest. Until the first row arrives, the response can still become an error.
    pub(super) async fn started<R>(&self, query: Query) -> Result<(Option<R>, RowCursor<R>), ApiError>
    where
        R: clickhouse::RowOwned + clickhouse::RowRead,
    {
        let mut rows = self.times.streamed(query).fetch::<R>().map_err(to_api_error)?;
        let first = tokio::select! {
            row = self.times.started(rows.next()) => row?.map_err(to_api_error)?,
            () = self.wait_until_unavailable() => return Err(ApiError::unavailable(anyhow::anyhow!("ClickHouse hangs"))),
        };
        Ok((first, rows))
    }
}

pub(super) async fn following<R>(rest: &mut RowCursor<R>) -> Result<Option<R>, ApiError>
where
    R: clickhouse::RowOwned + clickhouse::RowRead,
{
    let row = tokio::time::timeout(ROW_DEADLINE, rest.next()).await;
    let row = row.map_err(|_| ApiError::unavailable(anyhow::anyhow!("ClickHouse stopped sending a response")))?;
    row.map_err(to_api_error)
}
