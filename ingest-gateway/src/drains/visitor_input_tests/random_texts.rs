//! Random visitors' text in every place of every format must not hide fetches, or forge pages or addresses.

use super::{Part, WITHOUT_USER_AGENTS, escape, is_list, of_sample, outcomes};
use crate::drains::format_table::{FORMATS, FormatId};
use crate::drains::line_processor::LineOutcome;
use proptest::prelude::*;

/// The addresses of the bot and the visitor.
const OF_BOT: &str = "132.196.86.7";
const OF_VISITOR: &str = "203.0.113.5";

/// Strings that have a meaning in some format.
const TOKENS: &[&str] = &[
    " ",
    " ",
    "\"",
    "\\",
    "'",
    "[",
    "]",
    "{",
    "}",
    "|",
    ",",
    ":",
    ";",
    "#",
    "%",
    "+",
    "/",
    "-",
    "- -",
    ", ",
    "\t",
    "a",
    "unknown",
    "\\\"",
    "\\x22",
    "\\u0022",
    "#22",
    "%22",
    "%2522",
    "\"}",
    "{\"",
    "\":\"",
    "\",\"",
    "}\"",
    "\u{e9}",
    "\u{2028}",
    OF_BOT,
    "132.196.86.7:443",
    "::ffff:132.196.86.7",
    "10.0.0.1",
    "unix:",
    "localhost",
    "evil.test",
    "evil.test:443",
    "http://evil.test/f",
    "[01/Nov/2026:10:00:00 +0000]",
    " [01/Nov/2026:10:00:00 +0000] \"",
    "[01/Nov/2026:10:00:00.000]",
    "2026-11-01T10:00:00Z",
    "\"GET /f HTTP/1.1\" 200 9 ",
    "GET /f HTTP/1.1",
    " HTTP/1.1",
    "\" 404 1 ",
    "\" \"",
    "\"-\"",
    "HIT|200|1793527200000|10|390|",
    "|DE|GPTBot/1.0|abc|DE",
    "https 2026-11-01T10:00:00.000641Z app/x 132.196.86.7:2817 ",
    "10/0/30/69/109 200 9 - - ---- ",
    "{evil.test|GPTBot/1.2}",
    " {evil.test|GPTBot/1.2} \"GET /f HTTP/1.1",
    "0/0/0/0/0 x/TLSv1.3/X",
    " 262 \"a\" \"b\" 2ms",
    "89 0.001 [a] [] x",
    "[2026-11-01T10:00:00.000Z] \"GET /f HTTP/2\" 404 - 0 9 1 1 \"a",
    "\" 404 - 0 9 1 1 \"",
    "\" 404 - x - \"-\" 0 9 1 1 \"",
    "[01/Nov/2026:10:00:00 +0000] - 404 404 - GET http evil.test \"/f",
    "1793527200.000|x|203.0.113.9|404|9|u|z|evil.test|HIT|\"GET /f",
    "529a007902362a5f51385a5fa7049884",
    "0b1f9e6c-3d6a-4a52-9c4e-0f2a6a1d2e3f",
    "content-telemetry-id:",
    "\n",
    "\r\n",
    "#Fields: c-ip",
    "\"host\":\"evil.test\",",
    "\"url\":\"/f\",",
    "\"client_ip\":\"132.196.86.7\",",
    "\"status\":404,",
    "Mozilla/5.0",
    "like GPTBot",
];

proptest! {
    #[test]
    fn random_visitor_texts_do_not_hide_or_forge_fetches(
        at in 0..FORMATS.len(),
        part in prop::sample::select(Part::ALL.to_vec()),
        tokens in prop::collection::vec(prop::sample::select(TOKENS.to_vec()), 0..9),
        path in prop::collection::vec(prop::sample::select(TOKENS.to_vec()), 0..4),
    ) {
        let format = &FORMATS[at];
        let is_one_word = |text: &str| !text.contains(char::is_whitespace);
        let has_no_escapes = matches!(format.id, FormatId::TraefikClf | FormatId::Bunny);
        let escapes_nothing = has_no_escapes || matches!(format.id, FormatId::Envoy | FormatId::Istio | FormatId::AmazonS3);
        let (value, path) = (tokens.concat(), path.into_iter().filter(|token| is_one_word(token)).collect::<String>());
        let is_unfit = (part == Part::Host && !is_one_word(&value)) || (part == Part::Forwarded && has_no_escapes);
        if is_unfit || WITHOUT_USER_AGENTS.contains(&format.id) {
            return Ok(());
        }
        // The sample's bot address is replaced, so the visitor's address takes its place afterwards.
        let [value, path] = [value, path].map(|text| text.replace(OF_BOT, "BOT-ADDRESS"));
        let page = format!("article{}", escape(format.id, &path));
        let log = of_sample(format, 0, &page, part, &value).replace(OF_BOT, OF_VISITOR).replace("BOT-ADDRESS", OF_BOT);
        let names_host = format.sample.contains("www.example.com") && part != Part::Host && format.id != FormatId::TraefikClf;
        let host = if names_host { None } else { Some("www.example.com") };
        let lines = outcomes(format, host, &log);
        prop_assert_eq!(lines.len(), 1, "{}", log);
        match &lines[0].outcome {
            LineOutcome::Kept(event) => {
                let page = event.content_url.as_deref().unwrap();
                prop_assert!(page.starts_with("https://www.example.com/article"), "{}: {}", page, log);
                prop_assert!(!path.is_empty() || page.ends_with("/article?page=2"), "{}: {}", page, log);
                prop_assert_eq!((event.at_ms, event.crawler.as_deref().unwrap().response_status), (1_793_527_200_000, 200), "{}", log);
                prop_assert_ne!(event.crawler.as_deref().unwrap().verified, Some(true), "{}", log);
                prop_assert!(!serde_json::to_string(event).unwrap().contains(OF_VISITOR), "{}", log);
            }
            LineOutcome::Bad(_) if escapes_nothing => {}
            // Text before the address must look like a list or a host. HAProxy's cookies can look like one before a request.
            LineOutcome::Bad("not_combined") if part == Part::Forwarded && !is_list(&value) => {}
            LineOutcome::Bad("not_combined") if part == Part::Host && value.starts_with("2026-") => {}
            LineOutcome::Bad("not_combined" | "wrong_columns") if part == Part::Cookie && value.contains("+0000] \"") => {}
            other => prop_assert!(false, "{:?}: {}", other, log),
        }
    }
}
