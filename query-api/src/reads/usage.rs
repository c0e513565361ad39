//! Number of reports per organization, for operators.

use super::Reads;
use super::scope::bounds;
use super::statement::Statement;
use crate::access::operator::Operator;
use crate::parameters::period::Period;
use serde::Deserialize;
use service_kit::http::ApiError;
use uuid::Uuid;

const USAGE: &str = include_str!("../../sql/usage.sql");

#[derive(clickhouse::Row, Deserialize)]
pub(crate) struct SentReports {
    #[serde(with = "clickhouse::serde::uuid")]
    pub(crate) organization: Uuid,
    pub(crate) events: u64,
    /// Time of the latest report in milliseconds since 1970.
    pub(crate) last_ms: i64,
}

impl Reads {
    /// Returns counts of all organizations that reported in the period, and nothing else about their reports.
    pub(crate) async fn usage(&self, _: Operator, period: &Period) -> Result<Vec<SentReports>, ApiError> {
        let (since, until) = bounds(period);
        self.all(Statement::new(USAGE).with("since_ms", since).with("until_ms", until)).await
    }
}
