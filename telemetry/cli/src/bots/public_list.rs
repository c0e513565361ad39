//! Reads public bot lists: the JSON lists of ai.robots.txt and crawler-user-agents, and the service's bot tables.
//!
//! Lists are untrusted: their regular expressions are never run, and unknown members are ignored.

use schemas::bots::Purpose;
use serde::Deserialize;
use serde_json::Value;

const AI_TAG: &str = "ai-crawler";
/// Special characters in regular expressions.
const SYNTAX: &[char] = &['\\', '[', ']', '(', ')', '|', '*', '+', '?', '^', '$', '{', '}'];
/// Words in ai.robots.txt's `function`, by the purpose they indicate.
const FUNCTIONS: &[(Purpose, &[&str])] = &[
    (Purpose::Training, &["train", "training", "llm", "llms", "scraper", "scrapers"]),
    (Purpose::Search, &["search"]),
    (Purpose::User, &["assistant", "assistants", "agent", "agents"]),
];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListedBot {
    pub(super) name: String,
    /// Strings by which the table should recognize the bot. Empty if the list has none that can be compared.
    pub(super) texts: Vec<String>,
    pub(super) operator: Option<String>,
    pub(super) purpose: Option<Purpose>,
    pub(super) about: String,
    /// When the list added it, as `YYYY-MM-DD`.
    pub(super) added: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RobotsEntry {
    operator: Option<String>,
    function: Option<String>,
    description: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CrawlerEntry {
    pattern: String,
    url: Option<String>,
    instances: Vec<String>,
    tags: Vec<String>,
    addition_date: Option<String>,
}

#[derive(Deserialize)]
struct TableEntry {
    bot: String,
    operator: Option<String>,
    purpose: Option<Purpose>,
    #[serde(default)]
    documentation: String,
    #[serde(default)]
    patterns: Vec<String>,
}

/// Returns a list's bots, sorted by name. Without `all`, counts only AI agents in lists that tag their entries.
pub(super) fn parse(text: &str, all: bool) -> Result<Vec<ListedBot>, String> {
    let list: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let mut bots: Vec<ListedBot> = match list {
        Value::Array(entries) => {
            entries.into_iter().filter_map(read).filter_map(|entry| from_crawler_entry(entry, all)).collect()
        }
        Value::Object(members) => match members.get("bots") {
            Some(Value::Array(entries)) => entries.iter().cloned().filter_map(read).map(from_table_entry).collect(),
            _ => members.into_iter().filter_map(|(name, entry)| Some(from_robots_entry(name, read(entry)?))).collect(),
        },
        _ => Vec::new(),
    };
    bots.retain(|bot| !bot.name.trim().is_empty());
    if bots.is_empty() {
        return Err("no bots; use the robots.json of ai.robots.txt, crawler-user-agents.json or a bot table".to_owned());
    }
    bots.sort_by_key(|bot| bot.name.to_ascii_lowercase());
    Ok(bots)
}

fn read<T: for<'de> Deserialize<'de>>(entry: Value) -> Option<T> {
    if entry.is_object() { serde_json::from_value(entry).ok() } else { None }
}

fn from_robots_entry(name: String, entry: RobotsEntry) -> ListedBot {
    ListedBot {
        texts: vec![name.clone()],
        name,
        operator: entry.operator.as_deref().and_then(operator),
        purpose: entry.function.as_deref().and_then(purpose),
        about: entry.function.or(entry.description).unwrap_or_default(),
        added: None,
    }
}

fn from_crawler_entry(entry: CrawlerEntry, all: bool) -> Option<ListedBot> {
    if !all && !entry.tags.iter().any(|tag| tag == AI_TAG) {
        return None;
    }
    let name = literal(&entry.pattern);
    let texts = if entry.instances.is_empty() { name.clone().into_iter().collect() } else { entry.instances };
    Some(ListedBot {
        name: name.unwrap_or(entry.pattern),
        texts,
        operator: None,
        purpose: None,
        about: entry.url.unwrap_or_default(),
        added: entry.addition_date.map(|day| day.replace('/', "-")),
    })
}

fn from_table_entry(entry: TableEntry) -> ListedBot {
    ListedBot {
        name: entry.bot,
        texts: entry.patterns,
        operator: entry.operator,
        purpose: entry.purpose,
        about: entry.documentation,
        added: None,
    }
}

/// Returns a regular expression's text if it has no special characters.
fn literal(pattern: &str) -> Option<String> {
    let text = pattern.trim_start_matches('^').replace("\\/", "/").replace("\\.", ".").replace("\\-", "-");
    let text = text.trim_end_matches('/');
    (!text.is_empty() && !text.contains(SYNTAX)).then(|| text.to_owned())
}

/// Returns `Example` for `[Example](https://example.com)` and for `Example, a company in …`.
fn operator(text: &str) -> Option<String> {
    let text = text.trim();
    let name = text.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or(text, |(name, _)| name);
    let descriptions = [" that ", " to ", " (", ", a ", ", used "];
    let name = descriptions.iter().fold(name, |name, start| name.split_once(start).map_or(name, |(name, _)| name));
    let is_unknown =
        name.is_empty() || ["unclear", "unknown", "http"].iter().any(|word| name.to_ascii_lowercase().starts_with(word));
    (!is_unknown).then(|| name.to_owned())
}

/// Returns `None` if the words indicate no purpose, or more than one.
fn purpose(function: &str) -> Option<Purpose> {
    let function = function.to_ascii_lowercase();
    let words: Vec<&str> = function.split(|letter: char| !letter.is_alphanumeric()).collect();
    let mut named = FUNCTIONS.iter().filter(|(_, names)| names.iter().any(|name| words.contains(name)));
    let (purpose, _) = named.next()?;
    named.next().is_none().then_some(*purpose)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, all: bool) -> Vec<String> {
        parse(text, all).unwrap().into_iter().map(|bot| bot.name).collect()
    }

    #[test]
    fn reads_operators_and_purposes_from_robots_json() {
        let list = r#"{"Zed/2.0": {"operator": "[Zed](https://zed.example)", "function": "AI Search Crawlers", "new": [1]},
            "alpha": {"operator": "Unclear at this time.", "function": "Search and training"}, "text": "no entry",
            "beta": {"operator": "Unknown", "function": "Research for users"},
            "gamma": {"operator": "Gamma, used for answers"}, "delta": {"operator": "https://delta.example"}}"#;
        let bots = parse(list, false).unwrap();
        assert_eq!(names(list, false), ["alpha", "beta", "delta", "gamma", "Zed/2.0"]);
        let found: Vec<_> = bots.iter().map(|bot| (bot.operator.as_deref(), bot.purpose)).collect();
        let expected = [(None, None), (None, None), (None, None), (Some("Gamma"), None), (Some("Zed"), Some(Purpose::Search))];
        assert_eq!(found, expected);
        assert_eq!(bots[4].texts, ["Zed/2.0"]);
    }

    #[test]
    fn compares_crawler_lists_by_instance() {
        let list = r#"[{"pattern": "Own\\/Bot\\/", "tags": ["ai-crawler"], "addition_date": "2026/01/02"},
            {"pattern": "[oO]wn", "instances": ["own/1"], "tags": ["ai-crawler"]},
            {"pattern": "(a|b)+", "tags": ["ai-crawler"]}, {"pattern": "Other", "tags": ["seo"]}]"#;
        assert_eq!(names(list, false), ["(a|b)+", "[oO]wn", "Own/Bot"]);
        assert_eq!(names(list, true).len(), 4);
        let bots = parse(list, false).unwrap();
        assert_eq!((&bots[0].texts, &bots[1].texts, &bots[2].texts), (&vec![], &vec!["own/1".into()], &vec!["Own/Bot".into()]));
        assert_eq!(bots[2].added.as_deref(), Some("2026-01-02"));
    }

    #[test]
    fn rejects_other_files() {
        for other in ["", "{", "{}", "[]", "1", "[1]", r#"{"a": 1}"#, r#"{"bots": []}"#, r#"{"": {}}"#] {
            assert!(parse(other, true).is_err(), "{other}");
        }
    }
}
