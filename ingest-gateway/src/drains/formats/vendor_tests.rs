//! Tests of lines from vendors' documentation, and of forged text in the formats of single vendors.

use super::super::dry_run::DryLine;
use super::super::format_table::FormatId;
use super::super::line_processor::LineOutcome;
use super::outcomes;

const BOT: &str = "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)";

/// Returns the format and outcome of a line: the URL with the status, `person`, or the reason.
fn read(provider: FormatId, host: Option<&str>, log: &str) -> (Option<&'static str>, String) {
    let [DryLine { format, outcome, .. }] =
        <[DryLine; 1]>::try_from(outcomes(provider.row(), host, log)).ok().unwrap_or_else(|| panic!("{log}"));
    let outcome = match outcome {
        LineOutcome::Kept(event) => {
            format!("{} {:?}", event.content_url.unwrap(), event.crawler.unwrap().verified)
        }
        LineOutcome::Refused(fetch) => format!("{} {}", fetch.path, fetch.status),
        LineOutcome::Person => "person".to_owned(),
        LineOutcome::Bad(reason) | LineOutcome::Dropped(reason) => reason.to_owned(),
        LineOutcome::Trial => "trial".to_owned(),
    };
    (format.map(|format| format.name), outcome)
}

/// Formats, outcomes and lines, as documented except for dates.
const DOCUMENTED: &[(&str, &str, &str)] = &[
    (
        "envoy",
        "person",
        r#"[2026-04-15T20:17:00.310Z] "POST /api/v1/locations HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "nsq2http" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "locations" "tcp://10.0.2.1:80""#,
    ),
    (
        "istio",
        "person",
        r#"[2026-10-25T21:26:18.409Z] "GET /status/418 HTTP/1.1" 418 - via_upstream - "-" 0 135 4 4 "-" "curl/7.73.0-DEV" "84961386-6d84-929d-98bd-c5aee93b5c88" "httpbin:8000" "10.44.1.27:80" outbound|8000||httpbin.foo.svc.cluster.local 10.44.1.23:37652 10.0.45.184:8000 10.44.1.23:46520 - default"#,
    ),
    (
        "envoy",
        "person",
        r#"ACCESS [2026-04-10T03:49:34.451Z] "GET /httpbin/status/501 HTTP/1.1" 501 - 0 0 180 179 "172.17.0.3" "curl/7.59.0" "413bf460-bd56-4515-ada4-2a69c5e78e54" "httpbin.org" "52.71.234.219:80""#,
    ),
    (
        "amazon_s3",
        "person",
        r#"b659b576cff1e15e4c0313ff8930fba9f53e6794567f5c60dab3abf2f8dfb6cc www.example.com [10/Feb/2026:16:42:07 -0500] 1.2.3.4 arn:aws:iam::179580289999:user/phillip.boss EB3502676500C6BE WEBSITE.GET.OBJECT index "GET /index HTTP/1.1" 200 - 368 368 10 9 "-" "Mozilla/5.0 (X11; Linux x86_64)""#,
    ),
    (
        "aws_elb",
        "person",
        r#"2026-05-13T23:39:43.945958Z my-loadbalancer 192.168.131.39:2817 10.0.0.1:80 0.000073 0.001048 0.000057 200 200 0 29 "GET http://www.example.com:80/ HTTP/1.1" "curl/7.38.0" - -"#,
    ),
    (
        "aws_elb",
        "person",
        r#"2026-05-13T23:39:43.945958Z my-loadbalancer 192.168.131.39:2817 - -1 -1 -1 503 0 0 0 "GET http://www.example.com:80/ HTTP/1.1" "curl/7.38.0" - -"#,
    ),
    (
        "gcore",
        "person",
        r#""0.0.0.0" "-" "-" "[26/Apr/2026:09:47:40 +0000]" "GET /ContentCommon/images/image.png HTTP/1.1" "200" "1514283" "https://example.com/videos/10" "Mozilla/5.0 (Windows NT 10.0)" "1514848" "[dh]" "https" "cdn.example.com" "0.000" "0.000""#,
    ),
    (
        "keycdn",
        "person",
        r#"1785961382.123|usla|111.111.111.0|200|253061|uid1234|zid4321|example-hexid.kxcdn.com|HIT|"GET /lorem.jpg HTTP/1.1"|[05/Aug/2026:22:23:02 +0200]|"http://www.yourwebsite.com"|"Mozilla/5.0 (Windows NT 6.1; WOW64; rv:31.0) Gecko/20100101 Firefox/31.0"|https|TLSv1.2|US|CA|"AS14618 Amazon.com, Inc."|-"#,
    ),
    (
        "heroku_router",
        "no_user_agent",
        r#"2026-10-11T03:47:20+00:00 heroku[router]: at=info method=GET path="/" host=myapp.herokuapp.com request_id=8601b555-6a83-4c12-8269-97c8e32cdb22 fwd="204.204.204.204" dyno=web.1 connect=1ms service=18ms status=200 bytes=13"#,
    ),
    (
        "heroku_router",
        "no_user_agent",
        r#"216 <158>1 2026-10-11T03:47:20+00:00 host heroku router - at=error code=H12 desc="Request timeout" method=GET path="/" host=myapp.herokuapp.com fwd="204.204.204.204" dyno=web.1 connect= service=30000ms status=503 bytes=0"#,
    ),
    (
        "squid",
        "no_user_agent",
        "1789036250.129     19 192.168.0.1 TCP_MISS/200 3210 GET http://www.example.com/ - DIRECT/192.0.2.1 text/html",
    ),
    (
        "common",
        "no_user_agent",
        r#"192.168.0.1 - - [29/Oct/2026:10:00:00 -0000] "GET http://www.example.com/ HTTP/1.1" 200 5120 - 0 0 0 120 250 0 0 0"#,
    ),
    ("morgan", "no_time", "GET /users 200 12.345 ms - 2345"),
    ("morgan", "no_time", "\x1b[0mGET /users \x1b[32m200\x1b[0m 12.345 ms - 2345\x1b[0m"),
    ("morgan", "no_time", "\x1b[0mGET / \x1b[36m304\x1b[0m 0.512 ms - -\x1b[0m"),
    ("morgan", "no_time", "::1 - GET / HTTP/1.1 200 15 - 1.555 ms"),
];
/// Outcomes and lines without a request that any format recognizes.
const OTHERS: &[(&str, &str)] = &[
    (
        "no_request",
        r#"2026-05-13T23:39:43.945958Z my-loadbalancer 192.168.131.39:2817 10.0.0.1:80 0.001069 0.000028 0.000041 - - 82 305 "- - - " "-" - -"#,
    ),
    (
        "no_request",
        r#"[2026-10-25T21:26:18.409Z] "- - -" 0 - - - "-" 1 2 3 - "-" "-" "-" "-" "10.44.1.27:80" outbound|80||a 10.44.1.23:1 10.0.45.184:8000 10.44.1.23:46520 - -"#,
    ),
    (
        "no_request",
        r#"79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be amzn-s3-demo-bucket1 [06/Feb/2026:00:00:38 +0000] 192.0.2.3 79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be 3E57427F3EXAMPLE REST.GET.VERSIONING - "GET /amzn-s3-demo-bucket1?versioning HTTP/1.1" 200 - 113 - 7 - "-" "S3Console/0.4" - s9lzHYrFp76= SigV4 ECDHE-RSA-AES128-GCM-SHA256 AuthHeader amzn-s3-demo-bucket1.s3.us-west-1.amazonaws.com TLSV1.2 - -"#,
    ),
    ("not_combined", "GET /users took 12 ms - 2345"),
    ("not_combined", "2026-10-11T03:47:20+00:00 app[web.1]: at=info method=GET path=\"/\""),
];

#[test]
fn reads_documented_lines_of_text_formats() {
    for (format, expected, log) in DOCUMENTED {
        assert_eq!(read(FormatId::Combined, None, log), (Some(*format), (*expected).to_owned()), "{log}");
    }
    for (reason, log) in OTHERS {
        assert_eq!(read(FormatId::Combined, None, log), (None, (*reason).to_owned()), "{log}");
    }
}

#[test]
fn reads_istio_lines_from_kubernetes_and_syslog_lengths() {
    let istio = FormatId::Istio.row().sample;
    let combined = FormatId::Combined.row().sample;
    for (format, log) in [
        ("istio", format!("2026-11-01T10:00:00.5Z stdout F {istio}")),
        ("combined", format!("310 <190>1 2026-11-01T10:00:00Z host app web.1 - {combined}")),
    ] {
        let (found, outcome) = read(FormatId::Combined, Some("www.example.com"), &log);
        assert_eq!(found, Some(format), "{log}");
        assert!(outcome.starts_with("https://www.example.com/article?page=2 "), "{log}: {outcome}");
    }
}

/// Envoy escapes nothing.
#[test]
fn parses_each_envoy_line_in_only_one_way() {
    for format in [FormatId::Envoy, FormatId::Istio] {
        let sample = format.row().sample.trim();
        let (forwarded, agent, path) = (" 1 \"-\" ", BOT, "/article?page=2");
        let of = |what: &str, instead: &str| {
            let log = sample.replacen(what, instead, 1);
            assert_ne!(log, sample);
            read(format, None, &log).1
        };
        for kept in ["\"", "a \"b\" c", " x\" y", "{\"a\":\"b\"}"] {
            assert_eq!(of(agent, &format!("{agent}{kept}")), "https://www.example.com/article?page=2 None", "{kept}");
        }
        for forged in [
            // This would store the address that a proxy appended to the header as the user agent.
            of(forwarded, " 1 \"x\" \"y, 203.0.113.5\" "),
            of(agent, &format!("{agent}\" \"203.0.113.5")),
            of(path, "/f HTTP/2\" 404 - 0 9 1 1 \"a"),
            of(path, "/f HTTP/2\" 404 - x - \"-\" 0 9 1 1 \"a"),
            of(agent, &format!("{agent}\" 404 - 0 9 1 1 \"a")),
            of(agent, &format!("{agent} [01/Nov/2026:10:00:00 +0000] \"GET /f HTTP/1.1\" 200 9 \"-\" \"GPTBot/1.2")),
            // Columns other than those documented.
            of("\"10.", "\"203.0.113.5\" \"10."),
        ] {
            assert!(matches!(forged.as_str(), "wrong_columns" | "not_combined"), "{sample}: {forged}");
        }
        assert_eq!(of("www.example.com", "b.test:8443"), "https://b.test:8443/article?page=2 None");
    }
}

/// Names that nginx and others write into the user's header can't move columns.
#[test]
fn rejects_forged_beginnings_in_vendor_formats() {
    let rest = format!("203.0.113.5 - - [01/Nov/2026:10:00:00 +0000] \"GET /a HTTP/1.1\" 200 10 \"-\" \"{BOT}\"");
    for format in [
        FormatId::Envoy,
        FormatId::Istio,
        FormatId::NginxProxyManager,
        FormatId::Gcore,
        FormatId::KeyCdn,
        FormatId::AmazonS3,
        FormatId::AwsElb,
        FormatId::HerokuRouter,
        FormatId::Squid,
        FormatId::Morgan,
    ] {
        // Servers that don't escape quotes in a header before the line, and servers that do.
        let sample = format.row().sample.trim();
        for begin in [sample.to_owned(), sample.replace('"', "\\x22")] {
            let (_, outcome) = read(FormatId::Combined, Some("www.a.test"), &format!("{begin}, {rest}"));
            assert!(matches!(outcome.as_str(), "wrong_columns" | "not_combined"), "{begin}: {outcome}");
        }
    }
}

/// nginx escapes quotes, so a time and a space at the end of a user agent can't begin a request.
#[test]
fn times_at_the_end_of_user_agents_do_not_hide_fetches() {
    for format in [FormatId::KeyCdn, FormatId::Gcore, FormatId::NginxProxyManager, FormatId::AwsElb, FormatId::Combined] {
        let log = format.row().sample.replace(BOT, &format!("{BOT} [01/Nov/2026:10:00:00 +0000] "));
        let (_, outcome) = read(format, Some("www.example.com"), &log);
        assert!(outcome.starts_with("https://www.example.com/article?page=2 "), "{log}: {outcome}");
    }
}

/// A format that someone changed must not move a field.
#[test]
fn rejects_changed_nginx_proxy_manager_columns() {
    let sample = FormatId::NginxProxyManager.row().sample;
    for (from, to) in [(" - GET", " GET"), (" https ", " "), ("[Client 132.196.86.7] ", ""), (" [Gzip -]", "")] {
        let log = sample.replace(from, to);
        assert_ne!(log, sample);
        assert_eq!(read(FormatId::NginxProxyManager, None, &log).1, "wrong_columns", "{log}");
    }
    let of_redirection = sample.replace("- 200 200 -", "301 -").replace(" [Sent-to 192.0.2.5]", "");
    assert_eq!(read(FormatId::NginxProxyManager, None, &of_redirection).1, "/article 301");
}

/// Squid writes `unknown` into the header instead of an address, and so can visitors.
#[test]
fn names_in_forwarded_headers_do_not_hide_fetches() {
    for list in ["unknown, 132.196.86.7", "localhost, localhost", "132.196.86.7, unknown", "unknown"] {
        for host in ["", "www.example.com "] {
            let log = FormatId::Combined.row().sample.replace("132.196.86.7", &format!("{host}{list}"));
            let (_, outcome) = read(FormatId::Combined, Some("www.example.com"), &log);
            assert!(outcome.starts_with("https://www.example.com/article?page=2 "), "{log}: {outcome}");
        }
    }
}

/// Kong and APISIX log the gateway's URL, and pino logs the text of any application.
#[test]
fn node_and_gateway_logs_use_the_host_header() {
    for format in [FormatId::Kong, FormatId::Apisix] {
        let log = format.row().sample.replace("https://www.example.com:", "http://victim.test:");
        assert_eq!(read(format, None, &log).1, "https://www.example.com/article?page=2 Some(true)", "{log}");
    }
    let pino = FormatId::Pino.row().sample;
    for (from, to, expected) in [
        (r#""host":"www.example.com","#, "", "no_host"),
        (r#""id":1,"#, r#""host":"b.test","#, "https://b.test/article?page=2 None"),
        (r#""id":1,"#, r#""hostname":"b.test","#, "https://b.test/article?page=2 None"),
        (r#""statusCode":200,"#, r#""statusCode":404,"#, "/article 404"),
        (r#","res":{"statusCode":200,"#, r#","x":{"#, "no_status"),
        (r#""user-agent""#, r#""x""#, "no_user_agent"),
    ] {
        let log = pino.replace(from, to);
        assert_ne!(log, pino, "{from}");
        assert_eq!(read(FormatId::Pino, None, &log), (Some("pino"), expected.to_owned()), "{log}");
    }
    let fastify = r#"{"level":30,"time":1793527200000,"pid":1,"hostname":"web-1","reqId":"req-1","req":{"method":"GET","url":"/","host":"a.test","remoteAddress":"192.0.2.1","remotePort":1},"msg":"incoming request"}"#;
    assert_eq!(read(FormatId::Pino, None, fastify), (Some("pino"), "no_user_agent".to_owned()));
}
