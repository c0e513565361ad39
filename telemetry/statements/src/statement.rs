//! The statement document.

use crate::canonical::canonical;
use crate::evidence::is_hex;
use crate::figures::{Figures, Totals};
use chrono::{DateTime, Datelike, Months, NaiveDate, NaiveTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Statement {
    pub(crate) by: By,
    pub(crate) closed: String,
    pub(crate) corrections: Option<Corrections>,
    pub(crate) counting_rules: i64,
    pub(crate) document_type: String,
    pub(crate) evidence: EvidenceFile,
    pub(crate) hosts: Vec<String>,
    pub(crate) lines: Vec<Line>,
    pub(crate) number: i64,
    pub(crate) operator: Option<String>,
    pub(crate) owner: Owner,
    pub(crate) period: String,
    pub(crate) previous: Option<String>,
    pub(crate) revision: i64,
    pub(crate) service: String,
    pub(crate) signature: Signature,
    pub(crate) totals: Totals,
    pub(crate) version: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum By {
    Url,
    Section,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EvidenceFile {
    pub(crate) hours: i64,
    pub(crate) reports: i64,
    pub(crate) sha256: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Owner {
    pub(crate) id: String,
    pub(crate) name: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Signature {
    pub(crate) keyid: String,
    pub(crate) value: String,
}

/// A line's host, content and license.
pub(crate) type LineKey = (String, String, String);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) content: String,
    pub(crate) host: String,
    pub(crate) license: String,
    #[serde(flatten)]
    pub(crate) figures: Figures,
}

impl Line {
    pub(crate) fn key(&self) -> LineKey {
        (self.host.clone(), self.content.clone(), self.license.clone())
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Corrections {
    pub(crate) changes: Vec<Change>,
    pub(crate) late_reports: i64,
    pub(crate) other_reports: i64,
    pub(crate) revises: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Change {
    pub(crate) after: i64,
    pub(crate) before: i64,
    pub(crate) content: String,
    pub(crate) figure: String,
    pub(crate) host: String,
    pub(crate) license: String,
}

/// Times in milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) since_ms: i64,
    pub(crate) until_ms: i64,
    pub(crate) closed_ms: i64,
}

impl Statement {
    /// Parses a statement. Returns `None` unless it has the documented form.
    pub(crate) fn parse(text: &[u8]) -> Option<(Self, Times)> {
        // The text is rebuilt from the statement, so unknown, missing or repeated members change it.
        let statement: Self = serde_json::from_slice(text).ok()?;
        let rebuilt = canonical(&serde_json::to_value(&statement).ok()?)?;
        let times = statement.times()?;
        let has_valid_values = (statement.document_type.as_str(), statement.version, statement.counting_rules)
            == ("statement", 1, 1)
            && times.until_ms <= times.closed_ms
            && statement.hosts.is_sorted_by(|a, b| a < b)
            && statement.number >= 1
            && statement.revision >= 1
            && (statement.number == 1) == statement.previous.is_none()
            && (statement.revision == 1) == statement.corrections.is_none()
            && statement.hashes().all(|hash| is_hex(hash, 64));
        (rebuilt.as_bytes() == text && has_valid_values).then_some((statement, times))
    }

    fn hashes(&self) -> impl Iterator<Item = &String> {
        let revises = self.corrections.as_ref().map(|corrections| &corrections.revises);
        std::iter::once(&self.evidence.sha256).chain(&self.previous).chain(revises)
    }

    fn times(&self) -> Option<Times> {
        let first = NaiveDate::parse_from_str(&format!("{}-01", self.period), "%Y-%m-%d").ok()?;
        let closed = DateTime::parse_from_rfc3339(&self.closed).ok()?.with_timezone(&Utc);
        let is_exact = first.format("%Y-%m").to_string() == self.period
            && (1970..=9998).contains(&first.year())
            && closed.format("%Y-%m-%dT%H:%M:%SZ").to_string() == self.closed
            // A leap second can't be represented.
            && !self.closed.ends_with(":60Z");
        let ms = |day: NaiveDate| day.and_time(NaiveTime::MIN).and_utc().timestamp_millis();
        let until_ms = ms(first.checked_add_months(Months::new(1))?);
        is_exact.then(|| Times { since_ms: ms(first), until_ms, closed_ms: closed.timestamp_millis() })
    }

    /// Returns the signed text: the canonical form without the member `signature`.
    pub(crate) fn signed_text(&self) -> Option<String> {
        let mut value = serde_json::to_value(self).ok()?;
        value.as_object_mut()?.remove("signature");
        canonical(&value)
    }

    /// Returns the figures of all lines by host, content, license and path.
    pub(crate) fn figures(&self) -> Compared {
        let lines = self.lines.iter().map(|line| (line.key(), &line.figures));
        lines.flat_map(|(key, figures)| line_figures(&key, figures)).collect()
    }
}

/// Values to compare by their place in the document.
pub(crate) type Compared = BTreeMap<Vec<String>, Value>;

pub(crate) fn line_figures((host, content, license): &LineKey, figures: &Figures) -> Compared {
    let place = |path| vec![host.clone(), content.clone(), license.clone(), path];
    figures.by_path().into_iter().map(|(path, figure)| (place(path), figure.into())).collect()
}

/// Describes the values that differ.
pub(crate) fn compare(what: &str, stated: &Compared, actual: &Compared) -> Vec<String> {
    let mut places: Vec<_> = stated.keys().chain(actual.keys()).collect();
    places.sort();
    places.dedup();
    let text = |value: Option<&Value>| value.map_or("missing".to_owned(), Value::to_string);
    let differ = places.into_iter().filter(|place| stated.get(*place) != actual.get(*place));
    let describe = |place: &Vec<String>| {
        let name = Value::from(place.clone());
        format!("{what} {name}: is {}, must be {}", text(stated.get(place)), text(actual.get(place)))
    };
    differ.map(describe).collect()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(bytes))
}
