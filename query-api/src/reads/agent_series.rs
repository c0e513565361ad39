//! An organization's own reports over time, and others' reports with its click tokens.

use super::Reads;
use super::agent_events::own_reports;
use super::list_limits::standard_types;
use super::series::BucketLength;
use super::series_cells::Cells;
use crate::access::visibility::OwnReports;
use crate::parameters::period::Period;
use service_kit::http::ApiError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnSplit {
    Nothing,
    Type,
    Role,
    Agent,
}

impl Reads {
    /// Returns an organization's own series. Its buckets add up to the events and clicks in the summary.
    pub(crate) async fn own_series(
        &self,
        own: &OwnReports,
        period: &Period,
        by: BucketLength,
        split: OwnSplit,
    ) -> Result<Cells, ApiError> {
        let statement = own_reports(include_str!("../../sql/agent_series.sql"), own, period)
            .with("bucket_ms", by.ms())
            .with("split", name_of(split))
            .with("known", if split == OwnSplit::Type { standard_types() } else { Vec::new() })
            .with("most", self.list_limits.in_series);
        self.cells(statement).await
    }
}

fn name_of(split: OwnSplit) -> &'static str {
    match split {
        OwnSplit::Nothing => "",
        OwnSplit::Type => "type",
        OwnSplit::Role => "role",
        OwnSplit::Agent => "agent",
    }
}
