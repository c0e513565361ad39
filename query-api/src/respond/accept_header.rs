//! Which form of a list `Accept` asks for: JSON, CSV or newline-delimited JSON (docs/api/reads.md#formats).

use axum::http::{HeaderMap, HeaderValue, header};

/// How a list is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    /// One item a line.
    Lines,
    /// A header and one record an item.
    Csv,
}

impl Format {
    /// The format that the caller likes best of those served; the envelope when none of them is named.
    pub(crate) fn accepted(headers: &HeaderMap) -> Self {
        let lists = headers.get_all(header::ACCEPT).iter().filter_map(|list| list.to_str().ok());
        let mut best = (0.0, Self::Json);
        for (format, weight) in lists.flat_map(|list| list.split(',')).filter_map(Self::weighed) {
            // The first of equals.
            if weight > best.0 {
                best = (weight, format);
            }
        }
        best.1
    }

    fn weighed(range: &str) -> Option<(Self, f32)> {
        let mut parts = range.split(';').map(str::trim);
        let format = match parts.next()?.to_ascii_lowercase().as_str() {
            "application/json" | "application/*" | "*/*" => Self::Json,
            "application/x-ndjson" | "application/ndjson" | "application/jsonl" => Self::Lines,
            "text/csv" | "text/*" => Self::Csv,
            _ => return None,
        };
        let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(Some(1.0), |weight| weight.parse().ok());
        Some((format, weight?))
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
    fn the_format_is_what_the_caller_likes_best() {
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
