//! The bot table: identifying user agents, and comparing the table with public lists.

use crate::terminal::{CommandOutput, Terminal};
use serde_json::{Value, json};

const BOT: &str = "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; GPTBot/1.2; +https://openai.com/gptbot";

fn check(arguments: &[&str]) -> Value {
    Terminal::new().run(&[&["bots", "check"], arguments, &["-o", "json"]].concat()).json()
}

#[test]
fn identifies_bots_by_name_and_address() {
    let known = check(&[BOT, "132.196.86.7"]);
    assert_eq!((&known["bot"], &known["operator"], &known["verified"]), (&"GPTBot".into(), &"OpenAI".into(), &true.into()));
    assert_eq!(known["addresses"], json!({"source": "https://openai.com/gptbot.json", "as_of": "2026-06-14", "changes": false}));
    assert_eq!(check(&[BOT, "203.0.113.9"])["verified"], false);
    assert_eq!(check(&[BOT, "172.18.0.1"])["verified"], Value::Null);
    assert_eq!(check(&[BOT])["verified"], Value::Null);
    assert_eq!(check(&["Mozilla/5.0 Firefox/141.0"])["bot"], Value::Null);
    assert_eq!(check(&["Unheard/1.0", "--category", "AI Search"])["bot"], "other");
    assert_eq!(Terminal::new().run(&["bots", "check", BOT, "nowhere"]).code, 2);
}

#[test]
fn identifies_variants_signed_agents_and_cdns() {
    let variant = check(&["GPTBot-Shopping/1.0"]);
    assert_eq!((&variant["bot"], &variant["variant"]), (&"GPTBot".into(), &"Shopping".into()));
    let signed = check(&["Mozilla/5.0 Firefox/141.0", "132.196.86.7", "--signature-agent", "\"https://chatgpt.com\""]);
    assert_eq!((&signed["bot"], &signed["verified"]), (&"ChatGPT-Agent".into(), &Value::Null));
    let cdn = check(&["Amazon CloudFront"]);
    assert_eq!((&cdn["bot"], &cdn["cdn"]), (&Value::Null, &"Amazon CloudFront".into()));
}

fn diff(list: &str, more: &[&str]) -> CommandOutput {
    Terminal::new().run_with_input(&[&["bots", "diff", "-"], more].concat(), list)
}

fn names(diff: &Value, kind: &str) -> Vec<String> {
    diff[kind].as_array().unwrap().iter().map(|bot| bot["bot"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn compares_a_list_with_the_bot_table() {
    let list = json!({
        "gptbot": {"operator": "[OpenAI](https://openai.com)", "function": "Scrapes data to train models."},
        "ClaudeBot/1.0": {"operator": "[Someone](https://someone.example)", "function": "Unclear at this time."},
        "CCBot": {"operator": "Common Crawl Foundation", "function": "AI Search Crawlers"},
        "UnheardBot": {"operator": "[Unheard](https://unheard.example)", "function": "AI Assistants"},
    });
    let said = diff(&list.to_string(), &["-o", "json"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stderr.contains("missing in the table: 1"), "{said:?}");
    let found: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(found["same"], 1);
    assert_eq!(names(&found, "missing"), ["UnheardBot"]);
    assert_eq!(found["missing"][0]["list"]["purpose"], "user");
    assert_eq!(names(&found, "different"), ["CCBot", "ClaudeBot/1.0"]);
    let only_in_table = names(&found, "only_in_table");
    assert!(only_in_table.contains(&"Bytespider".to_owned()) && !only_in_table.contains(&"CCBot".to_owned()));
    let table = diff(&list.to_string(), &[]);
    assert!(table.stdout.contains("missing in table") && table.stdout.contains("UnheardBot"), "{table:?}");

    let known = diff(r#"{"GPTBot": {}}"#, &["-o", "json"]);
    assert_eq!(known.code, 0, "{known:?}");
    let own = r#"{"version": "1", "bots": [{"bot": "Own", "operator": "o", "purpose": "user", "documentation": "", "patterns": ["GPTBot", "Own"]}]}"#;
    assert_eq!(names(&serde_json::from_str(&diff(own, &["-o", "json"]).stdout).unwrap(), "different"), ["Own"]);
}

/// A table with rows that a list spells differently, or whose operators are parts of other names.
#[test]
fn compares_operator_and_bot_names_exactly() {
    let bot = |bot: &str, operator: &str, pattern: &str| {
        json!({"bot": bot, "operator": operator, "purpose": "user", "documentation": "https://a.example", "source": "https://a.example",
            "source_date": "2026-01-01", "patterns": [pattern]})
    };
    let table =
        json!({"version": "1", "bots": [bot("ExaBot", "X", "ExaBot/"), bot("Ring", "xAI", "Ring"), bot("Mine", "Meta", "Mine")]});
    let file = std::env::temp_dir().join(format!("telemetry-bots-{}.json", std::process::id()));
    std::fs::write(&file, table.to_string()).unwrap();
    let list = json!({"Exabot": {"operator": "X Corp."}, "Ring": {"operator": "X"}, "Mine": {"operator": "Meta, Inc."},
        "Other": {"operator": "Meta"}});
    let said = diff(&list.to_string(), &["--bots-file", file.to_str().unwrap(), "-o", "json"]);
    std::fs::remove_file(&file).unwrap();
    let found: Value = serde_json::from_str(&said.stdout).unwrap_or_else(|_| panic!("{said:?}"));
    assert_eq!((names(&found, "missing"), names(&found, "different")), (vec!["Other".into()], vec!["Ring".into()]), "{found}");
    assert_eq!(found["same"], 2);
}

#[test]
fn compares_crawler_lists_by_tag_and_day() {
    let list = json!([
        {"pattern": "GPTBot", "instances": [BOT], "tags": ["ai-crawler"], "addition_date": "2024/01/01"},
        {"pattern": "Unheard", "instances": ["Unheard/1.0 \u{1b}[31m"], "tags": ["ai-crawler"], "addition_date": "2026/02/01"},
        {"pattern": "(a|b)+", "tags": ["ai-crawler"], "addition_date": "2026/03/01"},
        {"pattern": "Monitor", "instances": ["Monitor/1"], "tags": ["monitoring"]},
    ]);
    let of = |more: &[&str]| -> Value {
        serde_json::from_str(&diff(&list.to_string(), &[more, &["-o", "json"]].concat()).stdout).unwrap()
    };
    let found = of(&[]);
    assert_eq!((names(&found, "missing"), names(&found, "not_compared")), (vec!["Unheard".into()], vec!["(a|b)+".into()]));
    assert_eq!(names(&of(&["--all"]), "missing"), ["Monitor", "Unheard"]);
    let new = of(&["--since", "2026-02-02"]);
    assert_eq!((names(&new, "missing").len(), names(&new, "only_in_table").len(), &new["same"]), (0, 0, &0.into()));
    assert!(!diff(&list.to_string(), &[]).stdout.contains('\u{1b}'), "control characters must not be printed");
}

#[test]
fn rejects_files_that_are_not_lists() {
    for other in ["", "{}", "[]", "no JSON", r#"{"a": 1}"#] {
        assert_eq!(diff(other, &[]).code, 2, "{other}");
    }
    assert_eq!(diff(&format!("[{}]", " ".repeat(16 << 20)), &[]).code, 2);
    assert_eq!(Terminal::new().run(&["bots", "diff", "gone.json"]).code, 2);
}
