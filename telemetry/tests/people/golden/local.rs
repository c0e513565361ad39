//! Golden output of commands that don't call a service.

use super::transcript::Transcript;
use crate::terminal::Terminal;
use schemas::identity::OrgType;
use schemas::secrets::PlainApiKey;
use schemas::webhook::signature::sign;
use std::os::unix::fs::PermissionsExt as _;

const LOG: &str = r#"132.196.86.7 - - [01/Nov/2026:10:00:00 +0000] "GET /a HTTP/2.0" 200 5120 "-" "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)"
198.51.100.7 - - [01/Nov/2026:10:00:01 +0000] "GET /b HTTP/2.0" 200 1 "-" "Mozilla/5.0 Firefox/141.0"
132.196.86.7 - - [01/Nov/2026:10:00:02 +0000] "GET /a.css HTTP/2.0" 200 5120 "-" "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)"
nonsense
"#;
const OWN_BOTS: &str = r#"{"version":"own-1","bots":[{"bot":"ExampleBot","operator":"Example","purpose":"search","documentation":"","patterns":["ExampleBot"]}]}"#;
const PUBLIC_LIST: &str = r#"{"ExampleBot":{"operator":"Other","function":"AI Assistants"}}"#;
const SECRET: &str = "whsec_abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG";
const BODY: &str = r#"{"id":"0195f3a0-0000-7000-8000-000000000052","type":"webhook.test","created_at":"2026-11-01T10:00:00.000Z","data":{"webhook":{"id":"0195f3a0-0000-7000-8000-000000000051"}}}"#;

#[test]
fn profile_commands_match_golden_output() {
    let terminal = Terminal::new();
    terminal.file("owner.key", PlainApiKey::generate(OrgType::ContentOwner).reveal());
    let mut kept = Transcript::new("profile");
    kept.run(&terminal, &["profile", "set", "work", "--url", "https://telemetry.example", "--key-file", "owner.key"]);
    kept.run(&terminal, &["profile", "set", "home", "--url", "http://127.0.0.1:8080", "-o", "json"]);
    kept.run_in_both_formats(&terminal, &["profile", "list"]);
    kept.run_in_both_formats(&terminal, &["profile", "show", "work"]);
    kept.run(&terminal, &["profile", "use", "home"]);
    kept.run(&terminal, &["profile", "use", "nobody's"]);
    kept.run(&terminal, &["profile", "delete", "work", "--yes"]);
    kept.check();
}

#[test]
fn offline_commands_match_golden_output() {
    let terminal = Terminal::new();
    terminal.file("access.log", LOG);
    let mut kept = Transcript::new("local");
    kept.run_in_both_formats(&terminal, &["drain", "test", "access.log", "--provider", "combined", "--host", "www.a.example"]);
    kept.run_in_both_formats(&terminal, &["bots", "check", "GPTBot/1.2", "132.196.86.7"]);
    terminal.file("own.json", OWN_BOTS);
    terminal.file("robots.json", PUBLIC_LIST);
    kept.run_in_both_formats(&terminal, &["bots", "diff", "robots.json", "--bots-file", "own.json"]);
    kept.run_and_record_first_lines(&terminal, &["completion", "bash"], 3);
    kept.run(&terminal, &["completion", "abacus"]);

    terminal.file("body", BODY);
    terminal.file("secret", SECRET);
    let at = 1_793_527_200;
    let (signature, at) = (sign(SECRET, at, BODY.as_bytes()), at.to_string());
    let of = ["webhook", "verify", "body", "--secret-file", "secret", "--timestamp", &at, "--signature"];
    kept.run_in_both_formats(&terminal, &[&of[..], &[&signature, "--any-age"]].concat());
    kept.run(&terminal, &[&of[..], &[&signature]].concat());
    kept.run(&terminal, &["secrets", "--file", "deployment.env"]);
    kept.run(&terminal, &["secrets", "--file", "deployment.env"]);
    kept.check();
}

#[test]
fn sign_commands_match_golden_output() {
    let terminal = Terminal::new();
    terminal.file("body.json", BODY);
    let mut kept = Transcript::new("sign");
    kept.run(&terminal, &["sign", "keygen", "agent.jwk", "--id", "agent-2026"]).ok();
    kept.run(&terminal, &["sign", "keygen", "agent.jwk"]);
    let file = std::fs::metadata(terminal.home().join("agent.jwk")).unwrap();
    assert_eq!(file.permissions().mode() & 0o777, 0o600);

    let of = ["sign", "request", "--url", "https://telemetry.example/events#part", "--content-encoding", "gzip"];
    let words = [&of[..], &["--key", "agent.jwk", "--key-id", "agent-2026", "body.json"]].concat();
    let said = terminal.run(&words).ok();
    // The digest and the signature, then created, expires and the nonce.
    let mut varying: Vec<&str> = said.stdout.lines().filter_map(|line| Some(line.split_once("=:")?.1)).collect();
    for name in ["created=", "expires=", "nonce=\""] {
        varying.extend(said.stdout.split_once(name).and_then(|(_, rest)| rest.split([';', '"']).next()));
    }
    assert_eq!(varying.len(), 5, "{varying:?}");
    varying.iter().for_each(|value| kept.hide(value, "varies"));
    kept.add(&words, "", &said, &said.stdout);
    kept.run(&terminal, &[&of[..], &["--key", "body.json", "body.json"]].concat());
    kept.run(&terminal, &[&of[..], &["--key", "agent.jwk", "--key-id", "schlüssel", "body.json"]].concat());
    kept.check();
}

#[test]
fn statement_commands_match_golden_output() {
    let terminal = Terminal::new();
    macro_rules! example {
        ($($name:literal),*) => { $(terminal.file($name, include_str!(concat!("../../../statements/example/", $name)));)* };
    }
    example!("statement.json", "evidence.ndjson", "previous.json", "manifest.json");
    let mut kept = Transcript::new("statement");
    let of = ["statement", "verify", "statement.json", "evidence.ndjson"];
    kept.run(&terminal, &of);
    kept.run(&terminal, &[&of[..], &["--manifest", "manifest.json", "--previous", "previous.json"]].concat());
    let statement = include_str!("../../../statements/example/statement.json");
    terminal.file("statement.json", &statement.replacen(r#""claimed":1"#, r#""claimed":7"#, 1));
    kept.run(&terminal, &[&of[..], &["--manifest", "manifest.json"]].concat());
    kept.run(&terminal, &["statement", "verify", "manifest.json", "evidence.ndjson"]);
    kept.run(&terminal, &["statement", "verify", "statement.json", "gone.ndjson"]);
    kept.check();
}
