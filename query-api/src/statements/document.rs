//! The statement document (docs/api/statements.md#statement). Members are in canonical order, and serde_json writes strings as RFC 8785
//! requires, so serializing a document returns its canonical form.

use super::figures::{Line, Totals};
use super::keys::Keys;
use schemas::ids::OrgId;
use schemas::problem::Code;
pub(crate) use schemas::statement_responses::StatementBy as By;
use serde::{Deserialize, Serialize};
use service_kit::http::ApiError;
use sha2::{Digest, Sha256};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Statement {
    pub(crate) by: By,
    pub(crate) closed: String,
    pub(crate) corrections: Option<Corrections>,
    pub(crate) counting_rules: u8,
    pub(crate) document_type: String,
    pub(crate) evidence: Evidence,
    pub(crate) hosts: Vec<String>,
    pub(crate) lines: Vec<Line>,
    pub(crate) number: i64,
    pub(crate) operator: Option<String>,
    pub(crate) owner: Owner,
    pub(crate) period: String,
    pub(crate) previous: Option<String>,
    pub(crate) revision: i64,
    pub(crate) service: String,
    /// Absent until the document is signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signature: Option<Signature>,
    pub(crate) totals: Totals,
    pub(crate) version: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Evidence {
    pub(crate) hours: i64,
    pub(crate) reports: i64,
    pub(crate) sha256: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    pub(crate) id: OrgId,
    pub(crate) name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Signature {
    pub(crate) keyid: String,
    pub(crate) value: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Corrections {
    pub(crate) changes: Vec<Change>,
    pub(crate) late_reports: i64,
    pub(crate) other_reports: i64,
    pub(crate) revises: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Change {
    pub(crate) after: u64,
    pub(crate) before: u64,
    pub(crate) content: String,
    pub(crate) figure: String,
    pub(crate) host: String,
    pub(crate) license: String,
}

impl Statement {
    /// Signs the document, which has no signature yet, and returns it.
    pub(super) fn sign(&mut self, keys: &Keys) -> serde_json::Result<String> {
        let signature = Signature { keyid: keys.key_id(), value: keys.sign(&serde_json::to_string(self)?) };
        self.signature = Some(signature);
        serde_json::to_string(self)
    }
}

pub(super) fn sha256(text: &[u8]) -> String {
    hex(&Sha256::digest(text))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes of a document, so that closing and converting it use little memory.
pub(super) const MAX_BYTES: usize = 32 << 20;
/// Bytes of a change without its names.
const CHANGE_BYTES: usize = 120;

pub(super) fn too_large() -> ApiError {
    let detail = format!("The statement would be larger than {} MiB. Use \"by\": \"section\".", MAX_BYTES >> 20);
    ApiError::new(Code::TooLarge, detail)
}

/// Returns the maximum length of a text in JSON, without quotes.
pub(super) fn json_bytes(text: &str) -> usize {
    text.bytes().map(|byte| if byte < b' ' { 6 } else { 1 + usize::from(byte == b'"' || byte == b'\\') }).sum()
}

/// Returns the figures that differ, or 413 if they need more than `most` bytes. Both lists of lines are sorted by key.
pub(super) fn changes(before: &[Line], after: &[Line], mut most: usize) -> Result<Vec<Change>, ApiError> {
    let (mut before, mut after) = (before.iter().peekable(), after.iter().peekable());
    let mut changes = Vec::new();
    loop {
        let order = match (before.peek(), after.peek()) {
            (None, None) => return Ok(changes),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => old.key().cmp(&new.key()),
        };
        let old = if order.is_le() { before.next() } else { None };
        let new = if order.is_ge() { after.next() } else { None };
        for change in line_changes(old, new) {
            let names = [&change.host, &change.content, &change.license, &change.figure].map(|name| json_bytes(name));
            most = most.checked_sub(CHANGE_BYTES + names.iter().sum::<usize>()).ok_or_else(too_large)?;
            changes.push(change);
        }
    }
}

fn line_changes(old: Option<&Line>, new: Option<&Line>) -> Vec<Change> {
    let Some(named) = old.or(new) else { return Vec::new() };
    let [before, after] = [old, new].map(|line| line.map(Line::by_path).unwrap_or_default());
    let paths: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let figure = |figures: &BTreeMap<String, u64>, path: &String| figures.get(path).copied().unwrap_or(0);
    let change = |path: &String| Change {
        after: figure(&after, path),
        before: figure(&before, path),
        content: named.content.clone(),
        figure: path.clone(),
        host: named.host.clone(),
        license: named.license.clone(),
    };
    paths.into_iter().map(change).filter(|change| change.before != change.after).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statements::figures::{Measure, Tiers};

    fn line(content: &str, fetches: u64, sessions: u64) -> Line {
        let events = [(Measure("fetch".to_owned()), Tiers { claimed: fetches, ..Tiers::default() })].into();
        Line { host: "a.test".to_owned(), content: content.to_owned(), events, sessions, ..Line::default() }
    }

    #[test]
    fn changes_list_figures_that_differ() {
        let (before, after) = ([line("a", 1, 1), line("c", 2, 1)], [line("b", 3, 0), line("c", 2, 2)]);
        let found = changes(&before, &after, MAX_BYTES).unwrap();
        let needed = serde_json::to_string(&found).unwrap().len();
        assert_eq!(changes(&before, &after, needed).unwrap_err().code(), Code::TooLarge);
        let found: Vec<_> =
            found.iter().map(|change| (change.content.as_str(), change.figure.as_str(), change.before, change.after)).collect();
        let expected = [
            ("a", "events.fetch.claimed", 1, 0),
            ("a", "sessions", 1, 0),
            ("b", "events.fetch.claimed", 0, 3),
            ("c", "sessions", 1, 2),
        ];
        assert_eq!(found, expected);
        assert_eq!(changes(&before, &before, 0).unwrap(), []);
    }

    #[test]
    fn measures_are_sorted_by_utf16() {
        let [astral, private] = ["\u{1f600}", "\u{fb33}"].map(|name| Measure(name.to_owned()));
        assert!(astral < private && astral.0 > private.0);
    }
}
