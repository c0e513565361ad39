//! Reports with all their members, by their positions in the `reports` table.

use super::Reads;
use super::rows::following;
use super::statement::Statement;
use clickhouse::query::RowCursor;
use serde::Deserialize;
use service_kit::http::ApiError;
use uuid::Uuid;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The reporting organization; in an issuer's row, the issuer.
    pub(super) organization: String,
    /// Reported time in milliseconds since 1970.
    pub(super) at_ms: i64,
    pub(super) identity: u128,
}

#[derive(Clone, Debug, Default, clickhouse::Row, Deserialize)]
pub(crate) struct ReportContent {
    /// Number of reports that the statement returns.
    found: u64,
    #[serde(with = "clickhouse::serde::uuid")]
    pub(crate) organization: Uuid,
    pub(crate) identity: u128,
    pub(crate) at_ms: i64,
    /// Order of acceptance.
    pub(crate) received: u64,
    /// 1 if another organization reported it with this organization's click token.
    pub(crate) is_issuers: u8,
    pub(crate) r#type: String,
    pub(crate) source_role: u8,
    pub(crate) role: u8,
    #[serde(with = "clickhouse::serde::uuid")]
    pub(crate) platform: Uuid,
    #[serde(with = "clickhouse::serde::uuid")]
    pub(crate) session: Uuid,
    /// 1 if the URL is the link of another organization's click token.
    pub(crate) link_is_taken: u8,
    /// As in `events`: empty, a reversed host, or `-`.
    pub(crate) link_site: String,
    pub(crate) agent: String,
    pub(crate) url: String,
    pub(crate) content_telemetry_id: String,
    pub(crate) event_id: String,
    /// Like the next two, only in exports.
    pub(crate) content_id: String,
    pub(crate) turn_id: String,
    pub(crate) output_id: String,
    pub(crate) data: String,
    pub(crate) extra: String,
    pub(crate) signature_result: i8,
    pub(crate) signature_reason: String,
    pub(crate) signed_by: String,
    pub(crate) signature_proof: String,
}

pub(super) struct Reports {
    first: Option<ReportContent>,
    rest: RowCursor<ReportContent>,
}

impl Reports {
    pub(super) async fn next(&mut self) -> Result<Option<ReportContent>, ApiError> {
        match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => following(&mut self.rest).await,
        }
    }
}

impl Reads {
    /// Starts to return the reports at these positions, which must not be empty. Returns 503 if a report is missing because it was replaced
    /// since its position was read. Without `shows_signatures`, all signatures are `none`.
    pub(super) async fn reports_at(&self, places: &[Place], shows_signatures: bool) -> Result<Reports, ApiError> {
        self.reports_with(places, shows_signatures, false).await
    }

    /// Like [`Self::reports_at`], without signatures and with the members that only exports contain.
    pub(super) async fn exported_reports_at(&self, places: &[Place]) -> Result<Reports, ApiError> {
        self.reports_with(places, false, true).await
    }

    async fn reports_with(&self, places: &[Place], shows_signatures: bool, is_export: bool) -> Result<Reports, ApiError> {
        let statement = Statement::new(include_str!("../../sql/reports_by_place.sql"))
            .with("shows_signatures", shows_signatures)
            .with("is_export", is_export)
            .with("organizations", places.iter().map(|place| place.organization.clone()).collect::<Vec<_>>())
            .with("times_ms", places.iter().map(|place| place.at_ms).collect::<Vec<_>>())
            .with("identities", places.iter().map(|place| place.identity.to_string()).collect::<Vec<_>>());
        // The few rows are in many granules, which ClickHouse reads with one thread by default.
        let query = statement
            .query(&self.client)
            .with_setting("merge_tree_min_rows_for_concurrent_read", "1024")
            .with_setting("merge_tree_min_bytes_for_concurrent_read", "1");
        let (first, rest) = self.started::<ReportContent>(query).await?;
        let first = first.filter(|first| first.found == places.len() as u64).ok_or_else(missing)?;
        Ok(Reports { first: Some(first), rest })
    }
}

/// Returns the error for a report that is missing at its position.
pub(super) fn missing() -> ApiError {
    ApiError::unavailable(anyhow::anyhow!("a report moved after its position was read"))
}
