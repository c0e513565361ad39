//! The bundled table against user agents whose senders are known.

use super::*;
use std::collections::BTreeMap;

/// Group, bot (`-`: none) and user agent, one a line.
const USER_AGENTS: &str = include_str!("user_agents.tsv");

fn labelled() -> impl Iterator<Item = (&'static str, Option<&'static str>, &'static str)> {
    USER_AGENTS.lines().map(|line| {
        let mut fields = line.splitn(3, '\t');
        let mut next = || fields.next().unwrap();
        let (group, bot, user_agent) = (next(), next(), next());
        (group, Some(bot).filter(|bot| *bot != "-"), user_agent)
    })
}

#[test]
fn d5_precision_and_recall_on_a_labelled_corpus_are_at_least_99_of_100() {
    let table = BotTable::bundled();
    let (mut right, mut wrong, mut missed) = (0_u32, 0_u32, 0_u32);
    let mut groups: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for (group, bot, user_agent) in labelled() {
        let found = table.classify(user_agent, None, None);
        let found = found.as_ref().map(|classified| classified.bot.as_ref());
        let counted = groups.entry(group).or_default();
        counted.0 += 1;
        counted.1 += u32::from(found == bot);
        match (found, bot) {
            (None, None) => {}
            (Some(found), Some(bot)) if found == bot => right += 1,
            (found, bot) => {
                println!("{group}: {user_agent:?} is {bot:?}, found {found:?}");
                wrong += u32::from(found.is_some());
                missed += u32::from(bot.is_some());
            }
        }
    }
    let of = |part: u32, rest: u32| f64::from(part) / f64::from(part + rest);
    let (precision, recall) = (of(right, wrong), of(right, missed));
    println!("{} user agents, {right} right: precision {precision:.4}, recall {recall:.4}", labelled().count());
    groups.iter().for_each(|(group, (all, right))| println!("{group}: {right} of {all}"));
    assert!(labelled().count() >= 300 && groups.len() == 6, "every kind of sender is in the corpus");
    assert!(precision >= 0.99 && recall >= 0.99);
}

#[test]
fn every_bot_of_the_table_is_in_the_corpus() {
    let in_corpus: Vec<&str> = labelled().filter_map(|(_, bot, _)| bot).collect();
    let table = BotTable::bundled();
    let missing: Vec<&str> = table.bots.iter().map(|bot| bot.name.as_ref()).filter(|bot| !in_corpus.contains(bot)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn an_address_of_the_operator_verifies_and_another_does_not() {
    let table = BotTable::bundled();
    let verified = |user_agent: &str, address: &str| table.classify(user_agent, None, address.parse().ok()).unwrap().verified;
    assert_eq!(verified("GPTBot/1.2", "132.196.86.7"), Some(true));
    assert_eq!(verified("GPTBot/1.2", "::ffff:132.196.86.7"), Some(true), "an IPv4 address in IPv6 is the same");
    assert_eq!(verified("GPTBot/1.2", "203.0.113.7"), Some(false));
    assert_eq!(verified("CCBot/2.0", "2600:1f28:365:8000::1"), Some(true));
    assert_eq!(verified("Perplexity-User/1.0", "18.97.43.87"), Some(true));
    assert_eq!(verified("Perplexity-User/1.0", "18.97.1.228"), Some(false), "PerplexityBot asks from there");
    assert_eq!(verified("GPTBot/1.2", "no address"), None, "nothing to check");
    assert_eq!(verified("Bytespider", "132.196.86.7"), None, "nothing is published");
}

#[test]
fn an_address_outside_of_a_list_that_changes_proves_nothing() {
    let table = BotTable::bundled();
    let verified = |user_agent: &str, address: &str| table.classify(user_agent, None, address.parse().ok()).unwrap().verified;
    for (user_agent, address) in [
        ("ChatGPT-User/1.0", "104.208.184.199"),
        ("Googlebot/2.1", "66.249.64.1"),
        ("GoogleOther", "2001:4860:4801:10::1"),
        ("Google-Agent", "136.122.0.10"),
        ("DuckDuckBot/1.1", "20.191.45.212"),
    ] {
        assert_eq!(verified(user_agent, address), Some(true), "{user_agent}");
        assert_eq!(verified(user_agent, "203.0.113.7"), None, "{user_agent}");
    }
    let own = |changes: &str| {
        let list = format!(r#"{{"source":"s","as_of":"2026-01-01",{changes}"networks":["192.0.2.0/24"]}}"#);
        let bot =
            r#"{"bot":"OwnBot","operator":"o","purpose":"search","documentation":"","patterns":["OwnBot"],"addresses":"own"}"#;
        let table = BotTable::parse(&format!(r#"{{"version":"1","addresses":{{"own":{list}}},"bots":[{bot}]}}"#)).unwrap();
        table.classify("OwnBot", None, "203.0.113.7".parse().ok()).unwrap().verified
    };
    assert_eq!((own(r#""changes":true,"#), own(r#""changes":false,"#), own("")), (None, Some(false), Some(false)));
}

#[test]
fn every_list_of_addresses_says_where_it_is_from_and_of_when_and_is_of_a_bot() {
    let table: serde_json::Value = serde_json::from_str(BUNDLED).unwrap();
    let used: Vec<_> = table["bots"].as_array().unwrap().iter().filter_map(|bot| bot["addresses"].as_str()).collect();
    for (name, list) in table["addresses"].as_object().unwrap() {
        assert!(list["source"].as_str().unwrap().starts_with("https://"), "{name}");
        let as_of: chrono::NaiveDate = list["as_of"].as_str().unwrap().parse().unwrap();
        assert!(as_of.to_string().as_str() <= table["version"].as_str().unwrap(), "{name}: newer than the table");
        assert!(used.contains(&name.as_str()), "{name} is of no bot");
    }
}

#[test]
fn the_verdict_of_a_cdn_names_what_the_table_does_not_know() {
    let table = BotTable::bundled();
    let unknown = table.classify("NewAssistant/1.0", Some("AI Assistant"), None).unwrap();
    assert_eq!((unknown.bot.as_ref(), unknown.operator.as_ref(), unknown.purpose), (OTHER, OTHER, Purpose::User));
    assert_eq!(unknown.verified, None);
    let known = table.classify("GPTBot/1.2", Some("AI Assistant"), None).unwrap();
    assert_eq!((known.bot.as_ref(), known.purpose), ("GPTBot", Purpose::Training), "the table comes first");
    for nobodys in ["Monitoring & Analytics", "Search Engine Optimization", "", "ai"] {
        assert_eq!(table.classify("NewAssistant/1.0", Some(nobodys), None), None, "{nobodys}");
    }
}

#[test]
fn of_several_names_the_longest_counts_wherever_it_stands() {
    let table = BotTable::bundled();
    for user_agent in ["CCBot/2.0 (like cohere-training-data-crawler)", "cohere-training-data-crawler CCBot/2.0"] {
        assert_eq!(table.classify(user_agent, None, None).unwrap().bot.as_ref(), "cohere-training-data-crawler");
    }
}

#[test]
fn a_long_user_agent_costs_no_more_than_its_bytes() {
    let table = BotTable::bundled();
    let endless = "GPTBotClaude-User-".repeat(50_000);
    assert_eq!(table.classify(&endless, None, None), None);
}

#[test]
fn a_file_that_is_no_table_is_refused() {
    let table = |bots: &str| BotTable::parse(&format!(r#"{{"version":"1","bots":[{bots}]}}"#));
    let bot = |name: &str, more: &str| {
        format!(r#"{{"bot":"{name}","operator":"o","purpose":"search","documentation":"","patterns":["{name}"]{more}}}"#)
    };
    assert!(table(&bot("OwnBot", "")).unwrap().classify("ownbot/1", None, None).is_some());
    for bad in [
        bot("Bot", ""),
        bot("OwnBot", r#","addresses":"nobodys""#),
        bot("OwnBot", r#","colour":"red""#),
        bot("OwnBot", "").replace("search", "spam"),
        bot("OwnBot", "").replace(r#"["OwnBot"]"#, "[]"),
        format!("{},{}", bot("OwnBot", ""), bot("ownbot", "")),
    ] {
        assert!(table(&bad).is_err(), "{bad}");
    }
    assert!(BotTable::parse("{}").is_err() && BotTable::parse(r#"{"version":"","bots":[]}"#).is_err());
}
