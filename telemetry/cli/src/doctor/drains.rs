//! Checks whether log drains receive lines that the service can read.

use super::{Finding, Verdict};
use crate::client::Client;
use crate::drain::{DRAIN, state};
use crate::output::text;
use serde_json::Value;
use std::collections::BTreeSet;

const CHECK: &str = "drain";

pub(super) async fn all(client: &Client) -> Vec<Finding> {
    let drains = match client.get(&DRAIN.all(), &Vec::new()).await {
        Ok(drains) => drains,
        Err(failure) => return vec![skipped(failure.to_string())],
    };
    let mut findings = Vec::new();
    for drain in drains.as_array().into_iter().flatten() {
        let health = client.get(&DRAIN.one(&text(&drain["id"]), "/health"), &Vec::new()).await;
        findings.push(match health {
            Ok(health) => finding_from_health(&text(&drain["name"]), &health),
            Err(failure) => skipped(failure.to_string()),
        });
    }
    if findings.is_empty() {
        findings.push(skipped("no drains".to_owned()));
    }
    findings
}

fn skipped(found: String) -> Finding {
    Finding::new(CHECK, Verdict::Skipped, found, "")
}

fn finding_from_health(name: &str, health: &Value) -> Finding {
    let count = |member: &str| health[member].as_u64().unwrap_or_default();
    let (lines, bad) = (count("lines"), count("bad"));
    if bad > 0 {
        let reasons: BTreeSet<&str> =
            health["bad_lines"].as_array().into_iter().flatten().filter_map(|line| line["reason"].as_str()).collect();
        let reasons = reasons.into_iter().collect::<Vec<_>>().join(", ");
        let found = format!("{name}: {bad} of {lines} lines of the last 48 hours are unreadable ({reasons})");
        let advice = format!("run `telemetry drain health '{name}'`, and try the log format with `telemetry drain test`");
        return Finding::new(CHECK, if bad == lines { Verdict::Bad } else { Verdict::Warning }, found, advice);
    }
    let found = format!("{name}: {}", state(health));
    match lines {
        0 => Finding::new(CHECK, Verdict::Warning, found, "check that the provider sends its logs, and its error messages"),
        _ => Finding::ok(CHECK, found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn warns_about_unreadable_lines_and_fails_without_others() {
        let of = |last: Value, lines: u64, bad: u64| {
            let bad_lines = [json!({"reason": "no_user_agent"}), json!({"reason": "bad_time"}), json!({"reason": "bad_time"})];
            finding_from_health("Web", &json!({"last_batch_at": last, "lines": lines, "bad": bad, "bad_lines": bad_lines}))
        };
        assert_eq!(of(json!("t"), 5, 0).verdict, Verdict::Ok);
        assert_eq!(of(json!(null), 0, 0).verdict, Verdict::Warning);
        assert_eq!(of(json!("t"), 0, 0).verdict, Verdict::Warning);
        assert_eq!(of(json!("t"), 5, 5).verdict, Verdict::Bad);
        let some = of(json!("t"), 5, 2);
        assert_eq!(some.verdict, Verdict::Warning);
        assert_eq!(some.found, "Web: 2 of 5 lines of the last 48 hours are unreadable (bad_time, no_user_agent)");
    }
}
