//! Holds every answer to the document, and counts.

use super::contract::{Contract, Operation};
use super::shot::{Aim, Shot};
use super::wire::HttpResponse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Failures that are told in full; the rest is counted.
const TOLD: usize = 20;
/// Of so many requests one may be told to come again: machines are busy.
const MAY_WAIT: u64 = 1_000;
/// As many may be in any run: a store may pause once in a short one.
const SOME_MAY_WAIT: u64 = 8;
/// A body longer than this is cut in a curl line.
const MAX_CURL_BODY: usize = 2_000;

#[derive(Clone, Debug, Default)]
pub struct Findings {
    pub sent: u64,
    /// By operation and status.
    pub counts: BTreeMap<(String, u16), u64>,
    /// How many were told to come again (503 with `Retry-After`).
    pub told_to_wait: u64,
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
    pub(super) fn judge(&self, contract: &Contract, base: &str, shot: &Shot, heard: Result<HttpResponse, String>) {
        let operation = &contract.operations[shot.operation];
        let fault = match &heard {
            Err(why) => Some(why.clone()),
            Ok(answer) => check(contract, shot, answer).err(),
        };
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inside.findings.sent += 1;
        if let Ok(answer) = &heard {
            let name = if shot.aim == Aim::Documented { &operation.id } else { "(another path or method)" };
            *inside.findings.counts.entry((name.to_owned(), answer.status)).or_default() += 1;
            inside.findings.told_to_wait += u64::from(answer.status == 503 && answer.says_when);
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
        let may_wait = (findings.sent / MAY_WAIT).max(SOME_MAY_WAIT);
        if findings.told_to_wait > may_wait {
            findings.failed += findings.told_to_wait - may_wait;
            findings.failures.push(format!("{} requests were answered 503, where {may_wait} may be", findings.told_to_wait));
        }
        let done = |id: &str| findings.counts.keys().any(|(name, status)| name == id && *status < 400);
        findings.never_done = contract.operations.iter().map(|operation| operation.id.clone()).filter(|id| !done(id)).collect();
        findings
    }
}

fn check(contract: &Contract, shot: &Shot, answer: &HttpResponse) -> Result<(), String> {
    let operation = &contract.operations[shot.operation];
    if answer.status >= 500 && answer.status != 503 {
        return Err(format!("answered {}", answer.status));
    }
    if answer.status == 503 && !answer.says_when {
        return Err("answered 503 without saying when to come again".to_owned());
    }
    if shot.method == "HEAD" {
        return Ok(());
    }
    let as_any_error = || contract.check_problem(answer.status, &answer.content_type, &answer.body);
    match shot.aim {
        Aim::Documented => check_documented(contract, operation, answer),
        Aim::Respelt | Aim::Astray if answer.status < 400 => Ok(()),
        Aim::Respelt => as_any_error().or_else(|why| check_documented(contract, operation, answer).map_err(|_| why)),
        Aim::Astray => as_any_error(),
    }
}

fn check_documented(contract: &Contract, operation: &Operation, answer: &HttpResponse) -> Result<(), String> {
    contract.check(operation, answer.status, &answer.content_type, &answer.body)?;
    contract.check_headers(operation, answer.status, answer.headers.iter().map(String::as_str))
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
        for failure in &self.failures {
            writeln!(f, "FAILED {failure}")?;
        }
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
        let Self { sent, told_to_wait, failed, .. } = self;
        write!(f, "{sent} requests, {told_to_wait} told to come again, {failed} broke a rule")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::body::Bytes;
    use schemas::openapi::{self, Surface};

    fn contract() -> Contract {
        Contract::of(&openapi::document(&Surface::ALL)).unwrap()
    }

    fn findings(sent: u64, says_when: bool, away: u64) -> Findings {
        let (contract, judge) = (contract(), Judge::default());
        for nth in 0..sent {
            let status = if nth < away { 503 } else { 404 };
            let (content_type, body) = ("application/problem+json".to_owned(), Bytes::from("{}"));
            let answer = HttpResponse { status, content_type, says_when, headers: Vec::new(), body };
            let shot = Shot { aim: Aim::Astray, method: "HEAD".to_owned(), ..Shot::get("/health") };
            judge.judge(&contract, "http://a.test", &shot, Ok(answer));
        }
        judge.findings(&contract)
    }

    #[test]
    fn a_503_says_when_to_come_again_and_is_seldom() {
        assert_eq!(findings(100, true, 8).failed, 0);
        assert_eq!(findings(100, false, 1).failed, 1, "without Retry-After");
        let too_many = findings(100, true, 9);
        assert_eq!((too_many.failed, too_many.told_to_wait), (1, 9));
        assert!(too_many.to_string().contains("9 told to come again"));
        assert_eq!(findings(20_000, true, 20).failed, 0);
        assert_eq!(findings(20_000, true, 21).failed, 1);
    }

    #[test]
    fn an_error_has_the_shape_of_all_but_where_the_same_path_in_other_letters_has_one_of_its_own() {
        let contract = contract();
        let judged = |operation: &str, aim: Aim, body: &'static str| {
            let judge = Judge::default();
            let operation = contract.operations.iter().position(|found| found.id == operation).unwrap();
            let shot = Shot { operation, aim, ..Shot::get("/") };
            let (content_type, body) = ("application/json".to_owned(), Bytes::from(body));
            let answer = HttpResponse { status: 400, content_type, says_when: false, headers: Vec::new(), body };
            judge.judge(&contract, "http://a.test", &shot, Ok(answer));
            judge.findings(&contract).failed
        };
        let firehose = r#"{"errorMessage":"no","requestId":"","timestamp":1795815640180}"#;
        assert_eq!(judged("post_drain", Aim::Respelt, firehose), 0);
        assert_eq!(judged("post_drain", Aim::Respelt, "{}"), 1);
        assert_eq!(judged("post_drain", Aim::Astray, firehose), 1);
        assert_eq!(judged("post_events", Aim::Respelt, firehose), 1);
    }

    #[test]
    fn a_header_of_the_services_own_that_is_not_documented_is_a_broken_rule() {
        let contract = contract();
        let events = contract.operation("read_events").unwrap();
        let check = |names: &[&str]| contract.check_headers(events, 200, names.iter().copied());
        assert_eq!(check(&["content-type", "x-request-id", "x-total-count", "x-next-after"]), Ok(()));
        assert!(check(&["x-corroboration-note"]).is_err(), "that of another list");
        let place = contract.operations.iter().position(|operation| operation.id == "get_health").unwrap();
        let (content_type, body) = ("application/json".to_owned(), Bytes::from(r#"{"status":"ok"}"#));
        let answer = |name: &str| {
            let headers = vec![name.to_owned()];
            HttpResponse { status: 200, content_type: content_type.clone(), says_when: false, headers, body: body.clone() }
        };
        let judged = |name: &str| {
            let judge = Judge::default();
            let shot = Shot { operation: place, ..Shot::get("/health") };
            judge.judge(&contract, "http://a.test", &shot, Ok(answer(name)));
            judge.findings(&contract).failed
        };
        assert_eq!((judged("x-request-id"), judged("x-total-count")), (0, 1));
    }
}
