//! A statement as an XLSX workbook.

use super::document::{Statement, sha256};
use super::figures::Measure;
use super::rows::lines;
use rust_xlsxwriter::{Format, Workbook, Worksheet, XlsxError};
use schemas::statement_responses::STATEMENT_NOTE;
use std::fs::File;

/// Rows of a sheet, which bounds the memory for writing it.
pub(super) const MAX_ROWS: usize = 50_000;
/// Characters per cell that Excel supports.
const MAX_CHARS: usize = 32_767;
const ALL: &str = "all";

/// Writes what was counted for whom, the lines, and the corrections of a revision.
pub(super) fn write(statement: &Statement, document: &[u8], file: &mut File) -> Result<(), XlsxError> {
    let mut workbook = Workbook::new();
    add_sheet(&mut workbook, "Statement", facts(statement, document).into_iter())?;
    add_sheet(&mut workbook, "Lines", lines(statement))?;
    if let Some(corrections) = &statement.corrections {
        let header = ["host", "content", "license", "figure", "before", "after"].map(str::to_owned).to_vec();
        let rows = corrections.changes.iter().map(|change| {
            let named = [&change.host, &change.content, &change.license, &change.figure].map(String::clone);
            named.into_iter().chain([change.before.to_string(), change.after.to_string()]).collect()
        });
        add_sheet(&mut workbook, "Corrections", std::iter::once(header).chain(rows))?;
    }
    workbook.save_to_writer(file)
}

fn facts(statement: &Statement, document: &[u8]) -> Vec<Vec<String>> {
    let mut rows = vec![vec!["Statement".to_owned(), statement.number.to_string()]];
    let corrections = statement.corrections.as_ref();
    let late = corrections.map_or_else(String::new, |corrections| corrections.late_reports.to_string());
    let mut add = |name: &str, value: String| rows.push(vec![name.to_owned(), value]);
    add("Owner", statement.owner.name.clone());
    add("Period", statement.period.clone());
    add("Operator", statement.operator.clone().unwrap_or_else(|| ALL.to_owned()));
    add("Revision", statement.revision.to_string());
    add("Late reports", late);
    add("Closed", statement.closed.clone());
    add("Hosts", statement.hosts.join(" "));
    add("Service", statement.service.clone());
    add("SHA-256 of the signed JSON", sha256(document));
    add("SHA-256 of the evidence file", statement.evidence.sha256.clone());
    add("Key", statement.signature.as_ref().map(|signature| signature.keyid.clone()).unwrap_or_default());
    for (Measure(measure), tiers) in &statement.totals.events {
        for (tier, events) in tiers.by_name() {
            add(&format!("{measure}, {tier}"), events.to_string());
        }
    }
    for (metric, figure) in statement.totals.counter.by_name() {
        add(metric, figure.to_string());
    }
    add("sessions", statement.totals.sessions.to_string());
    add("covered_hours", format!("{} of {}", statement.totals.covered_hours, statement.totals.hours));
    add("Note", STATEMENT_NOTE.to_owned());
    rows
}

/// Adds a sheet with a bold first row. Numbers are stored as numbers, and text is never a formula.
fn add_sheet(workbook: &mut Workbook, name: &str, rows: impl Iterator<Item = Vec<String>>) -> Result<(), XlsxError> {
    let sheet: &mut Worksheet = workbook.add_worksheet().set_name(name)?;
    let bold = Format::new().set_bold();
    for (row, cells) in (0..).zip(rows.take(MAX_ROWS + 1)) {
        for (column, text) in (0..).zip(&cells) {
            match text.parse::<u64>() {
                Ok(number) if text.len() < 16 && row > 0 => sheet.write_number(row, column, number as f64)?,
                _ if row == 0 => sheet.write_string_with_format(row, column, shortened(text), &bold)?,
                _ => sheet.write_string(row, column, shortened(text))?,
            };
        }
    }
    sheet.set_column_width(0, 24)?;
    Ok(())
}

fn shortened(text: &str) -> String {
    text.chars().take(MAX_CHARS).collect()
}
