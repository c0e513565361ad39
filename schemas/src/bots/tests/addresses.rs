//! Tests the verification of addresses.

use super::super::*;

fn verified(user_agent: &str, address: &str) -> Option<bool> {
    let sender = Sender { user_agent, address: address.parse().ok(), ..Sender::default() };
    BotTable::bundled().classify(&sender).unwrap().verified
}

#[test]
fn compares_addresses_with_the_operators_list() {
    assert_eq!(verified("GPTBot/1.2", "132.196.86.7"), Some(true));
    assert_eq!(verified("GPTBot/1.2", "::ffff:132.196.86.7"), Some(true), "an IPv4 address in IPv6 is the same");
    assert_eq!(verified("GPTBot/1.2", "203.0.113.7"), Some(false));
    assert_eq!(verified("GPTBot/1.2", "2001:db8::7"), Some(false));
    assert_eq!(verified("CCBot/2.0", "2600:1f28:365:8000::1"), Some(true));
    assert_eq!(verified("Perplexity-User/1.0", "18.97.43.87"), Some(true));
    assert_eq!(verified("Perplexity-User/1.0", "18.97.1.228"), Some(false), "PerplexityBot's address");
    assert_eq!(verified("GPTBot/1.2", "no address"), None);
    assert_eq!(verified("Bytespider", "132.196.86.7"), None, "no list is published");
    assert_eq!(
        verified("Claude-User (claude-code/2.1.83; +https://support.anthropic.com/)", "203.0.113.7"),
        None,
        "a user's computer"
    );
}

#[test]
fn private_addresses_do_not_verify() {
    let private = ["172.18.0.1", "10.0.0.5", "192.168.1.1", "127.0.0.1", "169.254.1.1", "100.64.0.9", "100.127.255.255"];
    let special = ["0.0.0.0", "224.0.0.1", "255.255.255.255", "::", "::1", "fd00::1", "fe80::1", "ff02::1", "::ffff:10.0.0.5"];
    for address in private.into_iter().chain(special) {
        assert_eq!(verified("GPTBot/1.2", address), None, "{address}");
    }
    for address in ["100.63.255.255", "100.128.0.0", "172.32.0.1", "11.0.0.1", "203.0.113.7", "::ffff:203.0.113.7", "2a00::1"] {
        assert_eq!(verified("GPTBot/1.2", address), Some(false), "{address}");
    }
}

#[test]
fn addresses_outside_changing_lists_are_unknown() {
    for (user_agent, address) in [
        ("ChatGPT-User/1.0", "104.208.184.199"),
        ("Googlebot/2.1", "66.249.64.1"),
        ("GoogleOther", "2001:4860:4801:10::1"),
        ("Google-Agent", "136.122.0.10"),
        ("Googlebot-Image/1.0", "66.249.64.1"),
        ("GoogleOther-Video", "66.249.64.1"),
        ("Google-NotebookLM", "74.125.210.7"),
        ("DuckDuckBot/1.1", "20.191.45.212"),
        ("DuckAssistBot/1.2", "4.144.182.50"),
        ("bingbot/2.0", "157.55.39.1"),
    ] {
        assert_eq!(verified(user_agent, address), Some(true), "{user_agent}");
        assert_eq!(verified(user_agent, "203.0.113.7"), None, "{user_agent}");
    }
    let own = |changes: &str| {
        let list = format!(r#"{{"source":"https://own.example","as_of":"2026-01-01",{changes}"networks":["192.0.2.0/24"]}}"#);
        let bot =
            r#"{"bot":"OwnBot","operator":"o","purpose":"search","documentation":"","patterns":["OwnBot"],"addresses":"own"}"#;
        let table = BotTable::parse(&format!(r#"{{"version":"1","addresses":{{"own":{list}}},"bots":[{bot}]}}"#)).unwrap();
        table.classify(&Sender { user_agent: "OwnBot", address: "203.0.113.7".parse().ok(), ..Sender::default() }).unwrap()
    };
    let verified = |changes: &str| own(changes).verified;
    assert_eq!((verified(r#""changes":true,"#), verified(r#""changes":false,"#), verified("")), (None, Some(false), Some(false)));
    let list = own(r#""changes":true,"#).list.unwrap();
    assert_eq!((list.source.as_str(), list.as_of.as_str(), list.changes), ("https://own.example", "2026-01-01", true));
}

#[test]
fn every_address_list_has_a_source_date_and_bot() {
    let table: serde_json::Value = serde_json::from_str(BUNDLED).unwrap();
    let used: Vec<_> = table["bots"].as_array().unwrap().iter().filter_map(|bot| bot["addresses"].as_str()).collect();
    for (name, list) in table["addresses"].as_object().unwrap() {
        assert!(list["source"].as_str().unwrap().starts_with("https://"), "{name}");
        let as_of: chrono::NaiveDate = list["as_of"].as_str().unwrap().parse().unwrap();
        assert!(as_of.to_string().as_str() <= table["version"].as_str().unwrap(), "{name}: newer than the table");
        assert!(used.contains(&name.as_str()), "{name} belongs to no bot");
    }
}
