//! The longest headers that servers accept: Go allows a mebibyte, which JSON escapes can expand sixfold.

use super::{BOT, last_line, outcomes};
use crate::drains::format_table::FormatId;
use crate::drains::line_processor::LineOutcome;
use crate::drains::split::MAX_LINE_BYTES;
use std::collections::HashSet;

/// Returns the ids and pages in a log of which every line is kept.
fn kept(format: FormatId, log: &str) -> Vec<(Option<String>, String)> {
    let event = |outcome| match outcome {
        LineOutcome::Kept(event) => (event.id, event.content_url.unwrap()),
        other => panic!("{log:.200}: {other:?}"),
    };
    outcomes(format.row(), Some("www.example.com"), log).into_iter().map(|line| event(line.outcome)).collect()
}

#[test]
fn long_visitor_texts_do_not_hide_fetches() {
    for unit in ["x", "é", r#"\""#, r"\\", r"\u0022", r"\ud83d\ude00", r"\ud83d\ude00\n", "\\\\\\\"\u{fffd}x"] {
        for bytes in [72 * 1024, MAX_LINE_BYTES + 9 * 1024] {
            let text = "a".repeat(bytes % 7) + &unit.repeat(bytes / unit.len());
            for format in [
                FormatId::Json,
                FormatId::Caddy,
                FormatId::Vercel,
                FormatId::AzureFrontDoor,
                FormatId::Fastly,
                FormatId::Combined,
            ] {
                let sample = last_line(format);
                let log = match format {
                    FormatId::Combined => vec![
                        sample.replace("\"-\"", &format!("\"{text}\"")),
                        sample.replace(BOT, &format!("{BOT}{text}")),
                        format!("{sample} \"{text}\""),
                    ],
                    _ => vec![
                        sample.replacen('{', &format!("{{\"x\":\"{text}\","), 1),
                        sample.replace(BOT, &format!("{BOT}{text}")),
                        sample.replacen('{', &format!("{{\"x\":{{\"{text}\":[\"{text}\"]}},"), 1),
                    ],
                };
                let lines = [log.join("\n"), format!("[{}]", log.join(","))];
                for log in &lines[..if matches!(format, FormatId::Json | FormatId::Vercel) { 2 } else { 1 }] {
                    let pages: Vec<String> = kept(format, log).into_iter().map(|(_, page)| page).collect();
                    assert_eq!(pages, ["https://www.example.com/article?page=2"; 3], "{unit} {bytes} {format:?}");
                }
            }
        }
    }
}

/// Pages whose paths differ only in the truncated part.
#[test]
fn long_texts_stay_distinct() {
    let long = "x".repeat(MAX_LINE_BYTES);
    for format in [FormatId::Json, FormatId::Combined] {
        let log = ["1", "2"].map(|end| last_line(format).replace("/article", &format!("/{long}{end}")));
        let lines = [log.join("\n"), format!("[{}]", log.join(","))];
        for log in &lines[..if format == FormatId::Json { 2 } else { 1 }] {
            let kept = kept(format, log);
            assert_eq!(kept.iter().collect::<HashSet<_>>().len(), 2, "{format:?}");
            assert!(kept.iter().all(|(_, page)| page.ends_with("xxx")), "{format:?}");
        }
    }
}

/// Caddy logs every header; Traefik does so if configured. Go accepts a mebibyte of headers, each with its own name.
#[test]
fn many_request_headers_do_not_hide_fetches() {
    let headers = |name: &dyn Fn(usize) -> String| (0..60_000).map(|n| name(n) + ",").collect::<String>();
    let [of_caddy, of_traefik] =
        [headers(&|n| format!("\"X{n}\":[\"\\ufffd\",\"a\\\"]\"]")), headers(&|n| format!("\"request_X{n}\":\"a\\\",\""))];
    assert!(of_caddy.len().min(of_traefik.len()) > MAX_LINE_BYTES);
    for (format, places, headers) in [
        (FormatId::Caddy, ["\"User-Agent\":", "\"Accept\":"], of_caddy),
        (FormatId::TraefikJson, ["\"request_User-Agent\":", "\"RequestMethod\":"], of_traefik),
    ] {
        let log = places.map(|place| last_line(format).replacen(place, &(headers.clone() + place), 1));
        for log in [log.join("\n"), format!("[{}]", log.join(","))] {
            let pages: Vec<String> = kept(format, &log).into_iter().map(|(_, page)| page).collect();
            assert_eq!(pages, ["https://www.example.com/article?page=2"; 2], "{format:?}");
        }
    }
}

/// Lines that can't be shortened are bad, and later lines are still read.
#[test]
fn rejects_long_lines_without_long_texts() {
    let good = last_line(FormatId::Json);
    for long in ["x".repeat(MAX_LINE_BYTES + 1), format!("{{{}", "\"a\":{},".repeat(MAX_LINE_BYTES / 6))] {
        let lines = outcomes(FormatId::Json.row(), None, &format!("{long}\n{good}"));
        let [first, second] = lines.as_slice() else { panic!("{}", lines.len()) };
        assert!(matches!(first.outcome, LineOutcome::Bad("too_long")) && matches!(second.outcome, LineOutcome::Kept(_)));
    }
}
