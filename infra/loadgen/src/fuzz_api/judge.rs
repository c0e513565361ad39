//! Holds every answer to the document, and counts.
//!
//! Must keep a failure with all that is needed to see it again.

use super::contract::Contract;
use super::shots::{LARGE_BODY, Shot};
use super::wire::{Answer, HANG};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Failures that are told in full; the rest is counted.
const TOLD: usize = 20;
/// A body longer than this is cut in a curl line.
const MAX_CURL_BODY: usize = 2_000;

/// What a run found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Requests that left.
    pub sent: u64,
    /// By operation and status.
    pub counts: BTreeMap<(String, u16), u64>,
    /// Of bodies over every limit, how many were cut off without an answer.
    pub cut_off: u64,
    /// How many broke a rule.
    pub failed: u64,
    /// The first of each kind.
    pub failures: Vec<String>,
    /// Operations that never answered 2xx or 3xx.
    pub never_done: Vec<String>,
}

#[derive(Default)]
pub(super) struct Judge(Mutex<Heard>);

#[derive(Default)]
struct Heard {
    findings: Findings,
    kinds: BTreeMap<String, u64>,
}

impl Judge {
    pub(super) fn judge(&self, contract: &Contract, base: &str, shot: &Shot, heard: Result<Answer, String>) {
        let operation = &contract.operations[shot.operation];
        let fault = match &heard {
            // refused by its length and closed: what is still being written then may tear the answer away with it
            Err(why) if why != HANG && shot.body.as_ref().is_some_and(|body| body.len() >= LARGE_BODY) => None,
            Err(why) => Some(why.clone()),
            Ok(answer) => check(contract, shot, answer).err(),
        };
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inside.findings.sent += 1;
        inside.findings.cut_off += u64::from(heard.is_err() && fault.is_none());
        if let Ok(answer) = &heard {
            let name = if shot.is_astray { "(another path or method)" } else { &operation.id };
            *inside.findings.counts.entry((name.to_owned(), answer.status)).or_default() += 1;
        }
        let Some(why) = fault else { return };
        inside.findings.failed += 1;
        let kind = format!("{}: {}", operation.id, why.split(':').take(2).collect::<String>());
        let seen = inside.kinds.entry(kind).or_default();
        *seen += 1;
        if *seen == 1 && inside.findings.failures.len() < TOLD {
            let body = heard.map(|answer| String::from_utf8_lossy(&answer.body).into_owned()).unwrap_or_default();
            let told = format!("{}: {why}\n  {}\n  answered {body:.600}", operation.id, curl(base, shot));
            inside.findings.failures.push(told);
        }
    }

    pub(super) fn findings(&self, contract: &Contract) -> Findings {
        let mut findings = self.0.lock().unwrap_or_else(PoisonError::into_inner).findings.clone();
        let done = |id: &str| findings.counts.keys().any(|(name, status)| name == id && *status < 400);
        findings.never_done = contract.operations.iter().map(|operation| operation.id.clone()).filter(|id| !done(id)).collect();
        findings
    }
}

fn check(contract: &Contract, shot: &Shot, answer: &Answer) -> Result<(), String> {
    let operation = &contract.operations[shot.operation];
    if answer.status >= 500 && answer.status != 503 {
        return Err(format!("answered {}", answer.status));
    }
    if shot.method == "HEAD" {
        return Ok(());
    }
    if shot.is_astray {
        let is_error = answer.status >= 400;
        return if is_error { contract.check_problem(answer.status, &answer.content_type, &answer.body) } else { Ok(()) };
    }
    contract.check(operation, answer.status, &answer.content_type, &answer.body)
}

/// The request for a shell.
fn curl(base: &str, shot: &Shot) -> String {
    let quoted = |text: &[u8]| format!("$'{}'", text.escape_ascii());
    let mut line = format!("curl -isg --path-as-is -X {} {}", shot.method, quoted(format!("{base}{}", shot.target).as_bytes()));
    for (name, value) in &shot.headers {
        line += &format!(" -H {}", quoted(&[name.as_bytes(), b": ", value].concat()));
    }
    match &shot.body {
        Some(body) if body.len() > MAX_CURL_BODY => {
            line += &format!(" --data-binary {} # {} bytes in all", quoted(&body[..MAX_CURL_BODY]), body.len());
        }
        Some(body) => line += &format!(" --data-binary {}", quoted(body)),
        None => {}
    }
    line
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut operations: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let mut statuses: BTreeMap<u16, u64> = BTreeMap::new();
        for ((operation, status), count) in &self.counts {
            operations.entry(operation).or_default().push(format!("{status}: {count}"));
            *statuses.entry(*status).or_default() += count;
        }
        for (operation, counts) in operations {
            writeln!(f, "{operation:<34} {}", counts.join("  "))?;
        }
        let statuses: Vec<_> = statuses.iter().map(|(status, count)| format!("{status}: {count}")).collect();
        writeln!(f, "{:<34} {}", "all", statuses.join("  "))?;
        if !self.never_done.is_empty() {
            writeln!(f, "never answered 2xx or 3xx: {}", self.never_done.join(", "))?;
        }
        for failure in &self.failures {
            writeln!(f, "FAILED {failure}")?;
        }
        write!(f, "{} requests, {} too large and cut off, {} broke a rule", self.sent, self.cut_off, self.failed)
    }
}
