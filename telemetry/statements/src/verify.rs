//! Compares a statement with its evidence, its signature and earlier statements.

use crate::count::Count;
use crate::evidence::{Place, Row};
use crate::figures::{Figures, Totals};
use crate::statement::{Change, Compared, Corrections, LineKey, Statement, Times, compare, line_figures, sha256};
use data_encoding::{BASE64, HEXLOWER};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use signatures::{manifest_keys, verify_base};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead};

/// Maximum number of printed differences.
const SHOWN: usize = 20;
const FORM: &str = "must have the documented members and values, in canonical form";
const NOTE: &str = "Proof of access is not proof of grounding, and a valid signature is not truth.";

/// The result. Prints what was checked and the first differences.
#[derive(Debug, Default)]
pub struct Verification {
    /// The statement's identity, and what was or wasn't checked.
    pub checks: Vec<String>,
    /// The faults, in the order of the checks.
    pub differences: Vec<String>,
}

impl Verification {
    pub fn is_ok(&self) -> bool {
        self.differences.is_empty()
    }

    fn check(&mut self, what: &str, found: Vec<String>) {
        if found.is_empty() {
            self.checks.push(format!("verified: {what}"));
        }
        self.differences.extend(found);
    }
}

impl fmt::Display for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.checks.iter().try_for_each(|check| writeln!(f, "{check}"))?;
        self.differences.iter().take(SHOWN).try_for_each(|difference| writeln!(f, "different: {difference}"))?;
        match self.differences.len() {
            0 => writeln!(f, "{NOTE}"),
            count if count > SHOWN => writeln!(f, "{} more differences", count - SHOWN),
            _ => Ok(()),
        }
    }
}

/// Verifies a statement. `previous` contains earlier statements that it names, and `manifest` the service's keys.
pub fn verify(
    statement: &[u8],
    evidence: impl BufRead,
    previous: &[Vec<u8>],
    manifest: Option<&[u8]>,
) -> io::Result<Verification> {
    let mut result = Verification::default();
    let Some((parsed, times)) = Statement::parse(statement) else {
        result.differences.push(format!("statement: {FORM}"));
        return Ok(result);
    };
    let Statement { number, owner, period, revision, operator, .. } = &parsed;
    let operator = operator.as_deref().unwrap_or("all operators");
    result.checks.push(format!("statement {number} of {}: {period}, revision {revision}, {operator}", owner.name));
    result.checks.push(format!("SHA-256: {}", sha256(statement)));
    match manifest {
        Some(manifest) => result.check(&format!("signature by {}", parsed.signature.keyid), signature(&parsed, times, manifest)),
        None => result.checks.push("not checked: signature (--manifest)".to_owned()),
    }
    let revised = chain(&parsed, previous, &mut result);
    let Some(count) = recount(&parsed, times, revised.as_ref(), evidence, &mut result)? else { return Ok(result) };
    if let (Some(corrections), Some((revised, _))) = (&parsed.corrections, &revised) {
        result.check("corrections", self::corrections(&parsed, corrections, revised, count));
    }
    Ok(result)
}

fn signature(statement: &Statement, times: Times, manifest: &[u8]) -> Vec<String> {
    let key_id = &statement.signature.keyid;
    let fail = |text: String| vec![format!("signature: {text}")];
    let keys = manifest_keys(manifest).unwrap_or_default();
    let is_named = |key: &&signatures::Key| key.id.as_ref() == Some(key_id) || key.public.thumbprint() == *key_id;
    let Some(key) = keys.iter().find(is_named) else { return fail(format!("the manifest is invalid or has no key {key_id}")) };
    if key.expires.is_some_and(|expires| expires * 1_000 <= times.closed_ms) {
        return fail(format!("key {key_id} expired before the statement was closed"));
    }
    let value = BASE64.decode(statement.signature.value.as_bytes()).ok().and_then(|value| <[u8; 64]>::try_from(value).ok());
    let signed = statement.signed_text().unwrap_or_default();
    if value.is_some_and(|value| verify_base(&signed, &value, &key.public)) {
        return Vec::new();
    }
    fail(format!("key {key_id} did not sign this statement"))
}

/// Checks the earlier statements. Returns the one that this statement revises.
fn chain(statement: &Statement, previous: &[Vec<u8>], result: &mut Verification) -> Option<(Statement, Times)> {
    let revises = statement.corrections.as_ref().map(|corrections| &corrections.revises);
    let (mut revised, mut has_previous) = (None, statement.previous.is_none());
    for text in previous {
        let Some((earlier, times)) = Statement::parse(text) else {
            result.differences.push(format!("earlier statement: {FORM}"));
            continue;
        };
        let hash = sha256(text);
        let is_previous = statement.previous.as_ref() == Some(&hash);
        if is_previous {
            let members = |one: &Statement, number: i64| {
                compared([("number", json!(number)), ("operator", json!(one.operator)), ("owner", json!(one.owner.id))])
            };
            let (stated, actual) = (members(statement, statement.number), members(&earlier, earlier.number + 1));
            result.check("chain", compare("chain", &stated, &actual));
            has_previous = true;
        }
        if revises == Some(&hash) {
            let members = |one: &Statement, revision: i64| {
                let Statement { by, operator, period, owner, .. } = one;
                let scope =
                    [("by", json!(by)), ("operator", json!(operator)), ("owner", json!(owner.id)), ("period", json!(period))];
                compared(scope.into_iter().chain([("revision", json!(revision))]))
            };
            let (stated, actual) = (members(statement, statement.revision), members(&earlier, earlier.revision + 1));
            result.check("revised statement", compare("revised", &stated, &actual));
            revised = Some((earlier, times));
        } else if !is_previous {
            result.differences.push(format!("chain: the statement names no earlier one with SHA-256 {hash}"));
        }
    }
    if !has_previous {
        result.checks.push("not checked: chain (--previous)".to_owned());
    }
    if revises.is_some() && revised.is_none() {
        result.checks.push("not checked: corrections (--previous)".to_owned());
    }
    revised
}

fn compared<'a>(values: impl IntoIterator<Item = (&'a str, Value)>) -> Compared {
    values.into_iter().map(|(name, value)| (vec![name.to_owned()], value)).collect()
}

/// Recounts the statement and compares its figures. Returns the number of late reports, or `None` if the evidence is invalid.
fn recount(
    statement: &Statement,
    times: Times,
    revised: Option<&(Statement, Times)>,
    mut evidence: impl BufRead,
    result: &mut Verification,
) -> io::Result<Option<i64>> {
    let mut hash = Sha256::new();
    let mut count = Count::new(statement, times);
    let (mut number, mut last, mut late) = (0, None, 0);
    let mut broken = None;
    let mut line = Vec::new();
    while evidence.read_until(b'\n', &mut line)? > 0 {
        hash.update(&line);
        number += 1;
        if broken.is_none() {
            let read = row(number, &line, &mut last).and_then(|(place, row)| {
                late += i64::from(revised.is_some_and(|(_, earlier)| row.accepted_us() >= earlier.closed_ms * 1_000));
                count.add(number, &place.1, row)
            });
            broken = read.err();
        }
        line.clear();
    }
    let hash = HEXLOWER.encode(&hash.finalize());
    let (reports, hours) = (count.reports, count.hours);
    let counted = broken.map_or_else(|| count.finish(), Err);
    let stated = &statement.evidence;
    let (mut named, mut actual) = (compared([("sha256", json!(stated.sha256))]), compared([("sha256", json!(hash))]));
    if counted.is_ok() {
        named.extend(compared([("hours", json!(stated.hours)), ("reports", json!(stated.reports))]));
        actual.extend(compared([("hours", json!(hours)), ("reports", json!(reports))]));
    }
    let found = compare("evidence", &named, &actual).into_iter().chain(counted.as_ref().err().cloned());
    result.check(&format!("evidence (reports: {reports}, hours: {hours})"), found.collect());
    let Ok((lines, totals)) = counted else { return Ok(None) };
    result.check(&format!("totals and lines ({})", lines.len()), lines_and_totals(statement, &lines, &totals));
    Ok(Some(late))
}

fn row(number: usize, line: &[u8], last: &mut Option<Place>) -> Result<(Place, Row), String> {
    let row = line.strip_suffix(b"\n").and_then(Row::parse);
    let row = row.ok_or_else(|| format!("evidence row {number}: {FORM}"))?;
    let place = row.place();
    if last.as_ref() >= Some(&place) {
        return Err(format!("evidence row {number}: must be sorted after the row before it"));
    }
    *last = Some(place.clone());
    Ok((place, row))
}

fn lines_and_totals(statement: &Statement, lines: &BTreeMap<LineKey, Figures>, totals: &Totals) -> Vec<String> {
    let mut found = Vec::new();
    if !statement.lines.is_sorted_by(|a, b| a.key() < b.key()) {
        found.push("lines: must be sorted, each once".to_owned());
    }
    let lines = lines.iter().flat_map(|(key, figures)| line_figures(key, figures)).collect();
    found.extend(compare("line", &statement.figures(), &lines));
    let by_path = |totals: &Totals| totals.by_path().into_iter().map(|(path, figure)| (vec![path], json!(figure))).collect();
    found.extend(compare("total", &by_path(&statement.totals), &by_path(totals)));
    found
}

fn corrections(statement: &Statement, stated: &Corrections, revised: &Statement, late: i64) -> Vec<String> {
    let other = statement.evidence.reports - revised.evidence.reports - late;
    let reports = |late: i64, other: i64| compared([("late_reports", json!(late)), ("other_reports", json!(other))]);
    let mut found = compare("corrections", &reports(stated.late_reports, stated.other_reports), &reports(late, other));
    let place = |change: &Change| [&change.host, &change.content, &change.license, &change.figure].map(String::clone).to_vec();
    if !stated.changes.is_sorted_by(|a, b| place(a) < place(b)) {
        found.push("changes: must be sorted, each once".to_owned());
    }
    let stated = stated.changes.iter().map(|change| (place(change), json!([change.before, change.after]))).collect();
    let (before, after) = (revised.figures(), statement.figures());
    let figure = |figures: &Compared, place: &Vec<String>| figures.get(place).cloned().unwrap_or_else(|| json!(0));
    let pairs = before.keys().chain(after.keys()).map(|place| (place.clone(), [figure(&before, place), figure(&after, place)]));
    let actual = pairs.filter(|(_, [before, after])| before != after).map(|(place, pair)| (place, json!(pair))).collect();
    found.extend(compare("change", &stated, &actual));
    found
}
