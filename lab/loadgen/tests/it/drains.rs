//! Runs the log benchmark with small bodies. It fails if the gateway doesn't count the lines that were sent.

use chrono::DateTime;
use ingest_gateway::{DrainDryRun, LineOutcome};
use loadgen::log_lines::{Format, Request};
use schemas::bots::BotTable;
use std::process::Stdio;

const PROGRAM: &str = env!("CARGO_BIN_EXE_loadgen");

#[tokio::test(flavor = "multi_thread")]
async fn measures_every_log_format_and_a_gateway() {
    let binaries = crate::binaries();
    let mut program = tokio::process::Command::new(PROGRAM);
    program.args(["drains", "--lines", "200", "--rounds", "1", "--bytes", "1000000"]).stdin(Stdio::null()).kill_on_drop(true);
    program.arg("--binaries").arg(binaries.path());
    let output = program.output().await.expect("the program runs");
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{wrong}");
    for format in Format::ALL {
        let of_format = said.lines().find_map(|line| line.strip_prefix("    ")?.strip_prefix(format.name()));
        let figures: Vec<f64> =
            of_format.unwrap_or_default().split_whitespace().filter_map(|figure| figure.parse().ok()).collect();
        let [lines, _mib, each, baseline, ratio, _wanted] = figures[..] else { panic!("{}: {said}", format.name()) };
        assert!(lines == 200.0 && each > 0.0 && baseline > 0.0 && ratio > 0.0, "{}: {said}", format.name());
    }
    assert!(said.contains("in 1 bodies, 1 at a time: 932 lines, 18 kept"), "{said}");
    assert!(said.lines().any(|line| line.contains("peak RSS of the gateway")), "{said}");
}

#[test]
fn every_format_produces_the_same_event() {
    let at = DateTime::from_timestamp(1_793_527_200, 0).expect("a valid time");
    let request = Request {
        at,
        id: "request-1".to_owned(),
        telemetry_id: "0b1f9e6c-3d6a-4a52-9c4e-0f2a6a1d2e3f".to_owned(),
        address: "203.0.113.9".to_owned(),
        user_agent: "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)".to_owned(),
        host: "www.a.test".to_owned(),
        path: "/politics/1".to_owned(),
        status: 200,
        bytes: 4_711,
        country: "de",
        cache: "hit",
    };
    for format in Format::ALL {
        let dry_run =
            DrainDryRun { provider: format.provider(), host: None, hosts: Vec::new(), bots: BotTable::bundled(), now: at };
        let mut outcomes = Vec::new();
        let taken = dry_run.lines(format.line(&request).as_bytes(), |line| {
            outcomes.push((line.outcome, line.at_ms));
            Ok(())
        });
        assert!(taken.is_ok(), "{}", format.name());
        let [(LineOutcome::Kept(event), Some(1_793_527_200_000))] = &outcomes[..] else {
            panic!("{}: {outcomes:?}", format.name());
        };
        assert_eq!(event.content_url.as_deref(), Some("https://www.a.test/politics/1"), "{}", format.name());
        let telemetry_id = format.logs_telemetry_id().then_some("0b1f9e6c-3d6a-4a52-9c4e-0f2a6a1d2e3f");
        assert_eq!(event.content_telemetry_id.as_deref(), telemetry_id, "{}", format.name());
        let crawler = event.crawler.as_deref().expect("a crawler");
        assert_eq!((crawler.bot.as_str(), crawler.response_bytes), ("GPTBot", 4_711), "{}", format.name());
    }
}
