//! JSON lines from servers and configured formats, with visitors' input.

use super::super::super::dry_run::DryLine;
use super::super::outcomes;
use super::*;
use crate::drains::line_processor::LineOutcome;
use schemas::log::LogEvent;
use serde_json::{Value, json};

const BOT: &str = "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)";
const AT_MS: i64 = 1_793_527_200_000;

fn outcome(format: FormatId, log: &str) -> LineOutcome {
    let [line] = <[DryLine; 1]>::try_from(outcomes(format.row(), None, log)).ok().unwrap_or_else(|| panic!("{log}"));
    line.outcome
}

/// Returns a kept line's event.
fn kept(format: FormatId, log: &str) -> LogEvent {
    match outcome(format, log) {
        LineOutcome::Kept(event) => *event,
        other => panic!("{log}: {other:?}"),
    }
}

fn url(format: FormatId, log: &str) -> String {
    kept(format, log).content_url.unwrap()
}

/// Returns an nginx line with these members before its own names.
fn nginx(members: &Value) -> String {
    let mut line = json!({"time_iso8601": "2026-11-01T10:00:00+00:00", "request_uri": "/article", "request_method": "GET",
        "http_user_agent": BOT, "status": "200", "body_bytes_sent": "10"});
    line.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    if line.get("host").is_none() && line.get("server_name").is_none() {
        line["host"] = "www.example.com".into();
    }
    line.to_string()
}

/// Returns Fastly lines with these members at the beginning and at the end.
fn fastly(members: &str) -> [String; 2] {
    let sample = FormatId::Fastly.row().sample.trim_end();
    [sample.replacen('{', &format!("{{{members},"), 1), sample.replace('}', &format!(",{members}}}"))]
}

/// `$server_name` is the first name of the block that responded; for the default block it is `_` by convention.
#[test]
fn prefers_the_requested_host_to_configured_names() {
    for (hosts, expected) in [
        (r#""host":"www.example.com","server_name":"_""#, "www.example.com"),
        (r#""server_name":"_","host":"www.example.com""#, "www.example.com"),
        (r#""server_name":"example.com","host":"blog.example.net""#, "blog.example.net"),
        (r#""host":"blog.example.net","server_name":"example.com""#, "blog.example.net"),
        (r#""server_name":"example.com","http_host":"blog.example.net""#, "blog.example.net"),
        (r#""host":"web-1","http_host":"blog.example.net","server_name":"_""#, "blog.example.net"),
        (r#""vhost":"example.com","http_host":"blog.example.net""#, "blog.example.net"),
        (r#""vhost":"_","host":"blog.example.net""#, "blog.example.net"),
        (r#""http_host":"203.0.113.5","host":"blog.example.net""#, "blog.example.net"),
        (r#""http_host":"","host":"blog.example.net""#, "blog.example.net"),
        (r#""host":"web-1","server_name":"example.com""#, "example.com"),
        (r#""server_name":"example.com","host":"192.0.2.7""#, "example.com"),
        (r#""host":"web-1","server_name":"~^(?<sub>.+)\\.example\\.com$","vhost":"a.example.com:443""#, "a.example.com:443"),
    ] {
        let log = format!("{{{hosts},{}", nginx(&json!({"host": "x"})).replace(r#""host":"x","#, "").trim_start_matches('{'));
        let expected = format!("https://{}/article", expected.trim_end_matches(":443"));
        assert_eq!(url(FormatId::Json, &log).replace(":443/", "/"), expected, "{log}");
    }
    let nobodys = nginx(&json!({"host": "web-1", "server_name": "_"}));
    assert!(matches!(outcome(FormatId::Json, &nobodys), LineOutcome::Bad("bad_host")), "{nobodys}");
}

/// nginx's `$content_type` is a header that visitors send.
#[test]
fn request_media_types_do_not_hide_pages() {
    for members in [json!({}), json!({"sent_http_content_type": "text/html"}), json!({"resp_content_type": "text/html"})] {
        let mut members = members;
        members["content_type"] = "image/png".into();
        let event = kept(FormatId::Json, &nginx(&members));
        assert_eq!(event.content_url.as_deref(), Some("https://www.example.com/article"), "{members}");
        assert_ne!(event.crawler.unwrap().media_type, "image/png", "{members}");
    }
    let sample = FormatId::Json.row().sample.replacen('{', "{\"content_type\":\"image/png\",", 1);
    for (name, value) in [
        ("http_referer", "-"),
        ("request_time", "0.003"),
        ("upstream_addr", "192.0.2.5:80"),
        ("http_x_forwarded_for", "-"),
        ("time_local", "01/Nov/2026:10:00:00 +0000"),
        ("remote_addr", "132.196.86.7"),
        ("server_name", "_"),
        ("request", "GET /article?page=2 HTTP/1.1"),
    ] {
        let log = sample.replacen('{', &format!("{{\"{name}\":\"{value}\","), 1);
        assert_eq!(url(FormatId::Json, &log), "https://www.example.com/article?page=2", "{log}");
    }
    assert!(matches!(outcome(FormatId::Json, &sample), LineOutcome::Dropped("asset")), "our formats log the response's type");
    for log in fastly(r#""content_type":"image/png","request_uri":"/article?page=2""#) {
        assert!(matches!(outcome(FormatId::Fastly, &log), LineOutcome::Dropped("asset")), "{log}");
    }
}

#[test]
fn reads_response_media_types() {
    for name in [
        "media_type",
        "sent_http_content_type",
        "upstream_http_content_type",
        "resp_content_type",
        "response_content_type",
        "resp_http_content_type",
        "resp_header_Content-Type",
    ] {
        let log = |media_type| nginx(&json!({name: media_type, "content_type": "", "request_uri": "/wiki/Node.js"}));
        assert_eq!(kept(FormatId::Json, &log("text/html")).crawler.unwrap().media_type, "text/html", "{name}");
        assert!(matches!(outcome(FormatId::Json, &log("image/png")), LineOutcome::Dropped("asset")), "{name}");
    }
}

/// The visitor requests the page again with `If-None-Match`. Servers may repeat the page's media type.
#[test]
fn page_revalidations_are_not_assets() {
    let log = |status, media_type| {
        nginx(&json!({"request_uri": "/wiki/Node.js", "status": status, "sent_http_content_type": media_type}))
    };
    let refused = |log: &str| match outcome(FormatId::Json, log) {
        LineOutcome::Refused(fetch) => (fetch.path, fetch.status),
        other => panic!("{log}: {other:?}"),
    };
    assert_eq!(refused(&log("304", "text/html")), ("/wiki/Node.js".to_owned(), 304));
    for (status, media_type) in [("304", ""), ("304", "text/css"), ("304", "text/plain"), ("404", "text/html")] {
        let log = log(status, media_type);
        assert!(matches!(outcome(FormatId::Json, &log), LineOutcome::Dropped("asset")), "{log}");
    }
}

/// Formats log a request's duration as `time`.
#[test]
fn does_not_read_durations_as_times() {
    for duration in ["0.003", "3421", "\"3421\"", "1500000", "\"0.003\"", "\"3ms\"", "0"] {
        for log in fastly(&format!("\"time\":{duration}")) {
            assert_eq!(kept(FormatId::Fastly, &log).at_ms, AT_MS, "{log}");
            assert_eq!(kept(FormatId::Json, &log).at_ms, AT_MS, "{log}");
        }
        let sample = FormatId::Json.row().sample;
        let alone = sample.replace("\"timestamp\":\"2026-11-01T10:00:00Z\"", &format!("\"time\":{duration}"));
        assert_ne!(alone, sample);
        assert!(matches!(outcome(FormatId::Json, &alone), LineOutcome::Bad("bad_time")), "{alone}");
    }
    for log in fastly("\"time\":\"2026-10-01T10:00:00Z\"") {
        assert!(matches!(outcome(FormatId::Fastly, &log), LineOutcome::Bad("repeated_member")), "{log}");
    }
}

#[test]
fn spellings_of_a_host_do_not_contradict_each_other() {
    for host in ["WWW.Example.COM", "www.example.com:443", "www.example.com.", "example.com", "-", "cache-fra1", "192.0.2.5"] {
        for log in fastly(&format!("\"http_host\":\"{host}\"")) {
            assert!(url(FormatId::Fastly, &log).to_ascii_lowercase().contains("example.com/article?page=2"), "{log}");
        }
    }
    for host in ["victim.test", "www.example.com.victim.test", "blog.example.com", "victim.test:443"] {
        for log in fastly(&format!("\"http_host\":\"{host}\"")) {
            assert!(matches!(outcome(FormatId::Fastly, &log), LineOutcome::Bad("repeated_member")), "{log}");
        }
    }
}

/// Fluent Bit adds `date` to its lines, but customers' formats can also contain it.
#[test]
fn dates_do_not_turn_fastly_lines_into_fluent_bit() {
    let day_and_time = fastly("\"x\":1").map(|log| {
        log.replace(r#""timestamp":"2026-11-01T10:00:00+0000""#, r#""date":"2026-11-01","time":"10:00:00","fastly_server":"a""#)
    });
    for log in day_and_time {
        assert_eq!(kept(FormatId::Fastly, &log).at_ms, AT_MS, "{log}");
    }
    for members in [
        r#""fastly_server":"cache-fra1","date":"2026-11-01""#,
        r#""fastly_server":"cache-fra1","date":"2026-11-02""#,
        r#""fastly_server":"cache-fra1","date":1793527200.0"#,
        r#""date":"2026-11-01""#,
        r#""fastly_server":"cache-fra1","remote_user":"-","server_name":"www.example.com""#,
    ] {
        for log in fastly(members) {
            let [line] = <[DryLine; 1]>::try_from(outcomes(FormatId::Fastly.row(), None, &log)).ok().unwrap();
            assert_eq!(line.format.map(|format| format.id), Some(FormatId::Fastly), "{log}");
            let LineOutcome::Kept(event) = line.outcome else { panic!("{log}: {:?}", line.outcome) };
            assert_eq!(event.at_ms, AT_MS, "{log}");
        }
    }
}

/// nginx escapes quotes, backslashes and non-ASCII bytes as `\xHH` unless its format has `escape=json`.
#[test]
fn nginx_escapes_in_json_do_not_hide_fetches() {
    let log = nginx(&json!({"request_uri": "/caf~C3~A9?a=~22b~E9", "http_user_agent": format!("{BOT} ~22x~22 ~5Cx ~C3")}));
    let log = log.replace('~', r"\x");
    let event = kept(FormatId::Json, &log);
    assert_eq!(event.content_url.as_deref(), Some("https://www.example.com/caf%C3%A9?a=%22b%E9"), "{log}");
    let data: Value = serde_json::from_str(event.data.as_ref().unwrap().get()).unwrap();
    assert_eq!(data["user_agent"], format!("{BOT} \"x\" \\x %C3"), "{log}");
    for forged in [r"\x22,\x22host\x22:\x22victim.test", r"\x22}", r"\x5C", r"\x5Cx22,\x22a\x22:\x22", r"\x0A{", r"\x00"] {
        let log = nginx(&json!({"http_user_agent": format!("{BOT} ~")})).replace('~', forged);
        assert_eq!(url(FormatId::Json, &log), "https://www.example.com/article", "{log}");
    }
    for bad in [r#""a":\x22"#, r#""a":"\xZZ""#, r#""a":"\x2""#] {
        let log = format!("{{{bad},{}", nginx(&json!({})).trim_start_matches('{'));
        assert!(matches!(outcome(FormatId::Json, &log), LineOutcome::Bad("not_json")), "{log}");
    }
}

#[test]
fn does_not_read_a_request_line_next_to_clientip_as_target() {
    let line = json!({"timestamp": "2026-11-01T10:00:00+00:00", "clientip": "132.196.86.7", "http_host": "www.example.com",
        "request": "GET /article?page=2 HTTP/1.1", "status": "200", "agent": BOT});
    let mut with_method = line.clone();
    with_method["request_method"] = "GET".into();
    let mut with_path = line.clone();
    with_path["url"] = "/article".into();
    for log in [line, with_method, with_path] {
        assert_eq!(url(FormatId::Json, &log.to_string()), "https://www.example.com/article?page=2", "{log}");
    }
}

/// Members that `COMBINEDAPACHELOG` sets since Logstash 8, and a line read by Filebeat.
#[test]
fn reads_logstash_patterns() {
    let line = json!({"@timestamp": "2026-11-01T10:00:07.452Z", "@version": "1", "timestamp": "01/Nov/2026:10:00:00 +0000",
        "event": {"original": "x"}, "host": {"name": "web-1"}, "log": {"file": {"path": "/var/log/apache2/access.log"}},
        "source": {"address": "132.196.86.7"}, "http": {"request": {"method": "GET"}, "version": "1.1", "response":
        {"status_code": 200, "body": {"bytes": 5120}}}, "url": {"original": "/article", "domain": "www.example.com"},
        "user_agent": {"original": BOT}, "message": "x"});
    let legacy: Value = serde_json::from_str(FormatId::Logstash.row().sample).unwrap();
    let mut of_beat = legacy.clone();
    of_beat["agent"] = json!({"type": "filebeat"});
    assert!(matches!(outcome(FormatId::Logstash, &of_beat.to_string()), LineOutcome::Bad("no_user_agent")), "{of_beat}");
    of_beat["user_agent"] = BOT.into();
    for mut log in [line, legacy, of_beat] {
        log["vhost"] = "www.example.com".into();
        let event = kept(FormatId::Logstash, &log.to_string());
        assert_eq!((event.at_ms, event.crawler.unwrap().verified), (AT_MS, None), "{log}");
        assert!(event.content_url.unwrap().starts_with("https://www.example.com/article"), "{log}");
    }
}

/// Logstash's patterns don't match targets with spaces. Patterns up to Logstash 7 keep the request line; later ones keep only the whole
/// line.
#[test]
fn reads_targets_that_no_pattern_matches() {
    let whole = r#"132.196.86.7 - - [01/Nov/2026:10:00:00 +0000] "GET /an \xC3\xA9?page=2 HTTP/1.1" 200 5120 "-" "x""#;
    let logstash = |members: Value| {
        let mut line: Value = serde_json::from_str(FormatId::Logstash.row().sample).unwrap();
        let line_members = line.as_object_mut().unwrap();
        ["verb", "request", "httpversion", "message"].iter().for_each(|name| drop(line_members.remove(*name)));
        line_members.extend(members.as_object().unwrap().clone());
        line_members.insert("vhost".to_owned(), "www.example.com".into());
        line
    };
    let ecs = |members: Value| {
        let mut line = json!({"@timestamp": "2026-11-01T10:00:07Z", "timestamp": "01/Nov/2026:10:00:00 +0000", "http": {"version": "1.1",
            "response": {"status_code": 200}}, "url": {"domain": "www.example.com"}, "user_agent": {"original": BOT}});
        line.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        line
    };
    for line in [
        logstash(json!({"rawrequest": r"GET /an \xC3\xA9?page=2 HTTP/1.1"})),
        logstash(json!({"message": whole})),
        logstash(json!({"event": {"original": whole}, "message": "x"})),
        ecs(json!({"message": whole})),
        ecs(json!({"event": {"original": whole}, "message": "GET /x"})),
        ecs(json!({"event.original": whole})),
    ] {
        let event = kept(FormatId::Logstash, &line.to_string());
        let url = event.content_url.unwrap();
        assert_eq!(url.split_once("://").unwrap().1, "www.example.com/an%20%C3%A9?page=2", "{line}");
        assert_eq!((event.at_ms, event.crawler.unwrap().verified), (AT_MS, None), "{line}");
    }
    for line in [logstash(json!({"rawrequest": r"\x16\x03"})), ecs(json!({"message": "GET /x HTTP/1.1"}))] {
        assert!(matches!(outcome(FormatId::Logstash, &line.to_string()), LineOutcome::Bad("no_method")), "{line}");
    }
}

/// The JSON formats in the documentation of Istio, Envoy Gateway, Loggly (Apache) and Vector (`parse_apache_log`).
#[test]
fn reads_the_documented_member_names() {
    for line in [
        json!({"authority": "www.example.com", "start_time": "2026-11-01T10:00:00.000Z", "method": "GET", "path": "/article",
            "response_code": 200, "user_agent": BOT, "bytes_sent": 10, "downstream_remote_address": "10.44.1.23:37652"}),
        json!({":authority": "www.example.com", "start_time": "2026-11-01T10:00:00.000Z", "method": "GET", "response_code": 200,
            "x-envoy-origin-path": "/article", "user-agent": BOT, "x-request-id": "a"}),
        json!({"time": "[01/Nov/2026:10:00:00 +0000]", "remoteIP": "192.0.2.1", "host": "www.example.com", "request": "/article",
            "query": "", "method": "GET", "status": "200", "userAgent": BOT, "referer": "-"}),
        json!({"timestamp": "2026-11-01T10:00:00Z", "host": "192.0.2.1", "vhost": "www.example.com", "message": "GET /article HTTP/1.0",
            "method": "GET", "path": "/article", "status": 200, "size": 10, "agent": BOT, "user": "-"}),
    ] {
        let event = kept(FormatId::Json, &line.to_string());
        assert_eq!((event.content_url.as_deref(), event.at_ms), (Some("https://www.example.com/article"), AT_MS), "{line}");
    }
}

/// Apache decodes `%U`, and writes a vertical tab as `\v`.
#[test]
fn decoded_apache_targets_are_not_request_lines() {
    for (request, path) in [
        ("/a b/c", "/a%20b/c"),
        ("/my file.html", "/my%20file.html"),
        ("/x /article", "/x%20/article"),
        ("/a HTTP/1.1", "/a%20HTTP/1.1"),
        (r"/a\vb", "/a%0Bb"),
        (r"/a\tb c", "/a%09b%20c"),
        ("/article", "/article"),
    ] {
        let log = json!({"time": "[01/Nov/2026:10:00:00 +0000]", "host": "www.example.com", "request": "~", "query": "?page=2",
            "method": "GET", "status": "200", "userAgent": BOT});
        let log = log.to_string().replace('~', request);
        assert_eq!(url(FormatId::Json, &log), format!("https://www.example.com{path}?page=2"), "{log}");
    }
}

/// AWS WAF logs a request in an object with the name that Google's load balancer uses.
#[test]
fn rejects_aws_waf_lines() {
    let log = json!({"timestamp": 1_793_527_200_000_i64, "action": "ALLOW", "httpRequest": {"clientIp": "203.0.113.5", "uri": "/a",
        "httpMethod": "GET", "headers": [{"name": "User-Agent", "value": BOT}]}});
    assert!(matches!(outcome(FormatId::Json, &log.to_string()), LineOutcome::Bad(_)));
    let probe = json!({"insertId": "a", "timestamp": "2026-11-01T10:00:00Z", "httpRequest": {"latency": "0s"}});
    assert!(matches!(outcome(FormatId::Json, &probe.to_string()), LineOutcome::Dropped("no_request")));
}

/// The Elastic Common Schema before 1.6 requires lower case. Everywhere else, a lower-case method is a different one.
#[test]
fn reads_lower_case_ecs_methods() {
    for method in ["get", "head", "GET"] {
        let log = FormatId::Ecs.row().sample.replace("\"GET\"", &format!("\"{method}\""));
        assert_eq!(url(FormatId::Ecs, &log), "https://www.example.com/article?page=2", "{method}");
    }
    for (format, from, to) in [(FormatId::Ecs, "\"GET\"", "\"post\""), (FormatId::Json, "\"GET\"", "\"get\"")] {
        let log = format.row().sample.replace(from, to);
        assert!(matches!(outcome(format, &log), LineOutcome::Dropped("method")), "{log}");
    }
}

/// nginx's logs can use the names in Logstash's patterns, whose values JSON has already decoded.
#[test]
fn logstash_names_in_other_logs_do_not_change_the_text() {
    let agent = format!("{BOT} \\x41 \\\\");
    let line = json!({"timestamp": "2026-11-01T10:00:00+00:00", "clientip": "132.196.86.7", "host": "www.example.com", "verb": "GET",
        "request": "GET /article HTTP/1.1", "response": "200", "agent": agent});
    let [read] = <[DryLine; 1]>::try_from(outcomes(FormatId::Json.row(), None, &line.to_string())).ok().unwrap();
    assert_eq!(read.format.map(|format| format.id), Some(FormatId::Json));
    let event = kept(FormatId::Json, &line.to_string());
    let data: Value = serde_json::from_str(event.data.as_ref().unwrap().get()).unwrap();
    assert_eq!(data["user_agent"], agent);
    // HTTP/0.9 has no version.
    let mut old: Value = serde_json::from_str(FormatId::Logstash.row().sample).unwrap();
    old.as_object_mut().unwrap().remove("httpversion");
    old["vhost"] = "www.example.com".into();
    assert_eq!(url(FormatId::Json, &old.to_string()), "https://www.example.com/article?page=2");
}

#[test]
fn reports_contradicting_members() {
    for (members, expected) in [
        (r#""http_host":"victim.test""#, ["host", "http_host"]),
        (r#""time_start":"2026-10-01T10:00:00Z""#, ["time_start", "timestamp"]),
        (r#""request":"GET /x HTTP/1.1""#, ["request", "url"]),
        (r#""host":"www.example.com""#, ["host", "host"]),
        (r#""status":404"#, ["response_status", "status"]),
        (r#""x":1,"x":2,"http":{"request":{"method":"GET","method":"GET"}}"#, ["http", "http"]),
    ] {
        for log in fastly(members) {
            let [line] = <[DryLine; 1]>::try_from(outcomes(FormatId::Fastly.row(), None, &log)).ok().unwrap();
            assert!(matches!(line.outcome, LineOutcome::Bad("repeated_member")), "{log}: {:?}", line.outcome);
            let mut members = line.members.unwrap();
            members.sort();
            assert_eq!(members, expected, "{log}");
        }
    }
}

#[test]
fn reports_contradicting_members_in_large_lines_quickly() {
    let objects: String = (0..5_000).map(|n| format!("\"x{n}\":{{\"a\":{n}}},")).collect();
    let log = FormatId::Fastly.row().sample.replacen('{', &format!("{{{objects}\"http_host\":\"victim.test\","), 1);
    let began = std::time::Instant::now();
    let [line] = <[DryLine; 1]>::try_from(outcomes(FormatId::Fastly.row(), None, &log)).ok().unwrap();
    assert_eq!(line.members, Some(["http_host", "host"].map(str::to_owned)));
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
}
