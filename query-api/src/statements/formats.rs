//! A statement as CSV, XLSX and COUNTER rows (docs/api/statements.md#csv).

use super::document::Statement;
use super::figures::Measure;
use super::workbook;
use schemas::problem::Code;
use schemas::statement_responses::STATEMENT_NOTE;
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

pub(super) const COLUMNS: [&str; 15] = [
    "period",
    "revision",
    "operator",
    "host",
    "content",
    "license",
    "measure",
    "claimed",
    "corroborated",
    "observed",
    "unknown",
    "signed",
    "sessions",
    "covered_hours",
    "note",
];

/// Returns the header and one row per line and measure. The first row has the note.
pub(super) fn lines(statement: &Statement) -> Vec<Vec<String>> {
    let mut rows = vec![COLUMNS.map(str::to_owned).to_vec()];
    for line in &statement.lines {
        for (Measure(measure), tiers) in &line.events {
            let mut row = vec![statement.period.clone(), statement.revision.to_string()];
            row.push(statement.operator.clone().unwrap_or_default());
            row.extend([&line.host, &line.content, &line.license, measure].map(String::clone));
            let figures = [
                tiers.claimed,
                tiers.corroborated,
                tiers.observed,
                tiers.unknown,
                tiers.signed,
                line.sessions,
                line.covered_hours,
            ];
            row.extend(figures.map(|figure| figure.to_string()));
            row.push(if rows.len() == 1 { STATEMENT_NOTE.to_owned() } else { String::new() });
            rows.push(row);
        }
    }
    rows
}

/// Returns the header and one row per line and metric above 0.
fn counter(statement: &Statement) -> Vec<Vec<String>> {
    let columns = ["Platform", "Publisher", "URI", "License", "Access_Method", "Metric_Type"].map(str::to_owned);
    let mut rows = vec![columns.into_iter().chain([statement.period.clone(), "Note".to_owned()]).collect::<Vec<_>>()];
    for line in &statement.lines {
        for (metric, figure) in line.counter.by_name().into_iter().filter(|(_, figure)| *figure > 0) {
            let note = if rows.len() == 1 { STATEMENT_NOTE } else { "" };
            let platform = statement.operator.clone().unwrap_or_default();
            let named = [platform, statement.owner.name.clone(), line.content.clone(), line.license.clone()];
            let figures = ["Agent".to_owned(), metric.to_owned(), figure.to_string(), note.to_owned()];
            rows.push(named.into_iter().chain(figures).collect());
        }
    }
    rows
}
