//! Fields in unexpected places: visitors' values are neither read as the server's nor become part of an id.

use super::{BOT, NGINX_ID, WITHOUT_USER_AGENTS, outcomes};
use crate::drains::dry_run::{DrainDryRun, DryLine};
use crate::drains::format_table::{FORMATS, FormatId};
use crate::drains::line_processor::LineOutcome;
use chrono::DateTime;
use schemas::bots::BotTable;
use schemas::log::LogEvent;
use schemas::site::Site;
use serde_json::json;

const AT: &str = "[01/Nov/2026:10:00:00 +0000]";
const PAGE: &str = "https://www.example.com/article?page=2";
/// Two visitors whose addresses differ from the bot's.
const VISITORS: [&str; 2] = ["203.0.113.5", "198.51.100.9"];

fn outcome(format: FormatId, host: Option<&str>, log: &str) -> LineOutcome {
    let mut lines: Vec<DryLine> = outcomes(format.row(), host, log);
    assert_eq!(lines.len(), 1, "{log}");
    lines.remove(0).outcome
}

fn kept(format: FormatId, host: Option<&str>, log: &str) -> LogEvent {
    match outcome(format, host, log) {
        LineOutcome::Kept(event) => *event,
        other => panic!("{log}: {other:?}"),
    }
}

fn url(format: FormatId, host: Option<&str>, log: &str) -> String {
    kept(format, host, log).content_url.unwrap()
}

fn combined(more: &str) -> String {
    format!("203.0.113.7 - - {AT} \"GET /a HTTP/1.1\" 200 10 \"-\" \"{BOT}\"{more}")
}

/// Event ids are stored, so a reader who knows the rest of the line could try all addresses.
#[test]
fn ids_do_not_contain_visitor_addresses() {
    let of = |format: FormatId, from: &str, to: String| {
        let log = format.row().sample.replacen(from, &to, 1);
        // With a request id, the rest isn't part of the event id.
        let ids = [",\"request_id\":\"r-1\"", "\"reqId\":\"1239f220\",", ",\"RayID\":\"8c5d1f2e3af10001\""];
        let log = ids.iter().fold(log, |log, id| log.replace(id, ""));
        assert_ne!(log, format.row().sample, "{from}");
        (format, log)
    };
    let lines = |visitor: &str| {
        [
            (FormatId::Combined, combined(&format!(" \"{visitor}\""))),
            (FormatId::Combined, combined(&format!(" \"{visitor}, 10.0.0.1\" \"-\" \"-\""))),
            (FormatId::Combined, combined(&format!(" \"-\" \"-\" \"{visitor}\""))),
            (FormatId::Combined, combined(&format!(" \"-\" \"{visitor}\" \"0.001\""))),
            (FormatId::Combined, combined(&format!(" \"{visitor}\" \"www.example.com\" \"{NGINX_ID}\""))),
            (FormatId::IngressNginx, FormatId::IngressNginx.row().sample.trim_end().to_owned() + " " + visitor),
            of(FormatId::Haproxy, ")}", format!(")|{visitor}}}")),
            of(FormatId::Json, "{", format!("{{\"content_telemetry_id\":\"{visitor}\",")),
            of(FormatId::Json, "\"host\":\"www.example.com\"", format!("\"host\":\"{visitor}\"")),
            of(FormatId::Json, "gptbot)", format!("gptbot) {} {visitor}", "x".repeat(500))),
            of(FormatId::AkamaiJson, "{", format!("{{\"customField\":\"content-telemetry-id={visitor}\",")),
            of(FormatId::Cloudflare, "{", format!("{{\"RequestHeaders\":{{\"content-telemetry-id\":\"{visitor}\"}},")),
        ]
    };
    let mut differing = Vec::new();
    for (one, other) in lines(VISITORS[0]).into_iter().zip(lines(VISITORS[1])) {
        let [id, other_id] = [&one, &other].map(|(format, log)| {
            let event = kept(*format, Some("www.example.com"), log);
            let stored = serde_json::to_string(&event).unwrap();
            assert!(VISITORS.iter().all(|visitor| !stored.contains(visitor)), "{stored}");
            event.id
        });
        if id != other_id {
            differing.push(one.1);
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
    let [one, other] = ["529a007902362a5f51385a5fa7049881", "529a007902362a5f51385a5fa7049882"]
        .map(|id| kept(FormatId::Combined, None, &combined(&format!(" \"-\" \"www.example.com\" \"{id}\""))).id);
    assert_ne!(one, other, "the server's request id is part of the event id");
}

/// Express (morgan) doesn't escape the HTTP Basic user; Gorilla for Go doesn't escape the method either.
#[test]
fn rejects_lines_with_two_requests() {
    let forged = format!("{AT} \"GET /forged HTTP/1.1\" 200 9 \"-\" \"GPTBot/1.2\"");
    let alb = FormatId::AwsAlb.row().sample.trim_end();
    let bunny = FormatId::Bunny.row().sample.trim_end();
    for (begin, method) in [
        (format!("203.0.113.5 - x {forged}"), "GET"),
        (format!("203.0.113.5 - x {forged}"), "get"),
        (format!("victim.test 203.0.113.5 - x {forged} \"-\" \"victim.test\" \"{NGINX_ID}\""), "POST"),
        // Servers that log `X-Forwarded-For` first.
        (format!("{forged}, 203.0.113.5 - -"), "GET"),
        (format!("{alb}, 203.0.113.5 - -"), "GET"),
        (format!("{bunny}|x|y|z a b, 203.0.113.5 - -"), "GET"),
    ] {
        let log = format!("{begin} [29/Oct/2026:10:00:00 +0000] \"{method} /a HTTP/1.1\" 404 10 \"-\" \"curl/8\"");
        let outcome = outcome(FormatId::Combined, Some("www.a.test"), &log);
        assert!(matches!(outcome, LineOutcome::Bad(_)) || matches!(outcome, LineOutcome::Person), "{log}: {outcome:?}");
    }
    let log = format!("203.0.113.5 - x {forged} [29/Oct/2026:10:00:00 +0000] \"GET /a HTTP/1.1\" 404 10 \"-\" \"x\"");
    assert!(matches!(outcome(FormatId::Combined, Some("www.a.test"), &log), LineOutcome::Bad("wrong_columns")));
}

#[test]
fn reads_lines_with_brackets_in_the_user_agent() {
    for agent in ["x [en]", "x [01/Nov/2026:10:00:00 +0000]", "x [01/Nov/2026:10:00:00 +0000] y"] {
        for more in ["", " \"-\" \"-\" \"-\"", " 262 \"site@docker\" \"http://192.0.2.2:80\" 2ms"] {
            let log = combined(more).replace(BOT, &format!("{BOT} {agent}"));
            assert_eq!(url(FormatId::Combined, Some("www.a.test"), &log), "https://www.a.test/a");
        }
    }
    for quote in ["\\\"", "\\x22"] {
        let log = combined("").replace(BOT, &format!("{BOT} {AT} {quote}GET /z HTTP/1.1{quote} 200"));
        assert_eq!(url(FormatId::Combined, Some("www.a.test"), &log), "https://www.a.test/a");
    }
}

/// F57: formats whose servers log the request target as it was sent.
#[test]
fn url_host_counts_only_without_a_host_field() {
    for (format, name, target) in [
        (FormatId::Ecs, "\"original\"", "\"/article?page=2\""),
        (FormatId::Json, "\"url\"", "\"/article?page=2\""),
        (FormatId::Json, "\"request_uri\"", "\"/article?page=2\""),
        (FormatId::Json, "\"uri\"", "\"/article?page=2\""),
        (FormatId::Json, "\"path\"", "\"/article?page=2\""),
        (FormatId::Cloudflare, "\"ClientRequestURI\"", "\"/article?page=2\""),
        (FormatId::Vercel, "\"path\"", "\"/article?page=2\""),
        (FormatId::TraefikJson, "\"RequestPath\"", "\"/article?page=2\""),
        (FormatId::CloudFrontJson, "\"cs-uri-stem\"", "\"/article\""),
    ] {
        let sample = format.row().sample.replace("\"url\":\"", &format!("{name}:\""));
        for begin in ["http://victim.test", "HTTPS://www.example.com@victim.test:443"] {
            let log = sample.replace(&format!("{name}:{target}"), &format!("{name}:\"{begin}{}", &target[1..]));
            assert_ne!(log, sample);
            let url = url(format, None, &log);
            assert_eq!(url.split_once("://").unwrap().1, "www.example.com/article?page=2", "{log}");
        }
    }
    let dotted = json!({"@timestamp": "2026-11-01T10:00:00Z", "url.original": "http://victim.test/article?page=2",
        "url.domain": "www.example.com", "http.request.method": "GET", "http.response.status_code": 200,
        "user_agent.original": BOT});
    assert_eq!(url(FormatId::Ecs, None, &dotted.to_string()), PAGE.replace("https", "http"));
    let alone = json!({"timestamp": "2026-11-01T10:00:00Z", "url": "https://www.b.test/a", "method": "GET", "user_agent": BOT,
        "status": 200});
    assert_eq!(url(FormatId::Json, None, &alone.to_string()), "https://www.b.test/a", "only the URL contains a host");
    assert_eq!(url(FormatId::Json, Some("www.a.test"), &alone.to_string()), "https://www.a.test/a", "?host= replaces it");
    for format in [FormatId::GoogleLoadBalancer, FormatId::AwsAlb, FormatId::AwsElb, FormatId::Bunny, FormatId::AzureFrontDoor] {
        assert_eq!(url(format, None, format.row().sample), PAGE, "the server wrote the URL itself");
    }
}

/// A host in a line can come from a header that the visitor chose.
#[test]
fn senders_host_always_wins() {
    let befores = ["evil.test 203.0.113.7 - -", "evil.test:443 203.0.113.7 10.0.0.1 - -", "evil.test:443 \"203.0.113.7\" - -"];
    let lines = befores.map(|before| (FormatId::Combined, combined("").replace("203.0.113.7 - -", before)));
    let ours = (FormatId::Combined, combined(&format!(" \"-\" \"evil.test\" \"{NGINX_ID}\"")));
    let samples = FORMATS.iter().map(|format| (format.id, format.sample.replace("www.example.com", "evil.test")));
    for (format, log) in lines.into_iter().chain([ours]).chain(samples.filter(|(id, _)| !WITHOUT_USER_AGENTS.contains(id))) {
        let url = url(format, Some("www.a.test"), &log);
        assert!(url.starts_with("https://www.a.test/a"), "{log}: {url}");
    }
}

/// Formats also log headers where others have the host, and a drain with one host doesn't need them. A host before the server's id is ours.
#[test]
fn leading_hosts_do_not_replace_the_drains_only_host() {
    let urls = |format: FormatId, hosts: &[&str], log: &str| {
        let hosts = hosts.iter().map(|host| Site::from_domain(host).unwrap()).collect();
        let (provider, now) = (format.row().provider, DateTime::from_timestamp(1_793_527_300, 0).unwrap());
        let dry_run = DrainDryRun { provider, host: None, hosts, bots: BotTable::bundled(), now };
        let mut urls = Vec::new();
        let take = |line: DryLine| {
            let LineOutcome::Kept(event) = line.outcome else { panic!("{log}: {:?}", line.outcome) };
            urls.push(event.content_url.unwrap());
            Ok(())
        };
        dry_run.lines(log.as_bytes(), take).unwrap();
        urls
    };
    for host in ["evil.test", "sub.a.test"] {
        let first = combined("").replacen("203", &format!("{host}:443 203"), 1);
        let shipped = json!({"message": first, "host": "web-1"}).to_string();
        let mut lines = vec![
            (FormatId::Combined, combined("").replacen("203", &format!("{host} 203"), 1)),
            (FormatId::Combined, combined("").replacen("- -", &format!("{host} -"), 1)),
            (FormatId::Combined, first),
            (FormatId::Vector, shipped),
        ];
        for format in [FormatId::Haproxy, FormatId::HaproxyHttps] {
            lines.push((format, format.row().sample.replace("www.example.com", host)));
        }
        for (format, log) in lines {
            assert!(urls(format, &["a.test"], &log)[0].contains("://a.test/a"), "{log}");
            assert!(urls(format, &["a.test", host], &log)[0].contains(&format!("://{host}/a")), "{log}");
        }
    }
    let ours = combined(&format!(" \"-\" \"sub.a.test\" \"{NGINX_ID}\""));
    assert_eq!(urls(FormatId::Combined, &["a.test"], &ours), ["https://sub.a.test/a"]);
}

/// Logs with two headers and then a number, such as `"$http_x_forwarded_for" "$http_accept_language" "%{usec}t"`.
#[test]
fn recognizes_a_quoted_host_only_before_a_uuid() {
    let log = |id: &str| combined(&format!(" \"-\" \"b.test\" \"{id}\""));
    for other in ["1793527200123456", "0123456789abcdef", &NGINX_ID[1..], "0123456789abcdef01234567"] {
        assert!(matches!(outcome(FormatId::Combined, None, &log(other)), LineOutcome::Bad("no_host")), "{other}");
    }
    for id in [NGINX_ID, "0B1F9E6C-3d6a-4a52-9c4e-0f2a6a1d2e3f"] {
        assert_eq!(url(FormatId::Combined, None, &log(id)), "https://b.test/a", "{id}");
    }
}

/// Real-time logs don't name their fields, so a missing field shifts the later ones.
#[test]
fn rejects_real_time_lines_without_a_field() {
    let headers = "host:www.example.com%0Ax-forwarded-for:203.0.113.5%0A";
    let mut values: Vec<&str> = FormatId::CloudFrontRealTime.row().sample.trim_end().split('\t').collect();
    values.extend(["203.0.113.5", "TLSv1.3", "TLS_AES_128_GCM_SHA256", "Hit", "-", "-", "text/html", "512", "-", "-", "4711"]);
    values.extend(["Hit", "US", "gzip", "*/*", "*", headers, "host", "2", "-", "-", "-", "-", "8075", "-"]);
    assert_eq!(values.len(), 46);
    let read = |most: usize, left_out: &[usize]| {
        let places = (1..=most).filter(|place| !left_out.contains(place));
        let line: Vec<&str> = places.map(|place| if place == 5 { "512" } else { values[place - 1] }).collect();
        outcome(FormatId::CloudFrontRealTime, None, &line.join("\t"))
    };
    for left_out in [vec![], vec![35], vec![38], vec![46]] {
        assert!(matches!(read(46, &left_out), LineOutcome::Kept(_)), "{left_out:?}: {:?}", read(46, &left_out));
    }
    // Fields after the country can't be identified by position only. In a short line, neither can fields after the result type.
    for (most, places) in [(46, 34), (24, 21)] {
        for one in 1..=places {
            for other in one..=places {
                let outcome = read(most, &[one, other]);
                assert!(matches!(outcome, LineOutcome::Bad("wrong_columns")), "{most} {one} {other}: {outcome:?}");
            }
        }
    }
}

/// HAProxy escapes `|` in captures.
#[test]
fn reads_only_two_haproxy_captures() {
    let sample = FormatId::Haproxy.row().sample;
    let log = sample.replace(")}", ")|203.0.113.5|x}");
    let event = kept(FormatId::Haproxy, None, &log);
    assert_eq!(event.content_url.as_deref(), Some(PAGE));
    assert!(event.data.unwrap().get().contains(&format!("\"{BOT}\"")));
    let log = sample.replace(BOT, "|203.0.113.5");
    assert!(matches!(outcome(FormatId::Haproxy, None, &log), LineOutcome::Bad("no_user_agent")), "it can be another header");
}
