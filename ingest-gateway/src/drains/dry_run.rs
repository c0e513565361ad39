//! Reads a log without storing it, and returns what each line would become (docs/api/drains.md#what-is-kept).
//!
//! Runs the same code as drains, without everything that has state (keys, verified domains, the log, coverage). A copy of the rules could
//! differ.

use super::body_processor::read_body;
use super::drain_settings::DrainSettings;
use super::format_table::{FormatId, LogFormat};
use super::formats::contradicting_members;
use super::inflate::Encoding;
use super::key_drain::observer;
use super::line_processor::{LineOutcome, LineProcessor, ProcessedLine};
use super::line_reader::LineReader;
use super::requested_host::HostFinder;
use super::split::{Item, Splitter};
use crate::request::limits::Limits;
use chrono::{DateTime, Utc};
use schemas::bots::BotTable;
use schemas::identity::{DrainProvider, OrgType};
use schemas::ids::{ApiKeyId, OrgId};
use schemas::site::Site;
use service_kit::auth::Caller;
use std::hint::black_box;
use std::io::{self, Read};
use std::sync::Arc;
use uuid::Uuid;

/// A log's dry run.
pub struct DrainDryRun {
    pub provider: DrainProvider,
    /// Host of every line. Without it, lines without a host get the only one in `hosts`.
    pub host: Option<String>,
    /// Hosts whose lines would be kept, with their subdomains; empty for every host.
    pub hosts: Vec<Site>,
    /// Table for identifying bots.
    pub bots: Arc<BotTable>,
    pub now: DateTime<Utc>,
}

/// The result for one line.
pub struct DryLine {
    /// Line number (blank lines count) or position in the array. Starts at 1.
    pub number: u64,
    /// Recognized format.
    pub format: Option<&'static LogFormat>,
    pub outcome: LineOutcome,
    /// Time of the request, in milliseconds since 1970.
    pub at_ms: Option<i64>,
    /// A bad line's contradicting members; the same name twice if a member is repeated.
    pub members: Option<[String; 2]>,
}

impl DrainDryRun {
    /// Passes the result of each line that is not blank, or of each element of an array, to `take`.
    pub fn lines(self, log: impl Read, mut take: impl FnMut(DryLine) -> io::Result<()>) -> io::Result<()> {
        let judge = self.judge();
        let mut reader = LineReader::new(&judge);
        let mut take = |Item { number, bytes }: Item<'_>, ProcessedLine { outcome, at_ms, format, .. }: ProcessedLine| {
            let bytes = bytes.filter(|_| matches!(outcome, LineOutcome::Bad("repeated_member")));
            let members = bytes.and_then(|line| contradicting_members(judge.provider, line));
            take(DryLine { number, format: format.map(FormatId::row), outcome, at_ms, members })
        };
        let splitter = Splitter::new(log, DrainSettings::default().drain_line_bytes);
        splitter.items(judge.provider, |item| reader.line(item, &mut take))?;
        reader.end(&mut take)
    }

    /// Processes a gzip body up to the bytes of its records. Returns the number of lines and of kept lines.
    pub fn gzip_body(self, body: impl Read + 'static) -> io::Result<(u64, u64)> {
        let encoded = |record| serde_json::to_vec(&record).map(|bytes| drop(black_box(bytes))).map_err(io::Error::other);
        let taken = read_body(body, Encoding::Gzip, &self.judge(), &DrainSettings::default(), |_| Ok(()), encoded)?;
        Ok((taken.body_counts.lines, taken.body_counts.sum(|hour| hour.kept)))
    }

    pub(super) fn judge(self) -> LineProcessor {
        LineProcessor {
            provider: self.provider,
            caller: anonymous_caller(),
            role: observer(self.provider.default_role()),
            drain: None,
            owned_sites: None,
            host_finder: HostFinder::new(self.host, &self.hosts),
            hosts: self.hosts,
            bots: self.bots,
            key_sets: None,
            limits: Limits::default(),
            now: self.now,
        }
    }
}

pub(super) fn anonymous_caller() -> Caller {
    Caller {
        key_id: ApiKeyId(Uuid::nil()),
        org_id: OrgId(Uuid::nil()),
        org_type: OrgType::Platform,
        scopes: Vec::new(),
        drain: None,
        strict: false,
        require_signature: false,
        owner: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::formats::DirectiveState;
    use super::*;

    fn dry_run(provider: DrainProvider, host: Option<&str>, hosts: &[&str], log: &str) -> Vec<LineOutcome> {
        let dry_run = DrainDryRun {
            provider,
            host: host.map(str::to_owned),
            hosts: hosts.iter().map(|host| Site::from_domain(host).unwrap()).collect(),
            bots: BotTable::bundled(),
            now: DateTime::from_timestamp(1_793_527_200, 0).unwrap(),
        };
        let mut found = Vec::new();
        let keep = |line: DryLine| {
            found.push(line.outcome);
            Ok(())
        };
        dry_run.lines(log.as_bytes(), keep).unwrap();
        found
    }

    /// Returns the stored URL of a line without a host, or the reason why it isn't stored.
    fn kept(host: Option<&str>, hosts: &[&str]) -> String {
        let log = r#"192.0.2.1 - - [01/Nov/2026:10:00:00 +0000] "GET /a?b=1 HTTP/1.1" 200 10 "-" "GPTBot/1.2""#;
        match dry_run(DrainProvider::Combined, host, hosts, log).remove(0) {
            LineOutcome::Kept(event) => event.content_url.unwrap(),
            other => format!("{other:?}"),
        }
    }

    /// Returns the stored correlation id of an Akamai line with a custom field.
    fn correlation(custom: &str) -> Option<String> {
        let line = serde_json::json!({"reqTimeSec": "1793527200", "reqHost": "a.test", "reqPath": "a", "reqMethod": "GET",
            "UA": "GPTBot/1.2", "statusCode": "200", "customField": custom});
        match dry_run(DrainProvider::Akamai, None, &[], &line.to_string()).remove(0) {
            LineOutcome::Kept(event) => event.content_telemetry_id,
            other => panic!("{custom}: {other:?}"),
        }
    }

    /// Marks are part of a digest that is stored for days.
    #[test]
    fn marks_do_not_contain_addresses_from_the_host_field() {
        let now = DateTime::from_timestamp(1_793_527_200, 0).unwrap();
        let (provider, bots) = (DrainProvider::Ndjson, BotTable::bundled());
        let judge = DrainDryRun { provider, host: None, hosts: Vec::new(), bots, now }.judge();
        let mark = |host: &str| {
            let line = format!(r#"{{"time":1793527100,"host":"{host}","path":"/","user_agent":"GPTBot/1.2"}}"#);
            judge.process(line.as_bytes(), &DirectiveState::default()).mark
        };
        assert_ne!(mark("a.test"), [0; 16]);
        assert_ne!(mark("a.test"), mark("b.test"));
        assert_eq!(mark("203.0.113.5"), mark("198.51.100.9:443"));
    }

    #[test]
    fn missing_correlation_headers_never_merge_reports() {
        for custom in ["-", "", "undefined", "%22-%22", "content-telemetry-id:-", "a=1;content-telemetry-id=null", "%28null%29"] {
            assert_eq!(correlation(custom), None, "{custom}");
        }
        let id = "0b1f9e6c-3d6a-4a52-9c4e-0f2a6a1d2e3f";
        let named = ["content-telemetry-id=%s", "Content-Telemetry-ID: %s ", "a=1;content-telemetry-id=%22%s%22"];
        for custom in named.into_iter().chain(["content-telemetry-id:%20%22%s%22,x:y"]) {
            let custom = custom.replace("%s", id);
            assert_eq!(correlation(&custom).as_deref(), Some(id), "{custom}");
        }
        for custom in ["t-1", "content-telemetry-id=t-1", id, "%s,x:y", "session=%s", "%22%s%22", "content-telemetry-id=;%s"] {
            let custom = custom.replace("%s", id);
            assert_eq!(correlation(&custom), None, "{custom}: a correlation id needs the header's name and a UUID");
        }
    }

    #[test]
    fn www_does_not_change_the_event_id() {
        let log = r#"192.0.2.1 - - [01/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 10 "-" "GPTBot/1.2""#;
        let key = |host: Option<&str>, hosts: &[&str]| match dry_run(DrainProvider::Combined, host, hosts, log).remove(0) {
            LineOutcome::Kept(event) => event.own_key.0,
            other => panic!("{other:?}"),
        };
        let through_the_drain = key(None, &["a.test"]);
        assert_eq!(key(Some("www.a.test"), &[]), through_the_drain);
        assert_eq!(key(Some("WWW.A.test"), &[]), through_the_drain);
        assert_ne!(key(Some("b.a.test"), &[]), through_the_drain);
    }

    #[test]
    fn lines_without_a_host_get_the_only_possible_host() {
        assert_eq!(kept(None, &["a.test"]), "https://a.test/a?b=1");
        assert_eq!(kept(None, &["www.a.test"]), "https://a.test/a?b=1", "the host of a drain has no www.");
        assert_eq!(kept(None, &["www.co.uk"]), "https://www.co.uk/a?b=1");
        assert_eq!(kept(Some("b.a.test"), &["a.test"]), "https://b.a.test/a?b=1", "?host= takes precedence");
        for hosts in [&[][..], &["a.test", "b.test"]] {
            assert_eq!(kept(None, hosts), r#"Bad("no_host")"#, "{hosts:?}");
        }
    }
}
