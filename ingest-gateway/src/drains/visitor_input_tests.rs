//! C14: whatever visitors write into their requests, each accepted line stays one report and never joins another event.

mod added_text;
mod long_texts;
mod other_places;
mod random_texts;
mod split_lines;
mod two_readings;

use super::dry_run::{DrainDryRun, DryLine};
use super::format_table::{FORMATS, FormatId, LogFormat};
use super::formats::{WITHOUT_USER_AGENTS, outcomes};
use super::line_processor::LineOutcome;
use chrono::DateTime;
use schemas::bots::BotTable;
use schemas::event_key::EventKey;
use schemas::identity::DrainProvider;
use schemas::ids::{DrainId, OrgId};
use schemas::log::LogEvent;
use schemas::report_keys::ReportKeys;
use serde_json::{Value, json};
use std::collections::HashSet;
use uuid::Uuid;

const BOT: &str = "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)";
const AKAMAI_BOT: &str = "Mozilla%2F5.0+%28compatible%3B+GPTBot%2F1.2%3B+%2Bhttps%3A%2F%2Fopenai.com%2Fgptbot%29";
const FETCH: &str = "0b1f9e6c-3d6a-4a52-9c4e-0f2a6a1d2e3f";
/// nginx generates the request id.
const NGINX_ID: &str = "529a007902362a5f51385a5fa7049884";
const ORG: OrgId = OrgId(Uuid::from_u128(1));

/// A request with values chosen by its visitor.
#[derive(Clone)]
struct Request<'a> {
    second: i64,
    host: &'a str,
    path: &'a str,
    /// Headers that some formats log: correlation id, request id, referer, signature agent.
    headers: [&'a str; 4],
}

impl Request<'_> {
    /// Returns the provider's log line.
    fn line(&self, provider: DrainProvider) -> String {
        let Self { second, host, path, headers: [telemetry_id, request_id, referer, signature] } = self;
        let at = DateTime::from_timestamp(1_793_527_200 + second, 0).unwrap();
        let escaped = percent_encoding::utf8_percent_encode(telemetry_id, percent_encoding::NON_ALPHANUMERIC);
        let line: Value = match provider {
            DrainProvider::Cloudflare => json!({"EdgeStartTimestamp": at.to_rfc3339(), "ClientRequestHost": host,
                "ClientRequestURI": path, "ClientRequestMethod": "GET", "ClientRequestUserAgent": BOT, "EdgeResponseStatus": 200,
                "RayID": request_id, "ClientRequestReferer": referer,
                "RequestHeaders": {"content-telemetry-id": telemetry_id, "signature-agent": signature}}),
            DrainProvider::Fastly | DrainProvider::Ndjson => json!({"timestamp": at.to_rfc3339(), "host": host, "url": path,
                "request_method": "GET", "request_user_agent": BOT, "response_status": 200, "request_id": request_id,
                "content_telemetry_id": telemetry_id, "request_referer": referer, "signature_agent": signature}),
            DrainProvider::Firehose => {
                json!({"timestamp": at.timestamp().to_string(), "x-host-header": host, "cs-uri-stem": path,
                "cs-method": "GET", "cs-user-agent": BOT.replace(' ', "%20"), "sc-status": "200", "x-edge-request-id": request_id,
                "cs-referer": referer, "cs-headers": format!("host:{host}%0Acontent-telemetry-id:{escaped}%0A")})
            }
            DrainProvider::Akamai => json!({"reqTimeSec": at.timestamp().to_string(), "reqHost": host, "reqPath": path,
                "reqMethod": "GET", "UA": BOT.replace(' ', "%20"), "statusCode": "200", "reqId": request_id, "referer": referer,
                "customField": format!("content-telemetry-id={escaped}")}),
            DrainProvider::Vercel => json!({"requestId": request_id, "proxy": {"timestamp": at.timestamp_millis(), "host": host,
                "path": path, "method": "GET", "userAgent": [BOT], "referer": referer, "statusCode": 200}}),
            DrainProvider::Azure => json!({"time": at.to_rfc3339(), "category": "FrontDoorAccessLog", "properties":
                {"trackingReference": request_id, "httpMethod": "GET", "requestUri": format!("https://{host}:443{path}"),
                "hostName": host, "userAgent": BOT, "referer": referer, "httpStatusCode": "200"}}),
            DrainProvider::Combined => {
                let time = at.format("%d/%b/%Y:%H:%M:%S %z");
                let quoted = |text: &str| text.replace('\\', r"\x5C").replace('"', r"\x22").replace('\n', r"\x0A");
                let [telemetry_id, referer] = [telemetry_id, referer].map(|text| quoted(text));
                return format!(
                    r#"192.0.2.1 - - [{time}] "GET {path} HTTP/1.1" 200 10 "{referer}" "{BOT}" "{telemetry_id}" "{host}" "{NGINX_ID}""#
                );
            }
        };
        line.to_string()
    }
}

/// A format's escapes.
#[derive(Clone, Copy)]
enum Escapes {
    /// JSON.
    Json,
    /// `\\xHH`, as in nginx.
    Server,
    /// No escapes. Headers don't contain line breaks.
    Raw,
    /// `#HH`, as in HAProxy.
    Hash,
    /// Percent encoding.
    Percent,
    /// A plus for a space, as in IIS.
    Plus,
}

impl Escapes {
    fn for_format(format: FormatId) -> Self {
        match format {
            FormatId::Combined | FormatId::Common | FormatId::IngressNginx | FormatId::AwsAlb | FormatId::AwsElb => Self::Server,
            FormatId::NginxProxyManager | FormatId::Gcore | FormatId::KeyCdn => Self::Server,
            FormatId::TraefikClf | FormatId::Bunny | FormatId::Envoy | FormatId::Istio | FormatId::AmazonS3 => Self::Raw,
            FormatId::HerokuRouter | FormatId::Squid | FormatId::Morgan => Self::Raw,
            FormatId::Haproxy | FormatId::HaproxyHttps => Self::Hash,
            FormatId::W3c => Self::Plus,
            FormatId::CloudFrontRealTime | FormatId::CloudFrontStandard | FormatId::AkamaiText => Self::Percent,
            _ => Self::Json,
        }
    }

    fn escape(self, text: &str) -> String {
        let text = text.replace('\n', " ");
        match self {
            Self::Json => {
                let quoted = serde_json::to_string(&text).unwrap();
                quoted[1..quoted.len() - 1].to_owned()
            }
            Self::Server => text.replace('\\', r"\x5C").replace('"', r"\x22"),
            Self::Raw => text,
            Self::Hash => {
                text.replace('#', "#23").replace('"', "#22").replace('{', "#7B").replace('|', "#7C").replace('}', "#7D")
            }
            Self::Percent => percent_encoding::utf8_percent_encode(&text, percent_encoding::NON_ALPHANUMERIC).to_string(),
            Self::Plus => text.replace(' ', "+"),
        }
    }
}

/// A part of a request that visitors choose, besides the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The end of the user agent, and the referer.
    Agent,
    /// The HTTP Basic user.
    User,
    /// `X-Forwarded-For`, to which a proxy appends an address, before or after other fields.
    Forwarded,
    Appended,
    Host,
    /// `Content-Type`, which nginx logs as `$content_type`.
    MediaType,
    /// A cookie that HAProxy captures and doesn't escape.
    Cookie,
}

impl Part {
    const ALL: [Self; 7] = [Self::Agent, Self::User, Self::Forwarded, Self::Appended, Self::Host, Self::MediaType, Self::Cookie];

    /// Replaces this part with an escaped text. Returns the line unchanged if the format doesn't log this part.
    fn put(self, line: &str, format: FormatId, text: &str) -> String {
        let text = if text.is_empty() { "-" } else { text };
        let member = |name: &str| line.replacen('{', &format!("{{\"{name}\":\"{text}\","), 1);
        let is_json = matches!(Escapes::for_format(format), Escapes::Json);
        match (self, format) {
            (Self::Agent, _) if is_json => member("referer"),
            // The first quoted value comes from the server, or from the `X-Forwarded-For` header.
            (Self::Agent, FormatId::Envoy | FormatId::Istio | FormatId::Gcore) => line.to_owned(),
            (Self::Agent, _) => line.replacen("\"-\" ", &format!("\"{text}\" "), 1),
            (Self::User, FormatId::W3c) => line.replace(" 443 - ", &format!(" 443 {text} ")),
            (Self::User, FormatId::FluentBit) => line.replace("\"user\":\"-\"", &format!("\"user\":\"{text}\"")),
            (Self::User, FormatId::Logstash) => line.replace("\"auth\":\"-\"", &format!("\"auth\":\"{text}\"")),
            (Self::User, FormatId::TraefikJson) => member("ClientUsername"),
            (Self::User, FormatId::Json | FormatId::Ecs) => member("remote_user"),
            (Self::User, FormatId::Caddy) => member("user_id"),
            (Self::User, FormatId::Gcore) => line.replace("\"-\" \"-\" \"[", &format!("\"-\" \"{text}\" \"[")),
            (Self::User, _) => line.replace("132.196.86.7 - - [", &format!("132.196.86.7 - {text} [")),
            (Self::Forwarded, FormatId::Vector) => line.replace("\"132.196.86.7 - -", &format!("\"{text}, 132.196.86.7 - -")),
            (Self::Forwarded, FormatId::TraefikJson) => member("request_X-Forwarded-For"),
            (Self::Forwarded, FormatId::Cloudflare) => {
                line.replacen('{', &format!("{{\"RequestHeaders\":{{\"x-forwarded-for\":\"{text}\"}},"), 1)
            }
            (Self::Forwarded, FormatId::Caddy) => {
                line.replace("[\"*/*\"]", &format!("[\"*/*\"],\"X-Forwarded-For\":[\"{text}\"]"))
            }
            (Self::Forwarded, FormatId::Envoy | FormatId::Istio) => line.replace(" 1 \"-\" \"", &format!(" 1 \"{text}\" \"")),
            (Self::Forwarded, _) if is_json => member("http_x_forwarded_for"),
            (Self::Forwarded, _) => line.replace("132.196.86.7 - -", &format!("{text}, 132.196.86.7 - -")),
            (Self::Appended, FormatId::Combined) => format!("{} \"{text}, 132.196.86.7\"", line.trim_end()),
            (Self::Appended, FormatId::AwsAlb) => format!("{} \"{text}\"", line.trim_end()),
            (Self::Appended, FormatId::CloudFrontRealTime) => format!("{}\t{text}", line.trim_end()),
            (Self::Appended, FormatId::Haproxy | FormatId::HaproxyHttps) => line.replace(")}", &format!(")|{text}}}")),
            (Self::Appended, _) if is_json => {
                line.trim_end().strip_suffix('}').unwrap().to_owned() + &format!(",\"x\":\"{text}\"}}")
            }
            (Self::Host, FormatId::Combined) => format!("{text} {line}"),
            // Formats whose servers write the host in a URL.
            (Self::Host, _) if line.contains("://www.example.com") => line.to_owned(),
            // Formats whose hosts belong to the owner, for example as a zone or a bucket.
            (Self::Host, FormatId::KeyCdn | FormatId::AmazonS3) => line.to_owned(),
            // Formats that also log another host.
            (Self::Host, FormatId::CloudFrontRealTime | FormatId::CloudFrontStandard | FormatId::Vercel) => line.to_owned(),
            (Self::Host, _) => line.replace("www.example.com", text),
            (Self::MediaType, FormatId::Json) => {
                member("http_referer").replacen("http_referer", "http_referer\":\"-\",\"content_type", 1)
            }
            (Self::Cookie, _) => line.replace(" 5120 - - ", &format!(" 5120 SID={text} - ")),
            (Self::Appended | Self::MediaType, _) => line.to_owned(),
        }
    }

    /// Returns whether a format can log this value here.
    fn fits(self, format: FormatId, value: &str) -> bool {
        let is_text = matches!(format, FormatId::Combined | FormatId::Vector | FormatId::IngressNginx | FormatId::TraefikClf);
        let begins = |samples: &[FormatId]| samples.iter().any(|id| value == last_line(*id));
        match self {
            Self::User | Self::Agent | Self::Appended | Self::MediaType => true,
            // Cookies aren't escaped. Lines with two requests are bad.
            Self::Cookie => {
                let is_line = format == FormatId::HaproxyHttps && begins(&[FormatId::HaproxyHttps]);
                !value.contains("+0000] \"") && !is_line
            }
            // If a log begins with visitors' text, that text must look like a list.
            Self::Forwarded => !is_text || (is_list(value) && !begins(&[FormatId::AwsAlb, FormatId::Bunny])),
            Self::Host => !value.contains(char::is_whitespace),
        }
    }
}

/// Returns whether each part of a list is one word.
fn is_list(text: &str) -> bool {
    text.split(", ").all(|part| !part.contains(char::is_whitespace))
}

fn last_line(format: FormatId) -> &'static str {
    format.row().sample.lines().last().unwrap()
}

/// Escapes text for a format. Shippers send a server's text within their JSON.
fn escape(format: FormatId, text: &str) -> String {
    let is_shipper = matches!(format, FormatId::Vector | FormatId::FluentBit | FormatId::Logstash);
    let text = if is_shipper { Escapes::Server.escape(text) } else { text.to_owned() };
    Escapes::for_format(format).escape(&text)
}

/// Returns the sample's line for another time and page, with the visitor's value.
fn of_sample(format: &LogFormat, second: i64, page: &str, part: Part, value: &str) -> String {
    let samples = [BOT.to_owned(), BOT.replace(' ', "%20"), BOT.replace(' ', "+"), AKAMAI_BOT.to_owned()];
    let mut line = format.sample.replace("10:00:00", &format!("10:00:0{second}"));
    line = line.replace("1793527200", &(1_793_527_200 + second).to_string()).replace("article", page);
    if part == Part::Agent {
        let user_agent = escape(format.id, &format!("{BOT} {value}"));
        for sample in samples {
            line = line.replace(&sample, &user_agent);
        }
    }
    let value = if part == Part::Cookie { value.replace('\n', " ") } else { escape(format.id, value) };
    part.put(&line, format.id, &value)
}

/// For each part, lists either all formats that log it (`true`), or all formats that don't (`false`). Lines of formats that don't log a
/// part stay unchanged.
#[test]
fn generated_visitor_text_is_valid_in_every_format() {
    let parts = [
        (Part::Agent, false, "common heroku_router squid morgan"),
        (
            Part::User,
            true,
            "traefik_json ecs caddy vector fluent_bit logstash json combined common traefik_clf ingress_nginx w3c gcore",
        ),
        (
            Part::Forwarded,
            false,
            "cloudfront_real_time cloudfront_standard akamai_text aws_alb haproxy haproxy_https w3c bunny aws_elb nginx_proxy_manager gcore keycdn amazon_s3 heroku_router squid morgan",
        ),
        (
            Part::Appended,
            false,
            "cloudfront_standard akamai_text common traefik_clf ingress_nginx w3c bunny aws_elb envoy istio nginx_proxy_manager gcore keycdn amazon_s3 heroku_router squid morgan",
        ),
        (
            Part::Host,
            false,
            "cloudfront_real_time cloudfront_standard vercel azure_front_door google_load_balancer kong apisix vector fluent_bit logstash common traefik_clf ingress_nginx aws_alb bunny aws_elb keycdn amazon_s3 squid morgan",
        ),
        (Part::MediaType, true, "json"),
        (Part::Cookie, true, "haproxy haproxy_https"),
    ];
    assert_eq!(parts.map(|(part, ..)| part), Part::ALL);
    for (part, is_logged, expected) in parts {
        let line = |format: &LogFormat, value| of_sample(format, 0, "article", part, value);
        let logs = |format: &&LogFormat| (line(format, "x7") != line(format, "-")) == is_logged;
        let names: Vec<&str> = FORMATS.iter().filter(logs).map(|format| format.name).collect();
        assert_eq!(names.join(" "), expected, "{part:?}");
    }
}

/// Header values stay in their place in every format of the table.
#[test]
fn c14_visitors_cannot_merge_or_drop_lines_in_any_format() {
    for format in FORMATS.iter().filter(|format| !WITHOUT_USER_AGENTS.contains(&format.id)) {
        let mut lines_of_others: Vec<String> = FORMATS.iter().map(|other| last_line(other.id).to_owned()).collect();
        if format.id == FormatId::Bunny {
            // The documentation doesn't define how a `|` is escaped, so such lines are rejected rather than misread.
            lines_of_others.retain(|line| !line.contains('|'));
        }
        lines_of_others.push("192.0.2.1 - a [01/Nov/2026:10:00:00 +0000] \"GET /z HTTP/1.1\" 200 1 \"-\" \"curl/8\"".to_owned());
        if matches!(format.id, FormatId::TraefikClf | FormatId::Bunny) {
            // These formats don't escape text. Lines with two requests are bad, see `rejects_lines_with_two_requests`.
            lines_of_others.retain(|line| !line.contains("+0000] \""));
        }
        if matches!(format.id, FormatId::Envoy | FormatId::Istio | FormatId::AmazonS3) {
            // These formats don't escape text either, see `parses_each_envoy_line_in_only_one_way`.
            lines_of_others.retain(|line| !line.contains('"'));
        }
        let values: Vec<String> = hostile_values().into_iter().chain(lines_of_others).collect();
        for part in Part::ALL {
            for value in values.iter().filter(|value| part.fits(format.id, value)) {
                four_lines_are_four(format, part, value);
            }
        }
    }
}

/// Requests two pages at two times with the same value.
fn four_lines_are_four(format: &LogFormat, part: Part, value: &str) {
    let names_host = format.sample.contains("www.example.com") && part != Part::Host && format.id != FormatId::TraefikClf;
    let host = if names_host { None } else { Some("www.example.com") };
    let kept = |second, page| {
        let log = of_sample(format, second, page, part, value);
        let lines = outcomes(format, host, &log);
        let what = format!("{} {part:?} {value:.60}: {log:.600}", format.name);
        let [line] = <[DryLine; 1]>::try_from(lines).ok().unwrap_or_else(|| panic!("{what}"));
        let LineOutcome::Kept(event) = line.outcome else { panic!("{what}: {:?}", line.outcome) };
        let url = format!("https://www.example.com/{page}?page=2");
        assert_eq!(event.content_url.as_deref(), Some(url.as_str()), "{what}");
        assert_eq!(event.crawler.as_deref().unwrap().bot, "GPTBot", "{what}");
        assert_eq!(event.content_telemetry_id, None, "{what}: not a correlation id");
        ReportKeys::new(ORG, None, &event).identity
    };
    let all: HashSet<EventKey> = [kept(0, "a"), kept(0, "b"), kept(1, "a"), kept(1, "b")].into();
    assert_eq!(all.len(), 4, "{} {part:?} {value:.60}", format.name);
}

/// nginx doesn't escape spaces and brackets in the HTTP Basic user, which any visitor can send.
#[test]
fn c14_user_names_cannot_move_host_or_address() {
    let rest = format!("[01/Nov/2026:10:00:00 +0000] \"GET /a HTTP/1.1\" 200 10 \"-\" \"{BOT}\"");
    for user in [
        "-",
        "a b",
        "a b c d",
        "203.0.113.9",
        "203.0.113.9 x",
        "evil.test",
        "evil.test x",
        "[",
        "a [x] b",
        "[01/Nov/2026:10:00:00 +0000] x",
    ] {
        for (before, host, expected) in [
            ("132.196.86.7 - ", Some("b.test"), "b.test"),
            ("www.a.test:443 132.196.86.7 - ", Some("b.test"), "b.test"),
            ("www.a.test:443 132.196.86.7 - ", None, "www.a.test"),
        ] {
            let log = format!("{before}{user} {rest}");
            let [line] = <[DryLine; 1]>::try_from(outcomes(FormatId::Combined.row(), host, &log)).ok().unwrap();
            let LineOutcome::Kept(event) = line.outcome else { panic!("{log}: {:?}", line.outcome) };
            let url = format!("https://{expected}/a");
            assert_eq!(event.content_url.as_deref(), Some(url.as_str()), "{log}");
            // A user with spaces can't be distinguished from a header in the address's place.
            let verified = (!user.contains(' ')).then_some(true);
            assert_eq!(event.crawler.as_deref().unwrap().verified, verified, "{log}");
        }
    }
}

/// A log that begins with the requested host begins with visitors' text, which must not turn later lines into rows.
#[test]
fn c14_hosts_are_not_directives() {
    let rest = format!("192.0.2.1 - - [01/Nov/2026:10:00:00 +0000] \"GET /a HTTP/1.1\" 200 10 \"-\" \"{BOT}\"");
    for host in ["#x", "#Fields:", "#Version:", "#"] {
        let lines = outcomes(FormatId::Combined.row(), Some("a.test"), &format!("{host} {rest}\nwww.a.test {rest}\n"));
        assert!(matches!(lines.as_slice(), [_, DryLine { outcome: LineOutcome::Kept(_), .. }]), "{host}");
    }
}

/// Only hostnames are hosts, even if a log has an address in the host's place.
#[test]
fn addresses_are_never_hosts() {
    let text = |before: &str| format!("{before} [01/Nov/2026:10:00:00 +0000] \"GET /a HTTP/1.1\" 200 10 \"-\" \"{BOT}\"");
    let json = |host: &str| {
        json!({"timestamp": "2026-11-01T10:00:00Z", "host": host, "url": "/a", "method": "GET", "user_agent": BOT, "status": 200})
            .to_string()
    };
    let befores = [
        "203.0.113.7 - -",
        "203.0.113.7, 198.51.100.3 - -",
        "203.0.113.7,198.51.100.3, 198.51.100.4 - -",
        "- - -",
        "203.0.113.7 198.51.100.3 - -",
        "192.0.2.15:80 203.0.113.7 - -",
        "\"203.0.113.7, 198.51.100.3\" 10.0.0.1 - -",
        "unix: - -",
        "localhost - -",
        "crawler.example.net - -",
        "2001:db8::7 - a b",
    ];
    let lines = befores.map(|before| (FormatId::Combined.row(), text(before)));
    let hosts = ["203.0.113.7", "203.0.113.7:8080", "[2001:db8::7]", "localhost", "-", "a b", "evil.test/"];
    for (format, log) in lines.into_iter().chain(hosts.map(|host| (FormatId::Json.row(), json(host)))) {
        for (host, url) in [(Some("www.a.test"), Some("https://www.a.test/a")), (None, None)] {
            let [line] = <[DryLine; 1]>::try_from(outcomes(format, host, &log)).ok().unwrap();
            match (line.outcome, url) {
                (LineOutcome::Kept(event), Some(url)) => assert_eq!(event.content_url.as_deref(), Some(url), "{log}"),
                (LineOutcome::Bad("no_host" | "bad_host"), None) => {}
                (outcome, _) => panic!("{log}: {outcome:?}"),
            }
        }
    }
}

/// A byte that isn't UTF-8 doesn't hide a fetch, and is part of its page.
#[test]
fn invalid_utf8_does_not_hide_fetches() {
    let mut ids = HashSet::new();
    for byte in [0xe9_u8, 0xff] {
        let line = json!({"timestamp": "2026-11-01T10:00:00Z", "host": "a.test", "url": "/caf#", "method": "GET", "user_agent": format!("{BOT} #"), "status": 200});
        let log: Vec<u8> = line.to_string().bytes().map(|of| if of == b'#' { byte } else { of }).collect();
        let now = DateTime::from_timestamp(1_793_527_300, 0).unwrap();
        let dry_run =
            DrainDryRun { provider: DrainProvider::Ndjson, host: None, hosts: Vec::new(), bots: BotTable::bundled(), now };
        let take = |line: DryLine| {
            let LineOutcome::Kept(event) = line.outcome else { panic!("{:?}", line.outcome) };
            assert_eq!(event.content_url, Some(format!("https://a.test/caf%{byte:X}")));
            ids.insert(event.id);
            Ok(())
        };
        dry_run.lines(log.as_slice(), take).unwrap();
    }
    assert_eq!(ids.len(), 2);
}

/// Returns the events of these requests; every line must be kept.
fn kept(provider: DrainProvider, requests: &[Request<'_>]) -> Vec<LogEvent> {
    let log: Vec<String> = requests.iter().map(|request| request.line(provider)).collect();
    let now = DateTime::from_timestamp(1_793_527_300, 0).unwrap();
    let dry_run = DrainDryRun { provider, host: None, hosts: Vec::new(), bots: BotTable::bundled(), now };
    let mut events = Vec::new();
    let take = |DryLine { number, outcome, .. }: DryLine| {
        let LineOutcome::Kept(event) = outcome else { panic!("{provider:?} line {number}: {outcome:?}") };
        events.push(*event);
        Ok(())
    };
    dry_run.lines(log.join("\n").as_bytes(), take).unwrap();
    assert_eq!(events.len(), requests.len(), "{provider:?}");
    events
}

/// Returns whether a provider's lines contain the correlation header.
fn logs_telemetry_id(provider: DrainProvider) -> bool {
    let (id, _) = FETCH.split_once('-').unwrap();
    Request { second: 0, host: "a.test", path: "/", headers: [FETCH, "", "", ""] }.line(provider).contains(id)
}

fn identities(events: &[LogEvent]) -> HashSet<EventKey> {
    events.iter().map(|event| ReportKeys::new(ORG, None, event).identity).collect()
}

/// Returns header values that a visitor may send.
fn hostile_values() -> Vec<String> {
    let another_lines = "198.51.100.7, 203.0.113.9".to_owned();
    let named =
        ["", "-", "constant", FETCH, "\"quo\\\"te\\", "\"", "a\nb", "' OR 1=1 --", "\u{202e}é", "image/png"].map(str::to_owned);
    named.into_iter().chain([another_lines, "x".repeat(10_000), FETCH.repeat(300)]).collect()
}

#[test]
fn c14_visitors_cannot_merge_two_lines() {
    let long = format!("/{}", "p".repeat(10_000));
    for provider in DrainProvider::ALL {
        for value in hostile_values() {
            for paths in [["/a", "/b"], [&format!("{long}1"), &format!("{long}2")]] {
                let of = |second, path| Request { second, host: "a.test", path, headers: [value.as_str(); 4] };
                let requests = [of(0, paths[0]), of(0, paths[1]), of(1, paths[0]), of(1, paths[1])];
                let events = kept(provider, &requests);
                let what = format!("{provider:?} {:.20} {:.5}", value, paths[0]);
                assert_eq!(identities(&events).len(), requests.len(), "{what}");
                assert_eq!(identities(&kept(provider, &requests)), identities(&events), "{what}: sent again");
                let is_correlated = value == FETCH && logs_telemetry_id(provider);
                for event in &events {
                    assert_eq!(event.correlation_key.is_some(), is_correlated, "{what}: only a UUID is a correlation id");
                    assert_eq!(event.content_telemetry_id.is_some(), is_correlated, "{what}: other values are not stored");
                }
            }
        }
    }
}

#[test]
fn c14_visitors_cannot_join_events_of_other_hosts_or_pages() {
    for provider in DrainProvider::ALL.into_iter().filter(|provider| logs_telemetry_id(*provider)) {
        let of = |host, path| Request { second: 0, host, path, headers: [FETCH, "r-1", "-", "-"] };
        let requests = [of("a.test", "/x"), of("b.test", "/x"), of("a.test", "/y"), of("www.a.test", "/x/?utm_source=s")];
        let events = kept(provider, &requests);
        let shared: Vec<_> = events.iter().map(|event| ReportKeys::new(ORG, None, event).shared.unwrap()).collect();
        assert_eq!(shared[0], shared[3], "{provider:?}: spellings of one page");
        assert_eq!(shared.iter().collect::<HashSet<_>>().len(), 3, "{provider:?}");
    }
}

/// F41: according to Fastly, its request id is unique only per cache server.
#[test]
fn same_request_id_from_two_servers_is_two_reports() {
    for provider in DrainProvider::ALL {
        let of = |second, host, path| Request { second, host, path, headers: ["", "3712890346", "", ""] };
        let requests = [of(0, "a.test", "/x"), of(1, "a.test", "/x"), of(0, "b.test", "/x"), of(0, "a.test", "/y")];
        assert_eq!(identities(&kept(provider, &requests)).len(), 4, "{provider:?}");
    }
}

#[test]
fn line_through_two_drains_is_one_report_unless_correlated() {
    let drain = |n| Some(DrainId(Uuid::from_u128(n)));
    for (telemetry_id, is_one) in [("", true), (FETCH, false)] {
        let request = Request { second: 0, host: "a.test", path: "/x", headers: [telemetry_id, "r-1", "", ""] };
        let event = kept(DrainProvider::Fastly, &[request]).remove(0);
        let [one, other, imported] = [drain(1), drain(2), None].map(|drain| ReportKeys::new(ORG, drain, &event));
        assert_eq!([one.identity == other.identity, one.identity == imported.identity], [is_one; 2], "{telemetry_id}");
        assert_eq!([other.shared, imported.shared], [one.shared; 2], "observers of one fetch");
    }
}

#[test]
fn text_cannot_move_into_the_next_field() {
    let line = |path: &str, query: &str| {
        json!({"timestamp": "2026-11-01T10:00:00Z", "host": "a.test", "url": path, "query": query, "method": "GET",
            "user_agent": BOT, "status": 200})
        .to_string()
    };
    let now = DateTime::from_timestamp(1_793_527_300, 0).unwrap();
    let (provider, bots) = (DrainProvider::Ndjson, BotTable::bundled());
    let dry_run = DrainDryRun { provider, host: None, hosts: Vec::new(), bots, now };
    let mut ids = HashSet::new();
    let take = |line: DryLine| {
        let LineOutcome::Kept(event) = line.outcome else { panic!("{:?}", line.outcome) };
        ids.insert(event.id);
        Ok(())
    };
    dry_run.lines([line("/a", "b\nc"), line("/a\nb", "c")].join("\n").as_bytes(), take).unwrap();
    assert_eq!(ids.len(), 2);
}
