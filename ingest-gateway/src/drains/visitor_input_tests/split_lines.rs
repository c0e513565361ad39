//! A line that a container runtime or a visitor splits counts as one request. Text lines from containers never verify an agent.

use super::{BOT, outcomes};
use crate::drains::container_lines::{ContainerLines, Joined};
use crate::drains::dry_run::DryLine;
use crate::drains::format_table::FormatId;
use crate::drains::line_processor::LineOutcome;
use serde_json::{Value, json};

const AT: &str = "[01/Nov/2026:10:00:00 +0000]";

/// Returns each line's path with `verified`, or the reason why it is bad.
fn read(format: FormatId, log: &str) -> Vec<String> {
    let text = |DryLine { outcome, .. }| match outcome {
        LineOutcome::Kept(event) => {
            let url = event.content_url.unwrap();
            format!("{} {:?}", url.trim_start_matches("https://www.example.com"), event.crawler.unwrap().verified)
        }
        LineOutcome::Bad(reason) => reason.to_owned(),
        other => format!("{other:?}"),
    };
    outcomes(format.row(), Some("www.example.com"), log).into_iter().map(text).collect()
}

fn line(path: &str) -> String {
    format!("132.196.86.7 - - {AT} \"GET {path} HTTP/1.1\" 200 10 \"-\" \"{BOT}\"")
}

/// Returns the halves of a visitor's line, whose user is so long that the second half is a whole line.
fn halves() -> [String; 2] {
    let mut first = format!("203.0.113.9 - {}", r"\xFF".repeat(4_090));
    first.push_str(&"a".repeat(16_384 - first.len()));
    [first, line("/forged").replace("- -", "- x")]
}

/// Writes an entry with this text.
type Write = fn(&str) -> String;

/// How shippers mark the parts of a line: the entries of a whole line, of a first part and of a last part.
fn marks() -> Vec<(FormatId, [Write; 3])> {
    fn entry(text: &str, more: Value) -> String {
        let mut entry = json!({"log": text, "kubernetes": {"pod_name": "web-1"}, "time": "2026-11-01T10:00:00Z"});
        let Value::Object(more) = more else { panic!("{more}") };
        entry.as_object_mut().unwrap().extend(more);
        entry.to_string()
    }
    vec![
        (
            FormatId::Combined,
            [
                |text| format!("2026-11-01T10:00:00.1Z stdout F {text}"),
                |text| format!("2026-11-01T10:00:00.1Z stdout P {text}"),
                |text| format!("2026-11-01T10:00:00.2Z stdout F {text}"),
            ],
        ),
        (
            FormatId::Vector,
            [
                |text| entry(text, json!({"stream": "stdout", "logtag": "F"})),
                |text| entry(text, json!({"stream": "stdout", "logtag": "P"})),
                |text| entry(text, json!({"stream": "stdout", "logtag": "F", "date": 1.5})),
            ],
        ),
        (
            FormatId::Vector,
            [
                |text| json!({"message": format!("2026-11-01T10:00:00Z stdout F {text}"), "file": "a.log"}).to_string(),
                |text| json!({"message": format!("2026-11-01T10:00:00Z stdout P {text}"), "file": "a.log"}).to_string(),
                |text| json!({"message": format!("2026-11-01T10:00:00Z stdout F {text}"), "file": "a.log"}).to_string(),
            ],
        ),
        (
            FormatId::Vector,
            [
                |text| entry(text, json!({"_p": "F"})),
                |text| entry(text, json!({"_p": "P"})),
                |text| entry(text, json!({"_p": "F"})),
            ],
        ),
        (
            FormatId::Vector,
            [
                |text| json!({"message": text, "stream": "stdout", "_partial": false}).to_string(),
                |text| json!({"message": text, "stream": "stdout", "_partial": true}).to_string(),
                |text| json!({"message": text, "stream": "stdout", "timestamp": "2026-11-01T10:00:00Z"}).to_string(),
            ],
        ),
        (
            FormatId::Vector,
            [
                |text| entry(&format!("{text}\n"), json!({"stream": "stdout"})),
                |text| entry(text, json!({"stream": "stdout"})),
                |text| entry(&format!("{text}\n"), json!({"stream": "stdout"})),
            ],
        ),
    ]
}

/// A visitor's part is never read alone, and other lines stay what they are.
#[test]
fn visitors_cannot_split_lines() {
    let [first, second] = halves();
    for (format, [whole, begin, end]) in marks() {
        let honest = [whole(&line("/1")), whole(&line("/2"))];
        let what = honest[0].clone();
        let log = |lines: &[String]| lines.join("\n");
        let parts = [begin(&first), end(&second)];
        assert_eq!(
            read(format, &log(&[&honest[..], &parts, &honest].concat())),
            ["/1 None", "/2 None", "/forged None", "/1 None", "/2 None"],
            "{what}"
        );
        // The beginning may be in an earlier body.
        assert_eq!(read(format, &log(&[&parts[1..], &honest].concat())), ["/forged None", "/1 None", "/2 None"], "{what}");
        assert_eq!(read(format, &log(&[&honest[..1], &parts[..1]].concat())), ["/1 None", "not_combined"], "{what}");
        let middle = begin(&first[..16_384]);
        assert_eq!(read(format, &log(&[middle, parts[0].clone(), parts[1].clone()])), ["/forged None"], "{what}");
        let too_long = vec![begin(&first); 65];
        assert_eq!(
            read(format, &log(&[&too_long[..], &parts[1..], &honest].concat())),
            ["too_long", "/1 None", "/2 None"],
            "{what}"
        );
    }
}

/// Shippers that remove line breaks don't show which entries are parts, so a line of exactly this length hides no other.
#[test]
fn lines_as_long_as_dockers_parts_do_not_hide_others() {
    let long = |path: &str| {
        let short = line(path);
        let user = "x".repeat(16_384 - short.len() + 1);
        short.replacen("- -", &format!("- {user}"), 1)
    };
    let entry = |text: &str| json!({"log": text, "stream": "stdout"}).to_string();
    let log = [&long("/1"), &long("/2"), &line("/3"), &line("/4")].map(|text| entry(text)).join("\n");
    assert_eq!(long("/1").len(), 16_384);
    assert_eq!(read(FormatId::Vector, &log), ["/1 None", "/2 None", "/3 None", "/4 None"]);
}

/// Each of these entries begins a line of another container.
#[test]
fn incomplete_lines_use_bounded_memory() {
    let log: String = (0..5_000)
        .map(|n| {
            json!({"log": "x", "logtag": "P", "stream": "stdout", "pad": format!("{n}{}", "a".repeat(1_000))}).to_string() + "\n"
        })
        .collect();
    let (mut containers, provider) = (ContainerLines::default(), FormatId::Vector.row().provider);
    let joined: Vec<Joined> =
        log.lines().zip(1..).map(|(line, number)| containers.next(provider, (number, line.as_bytes()), false)).collect();
    assert_eq!(joined.iter().filter(|joined| **joined == Joined::Part).count(), 4_096);
    assert!(joined[4_096..].iter().all(|joined| *joined == Joined::Rest));
    assert_eq!(containers.end().len(), 4_096);
    // Parts use memory even if their texts are empty.
    let part = |tag: &str| json!({"log": "", "logtag": tag, "stream": "stdout"}).to_string();
    let mut next = |tag: &str| containers.next(provider, (1, part(tag).as_bytes()), false);
    assert!((0..100_000).all(|_| next("P") == Joined::Part));
    assert_eq!(next("F"), Joined::Line { number: 1, text: None });
}

/// Lines of journald and of several shippers have no mark that is read.
#[test]
fn text_lines_from_shippers_do_not_verify() {
    let [first, second] = halves();
    let (part, rest) = (json!({"message": first, "_partial": true}), json!({"message": second}));
    assert_eq!(read(FormatId::Vector, &format!("{rest}\n{part}\n{rest}")), ["/forged None", "/forged None", "not_combined"]);
}

/// Lines of several containers can alternate.
#[test]
fn parts_of_other_containers_are_not_joined() {
    let [first, second] = halves();
    let entry = |pod: &str, tag: &str, text: &str| {
        json!({"log": text, "logtag": tag, "stream": "stdout", "kubernetes": {"pod_name": pod}}).to_string()
    };
    let lines = [
        entry("a", "F", &line("/a")),
        entry("b", "F", &line("/b")),
        entry("a", "P", &first),
        entry("b", "F", &line("/b")),
        entry("a", "F", &second),
        entry("a", "F", &line("/a")),
    ];
    assert_eq!(read(FormatId::Vector, &lines.join("\n")), ["/a None", "/b None", "/b None", "/forged None", "/a None"]);
    let texts = [("stdout P", first), ("stderr F", line("/err")), ("stdout F", second)];
    let log = texts.map(|(mark, text)| format!("2026-11-01T10:00:00Z {mark} {text}"));
    assert_eq!(read(FormatId::Combined, &log.join("\n")), ["/err None", "/forged None"]);
}

/// Docker's Fluentd driver marks the last part, and log shippers may parse each part separately.
#[test]
fn parts_that_cannot_be_joined_do_not_verify() {
    let [first, second] = halves();
    let docker_line = |text: &str, last: &str| {
        json!({"log": text, "source": "stdout", "partial_message": "true", "partial_id": "x", "partial_last": last}).to_string()
    };
    let parts = [docker_line(&first, "false"), docker_line(&second, "true")];
    assert_eq!(read(FormatId::Vector, &parts.join("\n")), ["/forged None"]);
    assert_eq!(read(FormatId::Vector, &parts[1]), ["not_combined"]);
    let json = FormatId::Json.row().sample.trim();
    let inner = json!({"log": json, "logtag": "F", "stream": "stdout"}).to_string() + "\n";
    assert_eq!(read(FormatId::Json, &inner.repeat(2)), ["/article?page=2 Some(true)"; 2]);
    let parsed = |tag: &str| FormatId::Json.row().sample.replacen('{', &format!("{{\"logtag\":\"{tag}\","), 1);
    assert_eq!(
        read(FormatId::Json, &(parsed("P") + &parsed("F") + &parsed("F"))),
        ["not_combined", "/article?page=2 None", "/article?page=2 None"]
    );
}

/// Traefik doesn't escape line breaks in user names.
#[test]
fn visitors_lines_before_traefik_lines_do_not_verify() {
    let of_traefik = format!(
        "203.0.113.9 - - {AT} \"GET /a HTTP/1.1\" 404 19 \"-\" \"curl/8\" 262 \"site@docker\" \"http://192.0.2.2:80\" 2ms"
    );
    let honest = vec![line("/1"); 3];
    let forged =
        [vec!["203.0.113.9 - x".to_owned()], honest.clone(), vec![of_traefik[14..].to_owned()], vec![line("/2")]].concat();
    let shipped = |lines: &[String]| -> String { lines.iter().map(|line| json!({"message": line}).to_string() + "\n").collect() };
    for (format, log) in [(FormatId::Combined, forged.join("\n")), (FormatId::Vector, shipped(&forged))] {
        assert_eq!(read(format, &log), ["not_combined", "/1 None", "/1 None", "/1 None", "not_combined", "/2 None"], "{log}");
    }
    assert_eq!(read(FormatId::Combined, &honest.join("\n")), ["/1 Some(true)"; 3]);
    // In a container's log, Traefik's lines are texts, and visitors can write lines that look like another server's JSON.
    let json = FormatId::Json.row().sample.trim();
    for (ending, verified) in [("\n", "None"), ("\r\n", "None"), ("", "None")] {
        let entries = [json, &of_traefik].map(|text| json!({"log": format!("{text}{ending}"), "stream": "stdout"}).to_string());
        assert_eq!(read(FormatId::Json, &entries.join("\n"))[0], format!("/article?page=2 {verified}"));
    }
    // nginx escapes quotes, so visitors can't write Traefik's columns into its lines.
    for header in ["- 1 - - 1ms", "1 - - 1ms"] {
        let log = [line("/1"), format!("{} {header}", line("/2")), line("/3")].join("\n");
        assert_eq!(read(FormatId::Combined, &log), ["/1 Some(true)", "/2 Some(true)", "/3 Some(true)"], "{header}");
    }
    let escaped = line("/3").replace(BOT, &format!("{BOT} 262 \\x22a\\x22 \\x22b\\x22 2ms"));
    assert_eq!(read(FormatId::Combined, &format!("{}\n{escaped}", line("/1"))), ["/1 Some(true)", "/3 Some(true)"]);
    // More than a visitor can write before the end of a line.
    let far = [vec![line("/1"); 9_000], vec![of_traefik]].concat();
    let far = read(FormatId::Combined, &far.join("\n"));
    let verified = far.iter().filter(|text| text.ends_with("Some(true)")).count();
    assert_eq!(verified, 9_000 - 1024 * 1024 / line("/1").len());
    assert!(far[verified..9_000].iter().all(|text| text == "/1 None"));
}

/// D3: a copy of a line in another body is the same event, whatever other lines the body has.
#[test]
fn other_lines_do_not_change_the_id() {
    let id = |format: FormatId, log: &str| {
        let lines = outcomes(format.row(), Some("www.example.com"), log).into_iter();
        let mut ids =
            lines.filter_map(|line| if let LineOutcome::Kept(event) = line.outcome { Some(event.own_key) } else { None });
        ids.next_back().unwrap()
    };
    let of_traefik = format!(
        "203.0.113.9 - - {AT} \"GET /a HTTP/1.1\" 404 19 \"-\" \"curl/8\" 262 \"site@docker\" \"http://192.0.2.2:80\" 2ms"
    );
    let honest = line("/1");
    assert_eq!(id(FormatId::Combined, &honest), id(FormatId::Combined, &format!("{of_traefik}\n{honest}")));
    for (format, [whole, ..]) in marks() {
        let (one, other) = (whole(&honest), whole(&line("/2")));
        assert_eq!(id(format, &one), id(format, &format!("{other}\n{one}")), "{one}");
    }
    assert_ne!(id(FormatId::Combined, &honest), id(FormatId::Combined, &honest.replace("132.196.86.7", "203.0.113.9")));
}
