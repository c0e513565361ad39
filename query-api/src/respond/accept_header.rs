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
