//! Rows of the evidence file.

use crate::canonical::MAX_INTEGER;
use serde::{Deserialize, Serialize};

/// An accepted report. Row members are in canonical order, and serde_json writes them in canonical form.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) accepted_us: i64,
    pub(crate) at_ms: i64,
    pub(crate) bot: String,
    pub(crate) click: bool,
    pub(crate) content_id: String,
    pub(crate) drain: String,
    pub(crate) group: Option<String>,
    pub(crate) host: String,
    pub(crate) identity: String,
    pub(crate) license: String,
    pub(crate) operator: String,
    pub(crate) organization: String,
    pub(crate) owner: bool,
    pub(crate) place: i64,
    pub(crate) response: Option<String>,
    pub(crate) role: Role,
    row: ReportTag,
    pub(crate) session: Option<String>,
    pub(crate) signature: Signature,
    pub(crate) status: Option<i64>,
    pub(crate) r#type: String,
    pub(crate) url: String,
}

/// A bot's log line whose request returned no content. It counts as a request, but isn't an event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LogLine {
    pub(crate) accepted_us: i64,
    pub(crate) at_ms: i64,
    pub(crate) bot: String,
    pub(crate) host: String,
    pub(crate) identity: String,
    pub(crate) operator: String,
    pub(crate) place: i64,
    row: LineTag,
    pub(crate) status: i64,
    pub(crate) url: String,
}

/// An hour with server data.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hour {
    pub(crate) at_ms: i64,
    pub(crate) host: String,
    row: HourTag,
}

/// Roles, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    Agent,
    Edge,
    Origin,
    Index,
    #[serde(rename = "")]
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Signature {
    Valid,
    Invalid,
    None,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum ReportTag {
    #[serde(rename = "report")]
    Report,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum LineTag {
    #[serde(rename = "line")]
    Line,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum HourTag {
    #[serde(rename = "hour")]
    Hour,
}

#[derive(Clone, Debug)]
pub(crate) enum Row {
    Hour(Hour),
    Report(Box<Report>),
    Line(LogLine),
}

#[derive(Deserialize)]
struct Tag {
    row: String,
}

/// A row's position in the file: hours by time and host, then reports and lines by event and acceptance.
pub(crate) type Place = (u8, String, i64, i64, String);

impl Row {
    /// Parses a row without its line break. Returns `None` unless it has the documented form.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let tag: Tag = serde_json::from_slice(text).ok()?;
        let (row, written) = match tag.row.as_str() {
            "hour" => {
                let hour: Hour = serde_json::from_slice(text).ok()?;
                let written = serde_json::to_vec(&hour).ok()?;
                (Self::Hour(hour), written)
            }
            "report" => {
                let report: Report = serde_json::from_slice(text).ok()?;
                let written = serde_json::to_vec(&report).ok()?;
                (Self::Report(Box::new(report)), written)
            }
            "line" => {
                let line: LogLine = serde_json::from_slice(text).ok()?;
                let written = serde_json::to_vec(&line).ok()?;
                (Self::Line(line), written)
            }
            _ => return None,
        };
        (written == text && row.has_valid_values()).then_some(row)
    }

    fn has_valid_values(&self) -> bool {
        let is_number = |number: i64| (0..=MAX_INTEGER).contains(&number);
        match self {
            Self::Hour(hour) => is_number(hour.at_ms) && hour.at_ms % 3_600_000 == 0 && !hour.host.is_empty(),
            Self::Line(line) => {
                [line.accepted_us, line.at_ms, line.place, line.status].into_iter().all(is_number)
                    && is_hex(&line.identity, 32)
                    && has_url(&line.host, &line.url)
                    && !(200..300).contains(&line.status)
            }
            Self::Report(report) => {
                [report.accepted_us, report.at_ms, report.place, report.status.unwrap_or(0)].into_iter().all(is_number)
                    && is_hex(&report.identity, 32)
                    && report.group.as_ref().is_none_or(|key| is_hex(key, 32) && report.r#type == "content_retrieved")
                    && [&report.session, &report.response].into_iter().flatten().all(|digest| is_hex(digest, 16))
                    && (report.status.is_some() || report.bot.is_empty())
                    && if report.url.is_empty() {
                        report.host.is_empty() && !report.content_id.is_empty()
                    } else {
                        has_url(&report.host, &report.url)
                    }
            }
        }
    }

    pub(crate) fn place(&self) -> Place {
        let report = |key: &String, accepted_us, place, identity: &String| (1, key.clone(), accepted_us, place, identity.clone());
        match self {
            Self::Hour(hour) => (0, String::new(), hour.at_ms, 0, hour.host.clone()),
            Self::Report(one) => report(one.group.as_ref().unwrap_or(&one.identity), one.accepted_us, one.place, &one.identity),
            Self::Line(one) => report(&one.identity, one.accepted_us, one.place, &one.identity),
        }
    }

    pub(crate) fn identity(&self) -> &str {
        match self {
            Self::Hour(_) => "",
            Self::Report(report) => &report.identity,
            Self::Line(line) => &line.identity,
        }
    }

    /// Returns the time of acceptance in microseconds since 1970, which hours don't have.
    pub(crate) fn accepted_us(&self) -> i64 {
        match self {
            Self::Hour(_) => i64::MIN,
            Self::Report(report) => report.accepted_us,
            Self::Line(line) => line.accepted_us,
        }
    }

    pub(crate) fn host(&self) -> &str {
        match self {
            Self::Hour(hour) => &hour.host,
            Self::Report(report) => &report.host,
            Self::Line(line) => &line.host,
        }
    }
}

pub(crate) fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn has_url(host: &str, url: &str) -> bool {
    !host.is_empty() && (url.starts_with("http://") || url.starts_with("https://"))
}

/// Returns whether `host` equals `above` or is a subdomain of it.
pub(crate) fn is_within(host: &str, above: &str) -> bool {
    host.strip_suffix(above).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}
