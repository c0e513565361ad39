//! Chooses a list's format from `Accept`: JSON, CSV or newline-delimited JSON (docs/api/reads.md#formats).

use axum::http::{HeaderMap, HeaderValue, header};
use service_kit::http::quality_values;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    /// One JSON object per line.
    Lines,
    /// A header row and one record per item.
    Csv,
}

impl Format {
    /// Returns the supported format with the highest weight, the first of several with equal weight, or JSON if no accepted format is
    /// supported.
    pub(crate) fn accepted(headers: &HeaderMap) -> Self {
        let mut best = (0, Self::Json);
        for (range, weight) in quality_values(headers, &header::ACCEPT) {
            if let Some(format) = Self::named(range)
                && weight > best.0
            {
                best = (weight, format);
            }
        }
        best.1
    }

    /// Returns whether CSV begins with a byte order mark, without which some spreadsheets misread letters: `text/csv; bom=1`.
    pub(crate) fn has_mark(headers: &HeaderMap) -> bool {
        let lists = headers.get_all(header::ACCEPT).iter().filter_map(|list| list.to_str().ok());
        lists.flat_map(|list| list.split(',')).any(|range| {
            let mut parts = range.split(';').map(str::trim);
            parts.next().is_some_and(|name| name.eq_ignore_ascii_case("text/csv")) && parts.any(|part| part == "bom=1")
        })
    }

    fn named(range: &str) -> Option<Self> {
        match range.to_ascii_lowercase().as_str() {
            "application/json" | "application/*" | "*/*" => Some(Self::Json),
            "application/x-ndjson" | "application/ndjson" | "application/jsonl" => Some(Self::Lines),
            "text/csv" | "text/*" => Some(Self::Csv),
            _ => None,
        }
    }

    pub(super) fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Json => "application/json",
            Self::Lines => "application/x-ndjson",
            Self::Csv => "text/csv; charset=utf-8",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_a_byte_order_mark_on_request() {
        for (accept, expected) in [
            ("text/csv; bom=1", true),
            ("application/json;q=0.1, TEXT/CSV;q=0.9;bom=1", true),
            ("text/csv", false),
            ("text/csv; bom=0", false),
            ("application/json; bom=1, text/csv", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(Format::has_mark(&headers), expected, "{accept}");
        }
    }

    #[test]
    fn selects_the_preferred_format() {
        for (accept, expected) in [
            ("", Format::Json),
            ("*/*", Format::Json),
            ("text/csv", Format::Csv),
            ("TEXT/CSV; header=present", Format::Csv),
            ("application/x-ndjson", Format::Lines),
            ("application/json, text/csv", Format::Json),
            ("application/json;q=0.1, text/csv;q=0.5, application/x-ndjson;q=0.4", Format::Csv),
            ("text/csv;q=0, */*", Format::Json),
            ("image/png", Format::Json),
            ("text/csv;q=x", Format::Json),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(Format::accepted(&headers), expected, "{accept}");
        }
    }
}
