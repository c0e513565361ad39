//! A statement as CSV, XLSX and COUNTER rows (docs/api/statements.md#csv).

use super::document::Statement;
use super::rows::{counter, lines};
use super::workbook;
use schemas::problem::Code;
use service_kit::http::ApiError;
use service_kit::http::csv::record;
use service_kit::http::sanitize_text;

const XLSX: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";

/// Formats of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Csv,
    Xlsx,
    Counter,
}

impl Format {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "json" => Some(Self::Json),
            "csv" => Some(Self::Csv),
            "xlsx" => Some(Self::Xlsx),
            "counter" => Some(Self::Counter),
            _ => None,
        }
    }

    /// Returns the format of a media type in `Accept`.
    pub(crate) fn accepted(range: &str) -> Option<Self> {
        match range.to_ascii_lowercase().as_str() {
            "application/json" | "application/*" | "*/*" => Some(Self::Json),
            "text/csv" | "text/*" => Some(Self::Csv),
            XLSX => Some(Self::Xlsx),
            _ => None,
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Csv | Self::Counter => "text/csv; charset=utf-8",
            Self::Xlsx => XLSX,
        }
    }

    /// Returns the suffix of the file's name.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Json => ".json",
            Self::Csv => ".csv",
            Self::Xlsx => ".xlsx",
            Self::Counter => ".counter.csv",
        }
    }

    /// Returns a statement, given as canonical JSON, in this format. Returns 413 if a workbook would be too large.
    pub(crate) fn write(self, document: Vec<u8>) -> Result<Vec<u8>, ApiError> {
        if self == Self::Json {
            return Ok(document);
        }
        let statement: Statement = serde_json::from_slice(&document).map_err(ApiError::internal)?;
        if self == Self::Xlsx {
            let changes = statement.corrections.as_ref().map_or(0, |corrections| corrections.changes.len());
            if lines(&statement).len().max(changes) > workbook::MAX_ROWS {
                let detail = format!("A workbook has at most {} rows. Use format=csv.", workbook::MAX_ROWS);
                return Err(ApiError::new(Code::TooLarge, detail));
            }
            return workbook::write(&statement, &document).map_err(ApiError::internal);
        }
        let rows = if self == Self::Csv { lines(&statement) } else { counter(&statement) };
        Ok(rows.into_iter().flat_map(|row| record(row.iter().map(|text| sanitize_text::for_spreadsheet(text)))).collect())
    }
}
