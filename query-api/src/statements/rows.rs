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

/// Returns the header and one row per line and measure.
pub(super) fn lines(statement: &Statement) -> impl Iterator<Item = Vec<String>> {
    let measures = statement.lines.iter().flat_map(|line| line.events.iter().map(move |(measure, tiers)| (line, measure, tiers)));
    let rows = measures.enumerate().map(|(position, (line, Measure(measure), tiers))| {
        let mut row = vec![statement.period.clone(), statement.revision.to_string()];
        row.push(statement.operator.clone().unwrap_or_default());
        row.extend([&line.host, &line.content, &line.license, measure].map(String::clone));
        let figures =
            [tiers.claimed, tiers.corroborated, tiers.observed, tiers.unknown, tiers.signed, line.sessions, line.covered_hours];
        row.extend(figures.map(|figure| figure.to_string()));
        row.push(note(position));
        row
    });
    std::iter::once(COLUMNS.map(str::to_owned).to_vec()).chain(rows)
}

/// The first row has the note.
fn note(position: usize) -> String {
    if position == 0 { STATEMENT_NOTE.to_owned() } else { String::new() }
}

/// Returns the header and one row per line and metric above 0.
pub(super) fn counter(statement: &Statement) -> impl Iterator<Item = Vec<String>> {
    let columns = ["Platform", "Publisher", "URI", "License", "Access_Method", "Metric_Type"].map(str::to_owned);
    let header = columns.into_iter().chain([statement.period.clone(), "Note".to_owned()]).collect();
    let metrics = statement.lines.iter().flat_map(|line| line.counter.by_name().map(|(metric, figure)| (line, metric, figure)));
    let metrics = metrics.filter(|(.., figure)| *figure > 0);
    let rows = metrics.enumerate().map(|(position, (line, metric, figure))| {
        let platform = statement.operator.clone().unwrap_or_default();
        let named = [platform, statement.owner.name.clone(), line.content.clone(), line.license.clone()];
        let figures = ["Agent".to_owned(), metric.to_owned(), figure.to_string(), note(position)];
        named.into_iter().chain(figures).collect()
    });
    std::iter::once(header).chain(rows)
}
