//! Which credential is sent to which address, and where credentials are stored.

use crate::stub_server::{Stub, ok};
use crate::terminal::Terminal;
use schemas::identity::OrgType;
use schemas::secrets::PlainApiKey;
use std::os::unix::fs::PermissionsExt;

fn server() -> Stub {
    Stub::start(|_, _| ok("{}"))
}

fn key() -> String {
    PlainApiKey::generate(OrgType::ContentOwner).reveal().to_owned()
}

#[test]
fn options_override_environment_and_profile() {
    let (of_file, of_environment, of_profile) = (key(), key(), key());
    let (here, elsewhere) = (server(), server());
    let terminal = Terminal::new();
    let file = terminal.file("profile.key", &of_profile);
    terminal.run(&["profile", "set", "--url", &here.url, "--key-file", file.to_str().unwrap()]).ok();
    terminal.run(&["summary"]).ok();
    assert_eq!(here.keys(), [of_profile]);

    let terminal = terminal.with("TELEMETRY_KEY", &of_environment).with("TELEMETRY_URL", &elsewhere.url);
    terminal.run(&["summary"]).ok();
    assert_eq!(elsewhere.keys(), [of_environment]);

    let file = terminal.file("option.key", &format!("{of_file}\n"));
    terminal.run(&["summary", "--url", &here.url, "--key-file", file.to_str().unwrap()]).ok();
    assert_eq!(here.keys(), [of_file]);
}

#[test]
fn profile_keys_are_not_sent_to_other_addresses() {
    let (here, elsewhere) = (server(), server());
    let terminal = Terminal::new();
    let file = terminal.file("key", &key());
    terminal.run(&["profile", "set", "--url", &here.url, "--key-file", file.to_str().unwrap()]).ok();
    let said = terminal.run(&["summary", "--url", &elsewhere.url]);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.stderr.contains("are not sent to"), "{said:?}");

    let said = terminal.run(&["profile", "set", "default", "--url", &elsewhere.url]).ok();
    assert!(said.stderr.contains("were deleted"), "{said:?}");
    assert_eq!(terminal.run(&["summary"]).code, 3);
    assert_eq!(elsewhere.keys(), [""; 0], "no request may be sent");
}

#[test]
fn rejects_keys_on_the_command_line() {
    let key = key();
    let terminal = Terminal::new();
    let said = terminal.run(&["summary", "--url", "http://127.0.0.1:1", "--key", &key]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.stderr.contains("--key-file") && !said.stderr.contains(&key), "{said:?}");

    let wrong = "svc_pub_not-a-key-but-somebody-may-have-meant-it";
    let said = terminal.with("TELEMETRY_KEY", wrong).run(&["summary", "--url", "http://127.0.0.1:1"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.stderr.contains("TELEMETRY_KEY doesn't contain a valid API key") && !said.stderr.contains(wrong), "{said:?}");
}

#[test]
fn rejects_passwords_in_addresses() {
    let wrong = "https://somebody:hunter2@telemetry.example";
    let terminal = Terminal::new().with("TELEMETRY_URL", wrong);
    let said = [terminal.run(&["summary"]), Terminal::new().run(&["summary", "--url", wrong])];
    for said in said {
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.stderr.contains("must not contain a user, password") && !said.stderr.contains("hunter2"), "{said:?}");
    }
    let help = terminal.run(&["summary", "--help"]).ok();
    assert!(help.stdout.contains("TELEMETRY_URL") && !help.stdout.contains("hunter2"), "{help:?}");
}

#[test]
fn does_not_store_keys_from_the_environment() {
    let terminal = Terminal::new().with("TELEMETRY_KEY", &key());
    let made = terminal.run(&["profile", "set", "--url", "http://127.0.0.1:1", "-o", "json"]).json();
    assert!(made["key"].is_null(), "{made}");
}

#[test]
fn profiles_are_readable_only_by_their_owner() {
    let terminal = Terminal::new();
    let key = key();
    let file = terminal.file("key", &key);
    let said =
        terminal.run(&["profile", "set", "work", "--url", "http://127.0.0.1:1", "--key-file", file.to_str().unwrap()]).ok();
    assert!(!said.stdout.contains(&key) && said.stdout.contains(&key[..12]), "{said:?}");
    let profiles = terminal.home().join(".config/telemetry/profiles.json");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&profiles), mode(profiles.parent().unwrap())), (0o600, 0o700));

    std::fs::set_permissions(&profiles, std::fs::Permissions::from_mode(0o640)).unwrap();
    let said = terminal.run(&["profile", "list"]);
    assert!(said.code == 2 && said.stderr.contains("chmod 600"), "{said:?}");
}

#[test]
fn errors_do_not_show_the_content_of_profiles() {
    let terminal = Terminal::new();
    let secret = key();
    let file = terminal.file("profiles.json", &format!("{{\"profiles\": {{\"a\": {{\"key\": \"{secret}\", \"url\": 5}}}}}}"));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let said = terminal.with("TELEMETRY_CONFIG", file.to_str().unwrap()).run(&["whoami"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.stderr.contains("profiles.json") && !said.stderr.contains(&secret), "{said:?}");
}

#[test]
fn uses_one_of_several_profiles() {
    let terminal = Terminal::new();
    for (name, url) in [("one", "http://one.test"), ("two", "https://two.test")] {
        terminal.run(&["profile", "set", name, "--url", url]).ok();
    }
    let in_use = |terminal: &Terminal| {
        let all = terminal.run(&["profile", "list", "-o", "json"]).json();
        let named = |profile: &serde_json::Value| profile["name"].as_str().unwrap().to_owned();
        all.as_array().unwrap().iter().filter(|profile| profile["in_use"] == true).map(named).collect::<Vec<_>>()
    };
    assert_eq!(in_use(&terminal), ["one"], "the first profile is in use");
    terminal.run(&["profile", "use", "two"]).ok();
    assert_eq!(in_use(&terminal), ["two"]);
    assert_eq!(terminal.run(&["profile", "use", "three"]).code, 4);
    let said = terminal.run(&["profile", "delete", "two"]);
    assert!(said.code == 2 && said.stderr.contains("--yes"), "without a terminal, the command can't ask: {said:?}");
    terminal.run(&["profile", "delete", "two", "--yes"]).ok();
    assert_eq!(in_use(&terminal), Vec::<String>::new());
}
