//! Rows of a statement's evidence file (docs/api/statements.md#evidence).

use super::Reads;
use super::clickhouse_errors::to_api_error;
use super::query_limits::without_size_limit;
use super::rows::following;
use super::scope::Scope;
use super::statement::Statement;
use crate::access::visibility::Visibility;
use crate::parameters::period::Period;
use clickhouse::query::RowCursor;
use serde::Deserialize;
use service_kit::http::ApiError;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Reports per query: each query sorts its rows in memory.
const REPORTS_PER_QUERY: u64 = 1_500_000;
/// Keys are digests, so each range of keys has about the same number of events.
const MAX_QUERIES: u64 = 1 << 16;
const MAX_SECONDS: &str = "600";

/// A report, or a bot's log line without content.
#[derive(clickhouse::Row, Deserialize, Clone, Debug, Default)]
pub(crate) struct EvidenceRow {
    pub(crate) is_line: u8,
    /// 1 if the event's key is shared by its reports.
    pub(crate) is_joined: u8,
    pub(crate) event_key: u128,
    pub(crate) identity: u128,
    pub(crate) received: u64,
    #[serde(with = "clickhouse::serde::uuid")]
    pub(crate) organization: Uuid,
    #[serde(with = "clickhouse::serde::uuid")]
    pub(crate) drain: Uuid,
    pub(crate) role: u8,
    pub(crate) event_type: String,
    pub(crate) at_ms: i64,
    /// Start of the owner's events on the host. Earlier ones belong to others.
    pub(crate) visible_from_ms: i64,
    pub(crate) host: String,
    pub(crate) url: String,
    pub(crate) content_id: String,
    pub(crate) license: String,
    /// Nil if there is none or the owner may not see it.
    #[serde(with = "clickhouse::serde::uuid")]
    pub(crate) shown_session: Uuid,
    #[serde(with = "clickhouse::serde::uuid")]
    pub(crate) platform: Uuid,
    pub(crate) shown_agent: String,
    /// Output or turn.
    pub(crate) response: String,
    pub(crate) is_click: u8,
    pub(crate) bot_name: String,
    pub(crate) bot_operator: String,
    pub(crate) status: u16,
    pub(crate) has_fetch: u8,
    pub(crate) verdict: String,
}

#[derive(clickhouse::Row, Deserialize)]
pub(crate) struct EvidenceSources {
    /// Organizations that reported events.
    pub(crate) organizations: Vec<String>,
    pub(crate) report_count: u64,
}

#[derive(clickhouse::Row, Deserialize)]
struct HostHours {
    host: String,
    hours: Vec<i64>,
}

/// The rows in their order, in one query after another.
pub(crate) struct EvidenceRows<'a> {
    reads: &'a Reads,
    scope: Scope,
    closed_us: u64,
    organizations: &'a [String],
    /// First and last keys of the remaining queries, in reverse order.
    ranges: Vec<(u128, u128)>,
    current: Option<RowCursor<EvidenceRow>>,
}

impl EvidenceRows<'_> {
    pub(crate) async fn next(&mut self) -> Result<Option<EvidenceRow>, ApiError> {
        loop {
            if let Some(rows) = &mut self.current {
                if let Some(row) = following(rows).await? {
                    return Ok(Some(row));
                }
                self.current = None;
            }
            let Some(range) = self.ranges.pop() else { return Ok(None) };
            let (first, rows) = self.start(range).await?;
            self.current = first.is_some().then_some(rows);
            if first.is_some() {
                return Ok(first);
            }
        }
    }

    /// Sends the next query. It returns the first row once all rows are sorted.
    async fn start(&mut self, (first, last): (u128, u128)) -> Result<(Option<EvidenceRow>, RowCursor<EvidenceRow>), ApiError> {
        let statement = self
            .scope
            .bind(Statement::new(include_str!("../../sql/evidence.sql")))
            .with_table("reporters", "id UUID", self.organizations.iter().map(|id| [id.as_str().into()]))
            .with("first_key", first.to_string())
            .with("last_key", last.to_string())
            // In the format of the `received` column.
            .with("closed", self.closed_us << 12);
        let query = without_size_limit(statement.query(&self.reads.client)).with_setting("max_execution_time", MAX_SECONDS);
        let mut rows = query.with_setting("http_send_timeout", MAX_SECONDS).fetch().map_err(to_api_error)?;
        let first = tokio::select! {
            row = rows.next() => row.map_err(to_api_error)?,
            () = self.reads.wait_until_unavailable() => return Err(ApiError::unavailable(anyhow::anyhow!("ClickHouse hangs"))),
        };
        Ok((first, rows))
    }
}

/// Splits all keys into equal ranges, in descending order.
fn ranges(count: u64) -> Vec<(u128, u128)> {
    let count = u128::from(count.clamp(1, MAX_QUERIES));
    let width = u128::MAX / count;
    let last = |n: u128| if n + 1 == count { u128::MAX } else { (n + 1) * width - 1 };
    (0..count).rev().map(|n| (n * width, last(n))).collect()
}

impl Reads {
    pub(crate) async fn evidence_sources(&self, seen: &Visibility, period: &Period) -> Result<EvidenceSources, ApiError> {
        let scope = Scope::new(seen, period);
        let found = self.all(scope.bind(Statement::new(include_str!("../../sql/evidence_sources.sql")))).await?;
        found.into_iter().next().ok_or_else(|| ApiError::internal(anyhow::anyhow!("an aggregation returned no row")))
    }

    /// Returns the hours since 1970 in which these organizations' servers reported, by host.
    pub(crate) async fn evidence_hours(
        &self,
        seen: &Visibility,
        period: &Period,
        observers: &[Uuid],
    ) -> Result<BTreeMap<String, Vec<i64>>, ApiError> {
        let observers: Vec<String> = observers.iter().map(Uuid::to_string).collect();
        let statement = Scope::new(seen, period).bind(Statement::new(include_str!("../../sql/evidence_hours.sql")));
        let (mut next, mut rest) = self.first_row::<HostHours>(statement.with("observers", observers)).await?;
        let mut hours = BTreeMap::new();
        while let Some(row) = next {
            hours.insert(row.host, row.hours);
            next = following(&mut rest).await?;
        }
        Ok(hours)
    }

    /// Returns the rows that were accepted before `closed_us`, in microseconds since 1970.
    pub(crate) fn evidence<'a>(
        &'a self,
        (seen, period): (&Visibility, &Period),
        closed_us: u64,
        sources: &'a EvidenceSources,
    ) -> EvidenceRows<'a> {
        let ranges = ranges(sources.report_count.div_ceil(REPORTS_PER_QUERY));
        let scope = Scope::new(seen, period);
        EvidenceRows { reads: self, scope, closed_us, organizations: &sources.organizations, ranges, current: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_all_keys_once() {
        for count in [0, 1, 2, 3, 7, 65_536, u64::MAX] {
            let ranges = ranges(count);
            assert_eq!(ranges.len() as u64, count.clamp(1, MAX_QUERIES));
            let mut next = Some(0);
            for (first, last) in ranges.into_iter().rev() {
                assert_eq!(Some(first), next, "{count}");
                next = last.checked_add(1);
            }
            assert_eq!(next, None, "{count}");
        }
    }
}
