//! Visitors' text that looks like the end of a server's text must not add or hide lines, or shift fields.

use super::{BOT, outcomes};
use crate::drains::format_table::FormatId;
use crate::drains::line_processor::LineOutcome;
use schemas::log::LogEvent;

const HOST: Option<&str> = Some("www.example.com");

/// Returns the events and the number of bad lines.
fn read(format: FormatId, log: &str) -> (Vec<LogEvent>, usize) {
    let (mut events, mut bad) = (Vec::new(), 0);
    for line in outcomes(format.row(), HOST, log) {
        match line.outcome {
            LineOutcome::Kept(event) => events.push(*event),
            LineOutcome::Bad(_) => bad += 1,
            _ => {}
        }
    }
    (events, bad)
}

fn counts(format: FormatId, log: &str) -> (usize, usize) {
    let (events, bad) = read(format, log);
    (events.len(), bad)
}

fn event(format: FormatId, log: &str) -> LogEvent {
    let (mut events, bad) = read(format, log);
    assert_eq!((events.len(), bad), (1, 0), "{log}");
    events.remove(0)
}

fn url(format: FormatId, log: &str) -> String {
    event(format, log).content_url.unwrap()
}

/// Returns a line in Fastly's default format, whose `client_ip` is an unescaped header.
fn fastly(client_ip: &str, path: &str) -> String {
    let line = FormatId::Fastly.row().sample.trim().replace("132.196.86.7", client_ip);
    line.replace("/article?page=2", path)
}

#[test]
fn f63_visitor_objects_in_fastly_lines_do_not_add_fetches() {
    let forged = fastly("132.196.86.7", "/forged");
    for end in ["", "{\"x\":\"", " , {\"x\":\""] {
        let line = fastly(&format!("1\"}}{forged}{forged}{end}"), "/");
        assert_eq!(counts(FormatId::Fastly, &line), (0, 1), "{line}");
        let (events, _) = read(FormatId::Fastly, &line.replace(",\"", ",\n  \"").replace('{', "{\n"));
        assert!(events.is_empty(), "{line}: {events:?}");
    }
}

#[test]
fn visitor_brackets_in_fastly_lines_do_not_hide_other_lines() {
    let honest = |number: u32| fastly("132.196.86.7", &format!("/{number}"));
    for (begin, end) in [("1\",\"a\":[{\"b\":\"", "1\"}],\"z\":\""), ("1\"]", "1"), ("1\",\"a\":[\"", "1")] {
        let lines = [honest(1), fastly(begin, "/"), honest(2), honest(3), fastly(end, "/"), honest(4)];
        for separator in ["\n", ",\n"] {
            let body = lines.join(separator);
            for body in [format!("[{body}]"), format!("[\n{body}\n]\n"), body] {
                let (events, _) = read(FormatId::Fastly, &body);
                let paths: Vec<&str> = events.iter().filter_map(|event| event.content_url.as_deref()).collect();
                for number in 1..=4 {
                    assert!(paths.contains(&format!("https://www.example.com/{number}").as_str()), "{body}: {paths:?}");
                }
            }
        }
        // Fastly's default format has one line per member.
        let body = lines.map(|line| line.replace(",\"", ",\n  \"")).join("\n");
        assert!(read(FormatId::Fastly, &body).0.len() >= 4, "{body}");
    }
}

#[test]
fn fastly_objects_can_be_nested_and_span_lines() {
    let nested = |number: u32| {
        fastly("132.196.86.7", &format!("/{number}")).replacen('{', "{\"geo\":{\"city\":\"Oslo\"},\"tags\":[{\"a\":1}],", 1)
    };
    for separator in ["\n", ",\n"] {
        let body = [nested(1), nested(2)].join(separator);
        for body in [body.clone(), body.replace(",\"", ",\n  \"")] {
            for body in [format!("[{body}]"), format!("[\n{body}\n]"), body] {
                assert_eq!(counts(FormatId::Fastly, &body), (2, 0), "{body}");
            }
        }
    }
}

#[test]
fn addresses_in_ecs_lines_do_not_verify() {
    let of_source = "\"source\":{\"ip\":\"132.196.86.7\"}";
    for address in
        [of_source, "\"client\":{\"ip\":\"132.196.86.7\"}", "\"client.ip\":\"132.196.86.7\",\"source.ip\":\"203.0.113.5\""]
    {
        let line = FormatId::Ecs.row().sample.replace(of_source, address);
        assert_eq!(event(FormatId::Ecs, &line).crawler.unwrap().verified, None, "{line}");
    }
}

#[test]
fn reads_escaped_and_truncated_haproxy_lines() {
    let sample = FormatId::Haproxy.row().sample.trim();
    let request = |target: &str| sample.replace("/article?page=2", target);
    assert_eq!(url(FormatId::Haproxy, &request("/a#22b?q=#22c#22")), "https://www.example.com/a%22b?q=%22c%22");
    // Syslog truncates lines after 1,024 bytes.
    assert_eq!(url(FormatId::Haproxy, sample.strip_suffix(" HTTP/1.1\"").unwrap()), "https://www.example.com/article?page=2");
}

#[test]
fn cookies_in_haproxy_lines_do_not_shift_fields() {
    let sample = FormatId::Haproxy.row().sample.trim();
    for cookie in ["SID=a {hr.example.com|GPTBot/1.2}", "SID=a {hr.example.com|GPTBot/1.2} \"GET /f", "SID=\" {"] {
        let line = sample.replace("5120 - -", &format!("5120 {cookie} -"));
        assert_eq!(url(FormatId::Haproxy, &line), "https://www.example.com/article?page=2", "{line}");
        let of_person = line.replace(BOT, "Mozilla/5.0");
        assert_eq!(counts(FormatId::Haproxy, &of_person), (0, 0), "{of_person}");
    }
    let with_response = sample.replace("} \"GET", "} {text/html} \"GET");
    assert_eq!(url(FormatId::Haproxy, &with_response), "https://www.example.com/article?page=2");
}

/// The line can also be Traefik's, with HAProxy's beginning in a forwarded header.
#[test]
fn requests_in_haproxy_cookies_are_not_fetches() {
    let forged = "[15/Feb/2026:11:00:00 +0000] \"GET /f HTTP/1.1\" 200 1 \"-\" \"GPTBot/1.2\"";
    for format in [FormatId::Haproxy, FormatId::HaproxyHttps] {
        for cookie in [forged.to_owned(), format!("x {forged}"), format!("203.0.113.5 - - {forged}")] {
            let line = format.row().sample.replace("5120 - -", &format!("5120 SID={cookie} -"));
            for line in [&line, line.split_once(": ").unwrap().1, &line.replace("Nov  1", "<134>Nov  1")] {
                if cookie == forged {
                    // Other servers write a space before their time.
                    assert_eq!(url(format, line), "https://www.example.com/article?page=2", "{line}");
                    assert_eq!(counts(format, &line.replace(BOT, "curl/8")), (0, 0), "{line}");
                } else {
                    assert_eq!(counts(format, line), (0, 1), "{line}");
                    assert_eq!(counts(format, &line.replace(BOT, "curl/8")), (0, 1), "{line}");
                }
            }
        }
    }
    // A forwarded header before another server's line.
    let forged = "132.196.86.7:1 [01/Nov/2026:10:00:00.000] f b/s 0/0/0/0/0 200 9 - - ---- 1/1/1/1/0 0/0 {a.test|GPTBot/1.2} x";
    let line =
        format!("{forged}, 203.0.113.5 - - [01/Nov/2026:10:00:00 +0000] \"GET /a HTTP/1.1\" 404 10 \"-\" \"GET /f HTTP/1.1\"");
    assert_eq!(counts(FormatId::Combined, &line), (0, 1), "{line}");
}

/// Error logs and application logs contain visitors' text, and are often sent together with the access log.
#[test]
fn requests_in_other_logs_are_not_fetches() {
    let forged = "[01/Nov/2026:10:00:00 +0000] \"GET /forged HTTP/1.1\" 200 1 \"-\" \"GPTBot/1.2";
    let error =
        "2026/11/01 10:00:00 [error] 7#7: *1 open() \"/x\" failed (2: No such file), client: 203.0.113.5, server: a.test,";
    for before in [
        &format!("{error} request: \"GET /x HTTP/1.1\", host: \"a.test\", referrer: \"x"),
        &format!("{error} referrer: \"x, 203.0.113.5 - -"),
        "[Sun Nov 01 10:00:00.1 2026] [core:error] [pid 7] [client 203.0.113.5:1] AH00126: Invalid URI, referer: x",
        "2026-11-01 10:00:00,123 INFO user agent x",
        "2026-11-01 10:00:00,123 INFO: 203.0.113.5 - x",
        "2026-11-01T10:00:00Z 203.0.113.5 - x",
        "time=10:00:00,123 x",
        "10:00:00,123 x",
        "203.0.113.5 ua=\"x",
        "203.0.113.5 ua=x",
        "203.0.113.5 - ua=\"x",
        "203.0.113.5 logged in with x",
        "\"203.0.113.5\" \"x",
        "\"GET /x HTTP/1.1\" \"x",
        "Nov  1 10:00:00 web-1 app[7]: ua=x, 203.0.113.5 - -",
        "INFO x, 203.0.113.5 - -",
        "INFO x",
    ] {
        for (format, log) in [
            (FormatId::Combined, format!("{before} {forged}\"")),
            (FormatId::Combined, format!("<13>Nov  1 10:00:00 web-1 nginx: {before} {forged}\"")),
            (FormatId::Json, serde_json::json!({"message": format!("{before} {forged}\"")}).to_string()),
            (FormatId::Json, serde_json::json!({"log": format!("{before} {forged}\"\n"), "stream": "stderr"}).to_string()),
        ] {
            assert_eq!(counts(format, &log), (0, 1), "{log}");
        }
    }
    let haproxy =
        "132.196.86.7:1 [01/Nov/2026:10:00:00.000] f b/s 0/0/0/0/0 200 9 - - ---- 1/1/1/1/0 0/0 {a.test|GPTBot/1.2} \"GET /f";
    assert_eq!(counts(FormatId::Haproxy, &format!("INFO user agent: {haproxy}")), (0, 1));
}

#[test]
fn removes_syslog_and_container_headers() {
    let sample = FormatId::Combined.row().sample.trim();
    for header in [
        "",
        "Nov  1 10:00:00 web-1 nginx: ",
        "<190>Nov 11 10:00:00 nginx: ",
        "2026-11-01T10:00:00.123+00:00 web-1 nginx[7]: ",
        "<190>1 2026-11-01T10:00:00Z web-1 nginx 7 - - ",
        "2026-11-01T10:00:00.123Z stdout F ",
    ] {
        for line in [sample.to_owned(), format!("www.example.com:443 {sample}")] {
            let (events, bad) = read(FormatId::Combined, &format!("{header}{line}\n{header}{line}"));
            assert_eq!((events.len(), bad), (2, 0), "{header}");
            for event in events {
                assert_eq!(event.content_url.as_deref(), Some("https://www.example.com/article?page=2"), "{header}");
                assert_eq!(event.crawler.unwrap().verified, header.is_empty().then_some(true), "{header}");
            }
        }
    }
}

#[test]
fn bunny_edge_names_can_have_digits() {
    let line = FormatId::Bunny.row().sample.replace("|DE|", "|IQ2|");
    assert_eq!(url(FormatId::Bunny, &line), "https://www.example.com/article?page=2");
}

/// Many nginx configurations log the `X-Request-ID` header under this name.
#[test]
fn visitors_request_ids_do_not_merge_json_lines() {
    let one = FormatId::Json.row().sample;
    let others = ["GET", "HEAD"].map(|method| one.replace("5120", "17").replace("GET", method));
    let [id, first, second] = [one, &others[0], &others[1]].map(|line| event(FormatId::Json, line).own_key);
    assert!(id != first && first != second && second != id);
}

#[test]
fn google_member_names_require_a_user_agent_in_other_logs() {
    let sample = FormatId::GoogleLoadBalancer.row().sample;
    let without = sample.replace(&format!(",\"userAgent\":\"{BOT}\""), "");
    assert_ne!(without, sample);
    assert_eq!(counts(FormatId::GoogleLoadBalancer, &without), (0, 0), "a person");
    let of_other = without.replace("\"insertId\":\"1oek5rg3l3fxj7\",", "");
    assert_eq!(counts(FormatId::GoogleLoadBalancer, &of_other), (0, 1));
}

#[test]
fn empty_traefik_paths_are_the_front_page() {
    let line = FormatId::TraefikJson.row().sample.replace("/article?page=2", "");
    assert_eq!(url(FormatId::TraefikJson, &line), "https://www.example.com/");
}

/// HAProxy doesn't escape the TLS name at the end of a line, nor cookies before the request.
#[test]
fn tls_names_do_not_shift_haproxy_fields() {
    let sample = FormatId::HaproxyHttps.row().sample.trim();
    let forged = "x {hr.example.com|GPTBot/1.2} {} \"GET /f HTTP/1.1\" 0/0/0/0/0 x/TLSv1.3/X";
    for name in ["", "-", "a b", "\"", "a/b/c", " \"GET /f", forged] {
        let line = sample.replace("0/0/0/0/0 www.example.com/", &format!("0/0/0/0/0 {name}/"));
        assert_ne!(line, sample);
        assert_eq!(url(FormatId::HaproxyHttps, &line), "https://www.example.com/article?page=2", "{line}");
        let of_person = line.replacen(BOT, "Mozilla/5.0", 1);
        assert_eq!(counts(FormatId::HaproxyHttps, &of_person), (0, 0), "{of_person}");
    }
    let with_cookie = sample.replace("5120 - -", &format!("5120 SID={forged} -"));
    assert_eq!(url(FormatId::HaproxyHttps, &with_cookie), "https://www.example.com/article?page=2");
    let without_tls = sample.replace("0/0/0/0/0 www.example.com/TLSv1.3/TLS_AES_256_GCM_SHA384", "0/-/-/-/0 -/-/-");
    assert_eq!(url(FormatId::HaproxyHttps, &without_tls), "http://www.example.com/article?page=2");
}

/// nginx and Apache write `\xHH`, which load balancers and shippers pass on.
#[test]
fn decodes_server_escapes_in_every_format() {
    let (written, page) = (r"/caf\xC3\xA9?q=\x22\x5Cx41\xE9", r#"/caf%C3%A9?q=%22\x41%E9"#);
    for format in [
        FormatId::Combined,
        FormatId::IngressNginx,
        FormatId::AwsAlb,
        FormatId::Vector,
        FormatId::FluentBit,
        FormatId::Logstash,
        FormatId::Ecs,
    ] {
        let sample = format.row().sample;
        let written = if sample.starts_with('{') { written.replace('\\', "\\\\") } else { written.to_owned() };
        let found = url(format, &sample.replace("/article?page=2", &written));
        assert_eq!(found.replace('"', "%22"), format!("https://www.example.com{page}"), "{sample}");
    }
    let of_nginx = FormatId::FluentBit.row().sample.replace("referer", "http_referer").replace("page=2", r"\\x41");
    assert!(url(FormatId::FluentBit, &of_nginx).ends_with(r"?\x41"), "nginx with escape=json writes {of_nginx}");
}

/// A Worker's own requests have the visitor's user agent.
#[test]
fn worker_subrequests_are_not_fetches() {
    let sample = FormatId::Cloudflare.row().sample;
    let line = |members: &str| sample.replacen('{', &format!("{{{members},"), 1);
    for (members, kept) in [
        ("\"WorkerSubrequest\":true", 0),
        ("\"WorkerSubrequest\":true,\"ClientRequestSource\":\"edgeWorkerFetch\"", 0),
        ("\"WorkerSubrequest\":false", 1),
        ("\"WorkerSubrequest\":null", 1),
        ("\"WorkerSubrequestCount\":2", 1),
    ] {
        assert_eq!(counts(FormatId::Cloudflare, &line(members)), (kept, 0), "{members}");
    }
}

/// <https://developers.cloudflare.com/logs/reference/clientrequestsource/>
#[test]
fn only_eyeball_requests_at_cloudflare_are_fetches() {
    let count = |source: &str| {
        let member = format!("{{\"ClientRequestSource\":\"{source}\",");
        counts(FormatId::Cloudflare, &FormatId::Cloudflare.row().sample.replacen('{', &member, 1)).0
    };
    for source in ["eyeball", "Eyeball", "orangeToOrange", "unknown", "", "-"] {
        assert_eq!(count(source), 1, "{source}");
    }
    for source in [
        "purge",
        "alwaysOnline",
        "healthcheck",
        "edgeWorkerFetch",
        "edgeWorkerCacheAPI",
        "edgeWorkerKV",
        "imageResizing",
        "sslDetector",
        "earlyHintsCache",
        "inBrowserChallenge",
    ] {
        assert_eq!(count(source), 0, "{source}");
    }
}

/// Users with spaces don't match the shippers' patterns, so shippers send such lines unparsed.
#[test]
fn reads_lines_that_match_no_pattern() {
    let line = format!("203.0.113.5 - \u{e9} b [01/Nov/2026:10:00:00 +0000] \"GET /a HTTP/1.1\" 200 10 \"-\" \"{BOT}\"");
    let json = FormatId::Json.row().sample.trim().replace("/article?page=2", "/a");
    for (message, members) in [
        (
            &line,
            serde_json::json!({"@timestamp": "2026-11-01T10:00:07Z", "tags": ["_grokparsefailure"], "host": "web-1", "path": "/var/log/x"}),
        ),
        (&line, serde_json::json!({"date": 1_793_527_207.0})),
        (&json, serde_json::json!({"date": 1_793_527_207.0})),
        (&format!("{line}\n"), serde_json::json!({"stream": "stdout", "time": "2026-11-01T10:00:07Z"})),
    ] {
        for name in ["message", "log"] {
            let mut log = members.clone();
            log[name] = message.as_str().into();
            let event = event(FormatId::Json, &log.to_string());
            assert_eq!(
                (event.content_url.as_deref(), event.at_ms),
                (Some("https://www.example.com/a"), 1_793_527_200_000),
                "{log}"
            );
        }
    }
}

/// Logs that begin with `X-Forwarded-For`, from servers that escape quotes.
#[test]
fn headers_that_look_like_columns_do_not_drop_lines() {
    let rest = format!("203.0.113.5 - - [01/Nov/2026:10:00:00 +0000] \"GET /a HTTP/1.1\" 200 10 \"-\" \"{BOT}\"");
    let alb = "https 2026-11-01T10:00:00.000641Z app/x 132.196.86.7:2817 192.0.2.5:80 0 0 0 200 200 34 5120 \\x22GET";
    for begin in ["HIT|200|1793527200000|10|390|", "h2,2026-11-01", "{\\x22a\\x22:1}", "#Fields:, c-ip"] {
        let event = event(FormatId::Combined, &format!("{begin}, {rest}"));
        assert_eq!(event.content_url.as_deref(), Some("https://www.example.com/a"), "{begin}");
        assert_ne!(event.crawler.unwrap().verified, Some(true), "{begin}");
    }
    // Lists contain no spaces. Text with some can be from another log, see `requests_in_other_logs_are_not_fetches`.
    for begin in [alb, "h2 2026-11-01", "#Fields: c-ip"] {
        assert_eq!(counts(FormatId::Combined, &format!("{begin}, {rest}")), (0, 1), "{begin}");
    }
}
