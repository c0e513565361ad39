//! Tests each format's sample, and the documentation page that lists them.

use super::super::dry_run::{DrainDryRun, DryLine};
use super::super::format_table::{FORMATS, FormatId, LogFormat};
use super::super::line_processor::LineOutcome;
use chrono::DateTime;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use schemas::bots::BotTable;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fmt::Write;

/// Formats whose lines are bad because they lack a user agent.
pub(in super::super) const WITHOUT_USER_AGENTS: [FormatId; 4] =
    [FormatId::Common, FormatId::HerokuRouter, FormatId::Squid, FormatId::Morgan];
/// Formats whose addresses can come from headers, or are anonymized.
const UNVERIFIED: [FormatId; 10] = [
    FormatId::Pino,
    FormatId::Vector,
    FormatId::FluentBit,
    FormatId::Ecs,
    FormatId::TraefikClf,
    FormatId::Logstash,
    FormatId::Envoy,
    FormatId::Istio,
    FormatId::NginxProxyManager,
    FormatId::KeyCdn,
];

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/drains/formats.md");

/// Returns the results for a log's lines.
pub(in super::super) fn outcomes(format: &LogFormat, host: Option<&str>, log: &str) -> Vec<DryLine> {
    let (host, now) = (host.map(str::to_owned), DateTime::from_timestamp(1_793_527_300, 0).unwrap());
    let dry_run = DrainDryRun { provider: format.provider, host, hosts: Vec::new(), bots: BotTable::bundled(), now };
    let mut lines = Vec::new();
    dry_run
        .lines(log.as_bytes(), |line| {
            lines.push(line);
            Ok(())
        })
        .unwrap();
    lines
}

#[test]
fn reads_each_sample_in_its_format() {
    for format in FORMATS {
        let [line] = <[DryLine; 1]>::try_from(outcomes(format, Some("www.example.com"), format.sample)).ok().unwrap();
        assert_eq!(line.format.map(|format| format.name), Some(format.name));
        assert_eq!(format.id.row().name, format.name, "the rows are in the order of their ids");
        if WITHOUT_USER_AGENTS.contains(&format.id) {
            let expected = if format.id == FormatId::Morgan { "no_time" } else { "no_user_agent" };
            assert!(
                matches!(line.outcome, LineOutcome::Bad(reason) if reason == expected),
                "{}: {:?}",
                format.name,
                line.outcome
            );
            continue;
        }
        let LineOutcome::Kept(event) = line.outcome else { panic!("{}: {:?}", format.name, line.outcome) };
        assert_eq!(event.content_url.as_deref(), Some("https://www.example.com/article?page=2"), "{}", format.name);
        assert_eq!(event.at_ms, 1_793_527_200_000, "{}", format.name);
        let crawler = event.crawler.as_deref().unwrap();
        assert_eq!(
            (crawler.bot.as_str(), crawler.response_status, crawler.response_bytes),
            ("GPTBot", 200, 5_120),
            "{}",
            format.name
        );
        let data = event.data.as_ref().unwrap().get();
        assert!(data.contains("Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)"), "{}: {data}", format.name);
        let verified = (!UNVERIFIED.contains(&format.id)).then_some(true);
        assert_eq!(crawler.verified, verified, "{}", format.name);
    }
    let names: HashSet<&str> = FORMATS.iter().map(|format| format.name).collect();
    assert_eq!(names.len(), FORMATS.len());
}

fn page() -> String {
    let mut page = include_str!("formats_page.md").to_owned();
    for format in FORMATS {
        let lacks_host = |line: &DryLine| matches!(line.outcome, LineOutcome::Bad("no_host" | "bad_host"));
        let needs_host = matches!(format.id, FormatId::Common | FormatId::Morgan)
            || outcomes(format, None, format.sample).iter().any(lacks_host);
        let host = if needs_host { "no: `?host=`" } else { "yes" };
        let LogFormat { label, name, provider, source, note, .. } = format;
        writeln!(page, "| [{label}]({source}) | `{}` | `{name}` | {host} | {note} |", provider.as_str()).unwrap();
    }
    page.push_str("\n## Samples\n");
    for LogFormat { label, sample, .. } in FORMATS {
        write!(page, "\n{label}:\n\n```text\n{sample}```\n").unwrap();
    }
    page
}

/// Updates the page if `WRITE_DOCS` is set.
#[test]
fn documentation_lists_every_format() {
    let page = page();
    if std::env::var_os("WRITE_DOCS").is_some() {
        std::fs::write(DOCUMENT, &page).unwrap();
    }
    let written = std::fs::read_to_string(DOCUMENT).unwrap();
    assert!(written == page, "renew it: WRITE_DOCS=1 cargo test -p ingest-gateway --lib documentation_lists_every_format");
}

/// HAProxy doesn't name its captures, so only documented ones are read. A line without a user agent isn't attributed to a person.
#[test]
fn undocumented_haproxy_captures_are_not_user_agents() {
    let sample = FormatId::Haproxy.row();
    let captures = "{www.example.com|Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)}";
    for other in ["{www.example.com}", "{www.example.com||}", "{www.example.com|https://example.com/}", "{} {}"] {
        let log = sample.sample.replace(captures, other);
        let outcomes: Vec<LineOutcome> = outcomes(sample, None, &log).into_iter().map(|line| line.outcome).collect();
        assert!(matches!(outcomes.as_slice(), [LineOutcome::Bad("no_user_agent")]), "{other}: {outcomes:?}");
    }
    let log = sample.sample.replace(captures, "{www.example.com|}");
    assert!(
        matches!(outcomes(sample, None, &log).as_slice(), [DryLine { outcome: LineOutcome::Person, .. }]),
        "the visitor sent no user agent"
    );
}

/// `option httplog clf` doesn't write headers in these places, and no capture in it identifies a person.
#[test]
fn haproxys_common_log_format_has_no_user_agents() {
    let line =
        r#"Nov  1 10:00:00 lb-1 haproxy[14389]: 132.196.86.7 - - [01/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 512 """#;
    let rest = r#" "" 33317 000 "https-in~" "site" "web-1" 0 0 0 69 109 ---- 1 1 1 1 0 0 0 "" """#;
    let outcome = |log: &str| outcomes(FormatId::Combined.row(), Some("a.test"), log).remove(0).outcome;
    assert!(matches!(outcome(&format!("{line}{rest}")), LineOutcome::Bad("no_user_agent")));
    for more in [r#" """#, r#" "" 33317 000 -"#, r#" "" "-""#] {
        assert!(matches!(outcome(&format!("{line}{more}")), LineOutcome::Person), "{more}: the visitor sent no user agent");
    }
}

const BOT: &str = "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)";

/// CDNs escape user agents, and log shippers escape them again.
#[test]
fn reads_user_agents_escaped_up_to_three_times() {
    let written = [
        BOT.replace(' ', "%20"),
        "Mozilla%2F5.0+%28compatible%3B+GPTBot%2F1.2%3B+%2Bhttps%3A%2F%2Fopenai.com%2Fgptbot%29".to_owned(),
    ];
    for id in [
        FormatId::CloudFrontJson,
        FormatId::CloudFrontStandard,
        FormatId::CloudFrontRealTime,
        FormatId::AkamaiJson,
        FormatId::AkamaiText,
    ] {
        let mut escaped = BOT.to_owned();
        for times in 1..=3 {
            escaped = utf8_percent_encode(&escaped, NON_ALPHANUMERIC).to_string();
            let log = written.iter().fold(id.row().sample.to_owned(), |log, written| log.replace(written, &escaped));
            assert!(log.contains(&escaped), "{}", id.row().name);
            let outcome = outcomes(id.row(), None, &log).remove(0).outcome;
            let LineOutcome::Kept(event) = outcome else { panic!("{} {times} times: {outcome:?}", id.row().name) };
            let data: Value = serde_json::from_str(event.data.as_ref().unwrap().get()).unwrap();
            assert_eq!(
                (&data["user_agent"], &data["bot_name"]),
                (&json!(BOT), &json!("GPTBot")),
                "{} {times} times",
                id.row().name
            );
        }
    }
}

/// Servers log the request line as it was sent, and a target may contain spaces.
#[test]
fn spaces_in_targets_are_part_of_the_page() {
    let text =
        [FormatId::Combined, FormatId::IngressNginx, FormatId::TraefikClf, FormatId::Haproxy, FormatId::AwsAlb, FormatId::Vector];
    let logs = text.map(|id| (id, id.row().sample.replace("/article?page=2", "/an article?page=2")));
    let nginx = json!({"time_local": "01/Nov/2026:11:00:00 +0100", "request": "GET /an article?page=2 HTTP/1.1", "status": "200",
        "http_user_agent": BOT});
    for (id, log) in logs.into_iter().chain([(FormatId::Json, nginx.to_string())]) {
        let outcome = outcomes(id.row(), Some("www.example.com"), &log).remove(0).outcome;
        let LineOutcome::Kept(event) = outcome else { panic!("{log}: {outcome:?}") };
        assert_eq!(event.content_url.as_deref(), Some("https://www.example.com/an%20article?page=2"), "{log}");
        assert_eq!(event.at_ms, 1_793_527_200_000, "{log}");
    }
}

/// Standard and real-time logs of CloudFront have the requested host and the distribution's in opposite columns.
#[test]
fn does_not_use_the_distribution_name_as_the_host() {
    const DISTRIBUTION: &str = "d111111abcdef8.cloudfront.net";
    for id in [FormatId::CloudFrontRealTime, FormatId::CloudFrontStandard] {
        let swapped = id.row().sample.replace(DISTRIBUTION, "?").replace("www.example.com", DISTRIBUTION);
        for log in [id.row().sample.to_owned(), swapped.replace('?', "www.example.com")] {
            let outcome = outcomes(id.row(), None, &log).remove(0).outcome;
            let LineOutcome::Kept(event) = outcome else { panic!("{log}: {outcome:?}") };
            assert_eq!(event.content_url.as_deref(), Some("https://www.example.com/article?page=2"), "{log}");
        }
    }
}
