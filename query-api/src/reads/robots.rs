//! Fetches by bots per host and path, to compare with robots.txt files.

use super::Reads;
use super::rows::following;
use super::scope::Scope;
use super::statement::Statement;
use crate::access::visibility::Visibility;
use crate::parameters::event_filter::EventFilter;
use crate::parameters::period::Period;
use serde::Deserialize;
use service_kit::http::ApiError;
use tokio::task::spawn_blocking;

const ROBOTS: &str = include_str!("../../sql/robots.sql");

/// Fetches of one URL by one bot within one interval.
#[derive(clickhouse::Row, Deserialize)]
pub(crate) struct BotFetches {
    /// The reversed canonical host.
    pub(crate) host: String,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) bot_name: String,
    pub(crate) operator_name: String,
    pub(crate) purpose_name: String,
    /// Number of changes before the fetches.
    pub(crate) interval: u64,
    pub(crate) fetches: u64,
    /// Time of the last fetch in milliseconds since 1970.
    pub(crate) last_ms: i64,
}

impl Reads {
    /// Passes the fetches of every bot to `with` on another thread, in batches of at least `batch_bytes` of URLs. They are divided at
    /// the times in `changes` (milliseconds since 1970, sorted).
    pub(crate) async fn bot_fetches<T: Send + 'static>(
        &self,
        seen: &Visibility,
        period: &Period,
        filter: &EventFilter,
        (changes, batch_bytes): (&[i64], usize),
        mut compared: T,
        with: fn(T, Vec<BotFetches>) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let scope = Scope::new(seen, period).filtered(filter);
        let statement = scope.bind(Statement::new(ROBOTS)).with("changes", changes.to_vec());
        let (mut row, mut rest) = self.first_row::<BotFetches>(statement).await?;
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(fetches) = row {
            bytes += size_of::<BotFetches>() + fetches.target.len();
            batch.push(fetches);
            row = following(&mut rest).await?;
            if bytes >= batch_bytes || row.is_none() {
                let batch = std::mem::take(&mut batch);
                compared = spawn_blocking(move || with(compared, batch)).await.map_err(ApiError::internal)??;
                bytes = 0;
            }
        }
        Ok(compared)
    }
}
