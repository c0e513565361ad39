//! Rows of a statement for spreadsheets (docs/api/statements.md#csv).

use super::document::Statement;
use super::figures::Measure;
use schemas::statement_responses::STATEMENT_NOTE;

const COLUMNS: [&str; 15] = [
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
pub(super) fn counter(statement: &Statement) -> Vec<Vec<String>> {
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
