//! A statement as CSV, XLSX and COUNTER rows (docs/api/statements.md#csv).

use super::document::Statement;
use super::rows::{counter, lines};
use super::workbook;
use schemas::problem::Code;
use service_kit::http::ApiError;
use service_kit::http::csv::record;
use service_kit::http::sanitize_text;
use std::fs::File;
use std::io::{BufWriter, Seek, Write};

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

    /// Writes a statement, given as canonical JSON, in this format to a temporary file. Returns 413 if a workbook would be too large.
    pub(crate) fn convert(self, document: &[u8]) -> Result<File, ApiError> {
        let mut file = tempfile::tempfile().map_err(ApiError::unavailable)?;
        self.write(document, &mut file)?;
        file.rewind().map_err(ApiError::unavailable)?;
        Ok(file)
    }

    fn write(self, document: &[u8], file: &mut File) -> Result<(), ApiError> {
        if self == Self::Json {
            return file.write_all(document).map_err(ApiError::unavailable);
        }
        let statement: Statement = serde_json::from_slice(document).map_err(ApiError::internal)?;
        if self == Self::Xlsx {
            let changes = statement.corrections.as_ref().map_or(0, |corrections| corrections.changes.len());
            if lines(&statement).count().max(changes) > workbook::MAX_ROWS {
                let detail = format!("A workbook has at most {} rows. Use format=csv.", workbook::MAX_ROWS);
                return Err(ApiError::new(Code::TooLarge, detail));
            }
            return workbook::write(&statement, document, file).map_err(ApiError::internal);
        }
        let mut csv = BufWriter::new(file);
        let write = |row: Vec<String>| csv.write_all(&record(row.iter().map(|text| sanitize_text::for_spreadsheet(text))));
        let written =
            if self == Self::Csv { lines(&statement).try_for_each(write) } else { counter(&statement).try_for_each(write) };
        written.and_then(|()| csv.flush()).map_err(ApiError::unavailable)
    }
}
