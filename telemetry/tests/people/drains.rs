//! Log files: `drain test`, and imports that count each line once.

use crate::terminal::Terminal;
use crate::test_service::{Service, wait_for_events};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use service_kit::testing::eventually;
use std::fmt::Write as _;
use std::io::Write as _;

const BOT: &str = "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; GPTBot/1.2; +https://openai.com/gptbot";

/// Returns a web server's log lines, each with its own page.
fn log(pages: std::ops::Range<u32>) -> String {
    pages.fold(String::new(), |mut text, page| {
        let at = format!("01/Nov/2026:10:{:02}:{:02} +0000", page / 60, page % 60);
        let _ = writeln!(text, "132.196.86.7 - - [{at}] \"GET /page/{page} HTTP/2.0\" 200 5120 \"-\" \"{BOT}\"");
        text
    })
}

#[test]
fn drain_test_shows_each_line_without_a_service() {
    let person =
        "198.51.100.7 - - [01/Nov/2026:10:00:00 +0000] \"GET /private HTTP/2.0\" 200 1 \"-\" \"Mozilla/5.0 Firefox/141.0\"\n";
    let style = log(7..8).replace("/page/7", "/a.css");
    let terminal = Terminal::new();
    let file = terminal.file("access.log", &format!("\n{}{person}{style}\nnonsense\n", log(0..1)));
    let test = ["drain", "test", file.to_str().unwrap(), "--provider", "combined", "--host", "www.a.example"];
    let said = terminal.run(&[&test[..], &["-o", "ndjson"]].concat()).ok();
    let lines: Vec<Value> = said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let becomes: Vec<&str> = lines.iter().map(|line| line["becomes"].as_str().unwrap()).collect();
    assert_eq!(becomes, ["retrieval", "person", "dropped", "bad"]);
    let numbers: Vec<u64> = lines.iter().map(|line| line["line"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [2, 3, 4, 6], "line numbers include the two blank lines");
    assert_eq!((&lines[0]["bot"], &lines[0]["content_url"]), (&"GPTBot".into(), &"https://www.a.example/page/0".into()));
    assert_eq!(lines[2]["why"], "asset");
    assert!(!said.stdout.contains("private") && !said.stdout.contains("Firefox"), "lines of people must not be shown: {said:?}");
    assert!(said.stderr.contains("Nothing was sent"), "{said:?}");

    let other = terminal.run(&[&test[..], &["--domain", "b.example", "-o", "json"]].concat()).json();
    assert_eq!(other[0]["why"], "other_host");
    assert_eq!(terminal.run(&["drain", "test", file.to_str().unwrap(), "--provider", "nobody"]).code, 2);
    assert_eq!(terminal.run(&["drain", "test", "gone.log", "--provider", "combined"]).code, 2);
}

#[test]
fn shows_status_none_for_unserved_requests() {
    let terminal = Terminal::new();
    let file = terminal.file("access.log", &log(0..1).replace(" 200 ", " - "));
    let test = ["drain", "test", file.to_str().unwrap(), "--provider", "combined", "--host", "www.a.example"];
    let said = terminal.run(&test).ok();
    assert!(said.stdout.contains("not served") && said.stdout.contains(" none "), "{said:?}");
}

#[test]
fn reports_contradicting_members() {
    let terminal = Terminal::new();
    let line =
        r#"{"timestamp":"2026-11-01T10:00:00Z","host":"a.example","http_host":"b.example","url":"/","status":200,"status":200}"#;
    let hosts = terminal.file("hosts.log", &line.replace(r#","status":200}"#, "}"));
    let status = terminal.file("status.log", &line.replace(r#""http_host":"b.example","#, ""));
    for (file, reason) in [(hosts, "host and http_host contradict each other"), (status, "status occurs twice")] {
        let said = terminal.run(&["drain", "test", file.to_str().unwrap(), "--provider", "fastly"]);
        assert!(said.code == 1 && said.stdout.contains(reason), "{said:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn imports_resume_and_count_each_line_once() {
    let service = Service::start().await;
    let owner = service.terminal("OWNER_KEY");
    let file = owner.file("access.log", &log(0..50));
    let import = ["import", file.to_str().unwrap(), "--provider", "combined", "--host", "www.example.com", "-o", "json"];
    let first = owner.run(&import).json();
    assert_eq!((&first["lines"], &first["kept"]), (&50.into(), &50.into()));
    assert_eq!(owner.run(&import).json()["lines"], 0, "no line was added");

    std::fs::OpenOptions::new().append(true).open(&file).unwrap().write_all(log(50..60).as_bytes()).unwrap();
    assert_eq!(owner.run(&import).json()["lines"], 10, "only the added lines are sent");
    let again = owner.run(&[&import[..], &["--from-start"]].concat()).json();
    assert_eq!(again["lines"], 60, "the whole log is sent again");
    // Through stdin, and from another file.
    let piped = ["import", "-", "--provider", "combined", "--host", "www.example.com", "-o", "json"];
    assert_eq!(owner.run_with_input(&piped, &log(0..60)).json()["kept"], 60);
    let some = owner.run_with_input(&piped, &format!("{}nonsense\n", log(0..1)));
    assert!(some.code == 0 && some.stderr.contains("1 line could not be read"), "{some:?}");
    std::fs::write(&file, log(55..65)).unwrap();
    assert_eq!(owner.run(&import).json()["lines"], 10, "a new log with the same name is read from its start");
    wait_for_events(&owner, 65).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn accepts_combined_logs_that_start_with_a_bracket() {
    let service = Service::start().await;
    let owner = service.terminal("OWNER_KEY");
    let lines = log(0..2).lines().map(|line| format!("www.example.com {line}\n")).collect::<String>();
    let file = owner.file("access.log", &lines.replacen("www.example.com", "[::1]", 1));
    let log = [file.to_str().unwrap(), "--provider", "combined", "-o", "json"];
    let tried = owner.run(&[&["drain", "test"], &log[..]].concat()).json();
    assert_eq!((&tried[0]["why"], &tried[1]["becomes"]), (&"no_host".into(), &"retrieval".into()), "{tried}");
    let taken = owner.run(&[&["import"], &log[..]].concat()).json();
    assert_eq!((&taken["lines"], &taken["kept"], &taken["bad"]), (&2.into(), &1.into(), &1.into()), "{taken}");
}

#[test]
fn drain_test_truncates_tables_but_not_lines() {
    let terminal = Terminal::new();
    let file = terminal.file("access.log", &"nonsense\n".repeat(10_003));
    let test = |form: &str| terminal.run(&["drain", "test", file.to_str().unwrap(), "--provider", "combined", "-o", form]);
    for (form, lines) in [("csv", 10_004), ("ndjson", 10_003), ("table", 10_001)] {
        let said = test(form);
        assert!(said.code == 1 && said.stderr.contains("no line could be read"), "{form}: {}", said.stderr);
        assert_eq!(said.stdout.lines().count(), lines, "{form}");
        assert!(said.stderr.contains("10003 lines: 10003 unreadable"), "{form}: {}", said.stderr);
        assert_eq!(said.stderr.contains("see the other 3"), form == "table", "{form}: {}", said.stderr);
    }
    let json = test("json");
    assert!(json.stderr.contains("see the other 3"));
    let shown: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(shown.as_array().unwrap().len(), 10_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn signs_imports_with_the_drains_secret() {
    let service = Service::start().await;
    let owner = service.terminal("OWNER_KEY");
    let secret = owner.file("secret", "a-secret-that-vercel-knows");
    let secret = ["--secret-file", secret.to_str().unwrap()];
    let create = ["drain", "create", "vercel", "--provider", "vercel", "-o", "json"];
    let made = owner.run(&[&create[..], &secret].concat()).json();
    let key = owner.file("drain.key", made["key"].as_str().unwrap());
    let file = owner.file("vercel.ndjson", "{\"source\":\"build\",\"message\":\"Compiled\"}\n");
    let import = ["import", file.to_str().unwrap(), "--provider", "vercel", "--key-file", key.to_str().unwrap(), "-o", "json"];
    assert_eq!(owner.run(&import).code, 3, "the drain requires a signature");
    assert_eq!(owner.run(&[&import[..], &secret].concat()).json()["lines"], 1);
    let other = ["import", file.to_str().unwrap(), "--provider", "ndjson"];
    assert_eq!(owner.run(&[&other[..], &secret].concat()).code, 2, "other providers have no signature");
    owner.file("vercel.ndjson", "nonsense\n");
    // Another file now has the name. Unreadable lines are sent again each time.
    for _ in 0..2 {
        let unread = owner.run(&[&import[..], &secret].concat());
        assert!(unread.code == 1 && unread.stderr.contains("no line could be read"), "{unread:?}");
    }
    let health = owner.run(&["drain", "health", "vercel"]).ok();
    let cells: Vec<Vec<&str>> = health.stdout.lines().map(|line| line.split_whitespace().skip(1).collect()).collect();
    let of_the_bad = ["1", "0", "0", "0", "1", "8", "0"];
    assert!(
        cells.iter().any(|cells| cells == &of_the_bad || cells.starts_with(&["2", "0", "0", "no_request", "1", "0", "1"])),
        "{health:?}"
    );
    assert!(health.stderr.contains("not_json: aaaaaaaa"), "{health:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn follows_a_log_through_rotation() {
    let service = Service::start().await;
    let owner = service.terminal("OWNER_KEY");
    let file = owner.file("access.log", &log(0..3));
    let follow = ["import", file.to_str().unwrap(), "--provider", "combined", "--host", "www.example.com", "--follow"];
    let mut running = owner.start(&follow);
    wait_for_events(&owner, 3).await;
    let half = log(3..4);
    let (begin, end) = half.split_at(40);
    let append = |text: &str| std::fs::OpenOptions::new().append(true).open(&file).unwrap().write_all(text.as_bytes()).unwrap();
    append(begin);
    std::thread::sleep(std::time::Duration::from_secs(2));
    append(end);
    wait_for_events(&owner, 4).await;
    // The old file's last line has no line end.
    append(log(4..5).trim_end());
    std::fs::rename(&file, owner.home().join("access.log.1")).unwrap();
    owner.file("access.log", &log(10..13));
    wait_for_events(&owner, 8).await;
    running.kill().unwrap();
    running.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn imports_compressed_logs_but_does_not_follow_them() {
    let service = Service::start().await;
    let owner = service.terminal("OWNER_KEY");
    let file = owner.home().join("access.log.gz");
    let mut gzip = GzEncoder::new(std::fs::File::create(&file).unwrap(), Compression::fast());
    gzip.write_all(log(0..7).as_bytes()).unwrap();
    gzip.finish().unwrap();
    let import = ["import", file.to_str().unwrap(), "--provider", "combined", "--host", "www.example.com", "-o", "json"];
    let followed = owner.run(&[&import[..], &["--follow"]].concat());
    assert!(followed.code == 2 && followed.stderr.contains("--follow"), "{followed:?}");
    assert_eq!(owner.run(&import).json()["kept"], 7);
    assert_eq!(owner.run(&import).json()["lines"], 0, "the file was already imported");
    wait_for_events(&owner, 7).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn imports_logs_of_every_provider() {
    let service = Service::start().await;
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../ingest-gateway/tests/drains");
    let network = service.terminal("NETWORK_KEY");
    // Firehose responses have their own format, without counts.
    let file = folder.join("cloudfront.ndjson");
    network.run(&["import", file.to_str().unwrap(), "--provider", "firehose"]).ok();
    eventually("the Firehose lines are counted", || async {
        let summary = network.run(&["summary", "--agent", "-o", "json"]).json();
        (summary["total_events"].as_u64() >= Some(1)).then_some(())
    })
    .await;
    for provider in ["cloudflare", "fastly", "akamai", "vercel", "azure"] {
        let file = folder.join(format!("{provider}.ndjson"));
        let log = [file.to_str().unwrap(), "--provider", provider, "-o", "json"];
        let tried = network.run(&[&["drain", "test"], &log[..]].concat()).json();
        let retrievals = tried.as_array().unwrap().iter().filter(|line| line["becomes"] == "retrieval").count();
        let taken = network.run(&[&["import"], &log[..]].concat()).json();
        assert!(retrievals > 0 && taken["kept"] == retrievals, "{provider}: drain test and import differ: {tried} {taken}");
    }
    let array = network.file("array.json", "[{\"a\": 1}]");
    let said = network.run(&["import", array.to_str().unwrap(), "--provider", "ndjson"]);
    assert!(said.code == 2 && said.stderr.contains("jq"), "{said:?}");
}

#[test]
fn drain_test_names_the_format_and_missing_field() {
    let terminal = Terminal::new();
    let line = |members: &str| {
        format!(
            r#"{{"ts":1793527200.5,"logger":"http.log.access","request":{{"host":"a.test","uri":"/","headers":{{{members}}}}},"status":200}}"#
        )
    };
    let lines = [line(r#""User-Agent":["GPTBot/1.2"]"#), line("")].join("\n");
    let file = terminal.file("caddy.log", &lines);
    let test = |form: &str| terminal.run(&["drain", "test", file.to_str().unwrap(), "--provider", "ndjson", "-o", form]);
    let said = test("json");
    let rows: Value = serde_json::from_str(&said.stdout).unwrap();
    for (row, missing) in [(0, "method"), (1, "user_agent")] {
        assert_eq!((&rows[row]["missing"], &rows[row]["format"]), (&missing.into(), &"caddy".into()), "{rows}");
    }
    assert!(said.stderr.contains("Recognized: Caddy (2)."), "{}", said.stderr);
    let table = test("table").stdout;
    assert!(table.contains("no user agent") && table.contains("no method"), "{table}");
}
