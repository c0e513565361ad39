//! What the lines of each provider say (docs/api/drains.md#fields).
//!
//! Must not decide what is kept: a format reads, and the same rules hold for all.

mod akamai;
mod cloudflare;
mod combined;
mod firehose;
mod ndjson;
mod vercel;

use super::line::{Fields, Reason};
use percent_encoding::percent_decode_str;
use schemas::identity::DrainProvider;

pub(super) use firehose::record_lines;

/// Why a line tells of no request.
#[derive(Debug)]
pub(super) enum NoRequest {
    /// It cannot be read.
    Bad(Reason),
    /// The provider sends it to try the destination.
    Trial,
    /// It is about something else that the provider logs.
    Other,
}

impl From<Reason> for NoRequest {
    fn from(reason: Reason) -> Self {
        Self::Bad(reason)
    }
}

/// Reads one line.
pub(super) fn parse(provider: DrainProvider, line: &[u8]) -> Result<Fields<'_>, NoRequest> {
    let line = std::str::from_utf8(line).map_err(|_| "not_utf8")?;
    match provider {
        DrainProvider::Cloudflare => cloudflare::parse(line),
        DrainProvider::Fastly | DrainProvider::Ndjson => ndjson::parse(line),
        DrainProvider::Firehose => firehose::parse(line),
        DrainProvider::Akamai => akamai::parse(line),
        DrainProvider::Vercel => vercel::parse(line),
        DrainProvider::Combined => combined::parse(line),
    }
}

/// A text without its percent escapes, where it has any.
fn unescaped(text: &str) -> Option<String> {
    text.contains('%').then(|| percent_decode_str(text).decode_utf8_lossy().into_owned())
}

/// The value of the correlation header among other headers, as `name: value` or `name=value`, one a line or between commas.
fn telemetry_id_in(headers: &str) -> Option<&str> {
    let headers = headers.split(['\n', '\r', ',', ';']);
    let named = headers.filter_map(|header| header.trim().split_once([':', '=']));
    named.filter(|(name, _)| name.trim().eq_ignore_ascii_case("content-telemetry-id")).map(|(_, value)| value.trim()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_correlation_header_is_found_among_others() {
        for headers in
            ["host:a.test\ncontent-telemetry-id: t-1\n", "a=1;Content-Telemetry-ID=t-1", "x:y,content-telemetry-id:t-1,z:1"]
        {
            assert_eq!(telemetry_id_in(headers), Some("t-1"), "{headers:?}");
        }
        for headers in ["", "x-content-telemetry-id:t-1", "content-telemetry-id", "t-1"] {
            assert_eq!(telemetry_id_in(headers), None, "{headers:?}");
        }
    }

    #[test]
    fn no_format_panics_on_anything() {
        let long = "a ".repeat(5_000);
        let tabs = "\t".repeat(10_000);
        let deep = format!("{{\"a\":{}", "[".repeat(10_000));
        for line in ["", "{", "{}", "[]", "null", "\u{feff}{}", "- - - [] \"\"", "\"\"\"\"", "%", "%zz", &long, &tabs, &deep] {
            for provider in DrainProvider::ALL {
                drop(parse(provider, line.as_bytes()));
                assert!(parse(provider, b"\xff\xfe{\x00}\x00").is_err());
            }
        }
    }
}
