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
    /// Calls `each` for the fetches of every bot, divided at the times in `changes` (milliseconds since 1970, sorted).
    pub(crate) async fn bot_fetches(
        &self,
        seen: &Visibility,
        period: &Period,
        filter: &EventFilter,
        changes: &[i64],
        mut each: impl FnMut(BotFetches) + Send,
    ) -> Result<(), ApiError> {
        let scope = Scope::new(seen, period).filtered(filter);
        let statement = scope.bind(Statement::new(ROBOTS)).with("changes", changes.to_vec());
        let (mut row, mut rest) = self.first_row::<BotFetches>(statement).await?;
        while let Some(fetches) = row {
            each(fetches);
            // A file can have tens of thousands of rules, so comparing one row can take milliseconds.
            tokio::task::yield_now().await;
            row = following(&mut rest).await?;
        }
        Ok(())
    }
}
