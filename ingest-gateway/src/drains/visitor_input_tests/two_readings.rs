//! Lines that can be read in two ways are bad, whatever visitors gain from either.

use super::{BOT, outcomes};
use crate::drains::format_table::FormatId;
use crate::drains::line_processor::LineOutcome;

const AT: &str = "[01/Nov/2026:10:00:00 +0000]";

/// Returns the URL of a line and whether its agent is verified, or its other outcome.
fn read(format: FormatId, log: &str) -> String {
    let mut lines = outcomes(format.row(), Some("www.a.test"), log);
    assert_eq!(lines.len(), 1, "{log}");
    match lines.remove(0).outcome {
        LineOutcome::Kept(event) => format!("{} {:?}", event.content_url.unwrap(), event.crawler.unwrap().verified),
        LineOutcome::Bad(reason) => format!("bad {reason}"),
        other => format!("{other:?}"),
    }
}

/// Traefik logs `X-Forwarded-For` as the client and escapes nothing.
#[test]
fn rejects_other_formats_in_forwarded_headers() {
    let haproxy = "132.196.86.7:1 [01/Nov/2026:10:00:00.000] f~ b/s 1/1/1/1/1 200 1 - - ---- - - {www.a.test|GPTBot/1.2} \"GET /f HTTP/1.1\"";
    let alb = FormatId::AwsAlb.row().sample.trim();
    let bunny = format!("{}|x|y|z", FormatId::Bunny.row().sample.trim());
    for begin in [haproxy, alb, &bunny] {
        for hop in ["", ", 203.0.113.5", ", 203.0.113.5, 10.0.0.1"] {
            for request in ["GET /a HTTP/1.1", " GET /a HTTP/2.0", "|x\"y /a HTTP/2.0"] {
                let log = format!(
                    "{begin}{hop} - - {AT} \"{request}\" 404 19 \"-\" \"curl/8\" 262 \"site@docker\" \"http://192.0.2.2:80\" 2ms"
                );
                assert!(read(FormatId::TraefikClf, &log).starts_with("bad "), "{log}");
            }
            // Express (morgan).
            let log = format!("{begin}{hop} - - {AT} \"GET /a HTTP/1.1\" 404 19 \"-\" \"curl/8\"");
            assert!(read(FormatId::Combined, &log).starts_with("bad "), "{log}");
        }
    }
}

/// RFC 9110 allows these characters in methods.
#[test]
fn recognizes_second_requests_with_any_method() {
    let alb = FormatId::AwsAlb.row().sample.trim();
    for first in "!#$%&'*+-.^_`|~0a".chars() {
        for method in [format!("{first}GET"), first.to_string()] {
            for begin in [alb, &format!("{alb}, 203.0.113.5")] {
                let log = format!("{begin} - - {AT} \"{method} /a HTTP/1.1\" 405 19");
                assert_eq!(read(FormatId::Combined, &log), "bad wrong_columns", "{log}");
            }
        }
    }
}

#[test]
fn rejects_bunny_lines_with_two_urls() {
    let sample = FormatId::Bunny.row().sample.trim();
    let (url, referer) = ("https://www.example.com/article?page=2", "|-|https");
    for (from, to) in [
        (url, "https://www.other.test/a?x=|https://www.example.com/f"),
        (url, "https://www.example.com/a|http://www.example.com/f"),
        (url, "https://www.example.com/a|DE|https://www.example.com/f"),
        (referer, "|-|https://www.example.com/f|DE|https"),
        (referer, "|x|https://www.example.com/f|https"),
        (BOT, "GPTBot/1.2|https://www.example.com/f"),
    ] {
        let log = sample.replacen(from, to, 1);
        assert_ne!(log, sample);
        assert_eq!(read(FormatId::Bunny, &log), "bad wrong_columns", "{log}");
    }
    let log = sample.replacen(referer, "|https://a.test/x|y|https", 1);
    assert_eq!(read(FormatId::Bunny, &log), "https://www.a.test/article?page=2 Some(true)", "{log}");
}

/// HAProxy escapes neither cookies nor TLS names.
#[test]
fn rejects_haproxy_cookies_with_tls_names() {
    let sample = FormatId::HaproxyHttps.row().sample.trim();
    let cookie = |cookie: &str| sample.replace(" 5120 - -", &format!(" 5120 {cookie} -"));
    let name = |log: &str, name: &str| log.replace("0/0/0/0/0 www.example.com/", &format!("0/0/0/0/0 {name}/"));
    let counts = "- ---- 1/1/1/1/0 0/0";
    let captures = "{www.a.test|GPTBot} \"GET /f HTTP/1.1";
    let end = "\" 0/0/0/0/0 x/TLSv1.3/X";
    for log in [
        name(&cookie("c=1"), &format!("x {captures}")),
        name(&cookie("c=1"), &format!("x {counts} {captures}")),
        name(&cookie("c=1"), &format!("x {counts} {captures}\" 0/0/0/0/0 y")),
        cookie(&format!("c=1 {counts} {captures}{end}")),
        cookie(&format!("c=1 {captures}{end}")).replace("1/1/1/1/0 0/0 ", ""),
        cookie(&format!("c=1{}", format!(" \"{end}").repeat(1_000))),
    ] {
        assert_eq!(read(FormatId::HaproxyHttps, &log), "bad not_combined", "{log:.600}");
    }
    for log in [cookie("c=1"), cookie(&format!("c=1 {captures}{end}")), name(sample, &format!("x {counts} {captures}"))] {
        assert_eq!(read(FormatId::HaproxyHttps, &log), "https://www.a.test/article?page=2 Some(true)", "{log}");
    }
}

/// Only a part of the line is read for each possible end of the request.
#[test]
fn envoy_columns_have_a_maximum_length() {
    let sample = FormatId::Istio.row().sample.trim();
    for (length, is_read) in [(900, true), (1_100, false)] {
        let log = sample.replace("via_upstream", &"x".repeat(length));
        assert_ne!(log, sample);
        assert_eq!(read(FormatId::Istio, &log).starts_with("https://www.a.test/article"), is_read, "{length}");
    }
    let log = sample.replace("/article", &format!("/{}", "\" 1 - a".repeat(1_000)));
    assert!(read(FormatId::Istio, &log).starts_with("https://www.a.test/%22%201%20-%20a%22"), "{log}");
}

/// AWS writes `- http://host:port- -` if the client sent no whole request.
#[test]
fn alb_lines_without_a_request_are_dropped() {
    let sample = FormatId::AwsAlb.row().sample.trim();
    for request in ["- http://www.example.com:80- -", "- - - ", "-"] {
        for agent in ["-", BOT] {
            let log = sample.replace("GET https://www.example.com:443/article?page=2 HTTP/1.1", request).replace(BOT, agent);
            assert_eq!(read(FormatId::AwsAlb, &log), "Dropped(\"no_request\")", "{log}");
        }
    }
}

/// Nothing else from a visitor is stored as the media type.
#[test]
fn stores_only_media_types_as_media_types() {
    for (text, stored) in [("Text/HTML; charset=utf-8", "text/html"), ("203.0.113.77", ""), ("203.0.113.77/32", ""), ("x", "")] {
        for (format, member) in
            [(FormatId::Json, "content_type"), (FormatId::Json, "media_type"), (FormatId::AkamaiJson, "rspContentType")]
        {
            let log = format.row().sample.replacen('{', &format!("{{\"{member}\":\"{text}\","), 1);
            let LineOutcome::Kept(event) = outcomes(format.row(), None, &log).remove(0).outcome else { panic!("{log}") };
            assert_eq!(event.crawler.unwrap().media_type, stored, "{log}");
        }
    }
}
