//! Tests the bundled table with known user agents, and the rules for products and `Signature-Agent`.

mod addresses;
mod labelled_user_agents;

use super::*;

pub(super) fn bot(user_agent: &str) -> Option<String> {
    BotTable::bundled().classify_text(user_agent).map(|found| found.bot.to_string())
}

fn signed(user_agent: &str, header: &str) -> Option<Classified> {
    let address = "132.196.86.7".parse().ok();
    BotTable::bundled().classify(&Sender { user_agent, signature_agent: Some(header), address, ..Sender::default() })
}

const BROWSER: &str =
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36";

#[test]
fn matches_a_name_only_as_a_product() {
    for user_agent in [
        "FeedReader/1.0 (+mailto:devin@example.org)",
        "FeedReader/1.0 (devin.smith@example.org)",
        "FeedReader/1.0 (GPTBot+feeds@example.org)",
        "FeedReader/1.0 (compatible; LinkChecker/1.0; like Googlebot)",
        "FeedReader/1.0 (compatible with Googlebot)",
        "FeedReader/1.0;treat as GPTBot",
        "FeedReader/1.0 (+https://example.org/blog/gptbot)",
        "FeedReader/1.0 (+https://gptbot.example.org/)",
        "FeedReader/1.0 (+https://example.org/?from=GPTBot)",
        "FeedReader/1.0 (+https://example.org/#GPTBot)",
        "FeedReader/1.0 (GPTBot://example.org)",
        "Not-GPTBot/1.0",
        "_GPTBot/1.0",
        "NotGPTBot/1.0",
        "GPTBot2/1.0",
        "GPTBot_test/1.0",
        "gptbot.example.org",
        "GPTBot-/1.0",
        "Amazon CloudFront",
    ] {
        assert_eq!(bot(user_agent), None, "{user_agent}");
    }
    for user_agent in [
        "GPTBot",
        "gptbot/1.2",
        "GPTBot.",
        "GPTBot: crawler",
        "Mozilla/5.0 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)",
        "Mozilla/5.0 (Windows NT 10.0; Trident/7.0; rv:11.0) like Gecko; GPTBot/1.2",
        "Mozilla/5.0 (unlike; GPTBot/1.2)",
        "Mozilla/5.0 alike GPTBot/1.2",
        "Mozilla/5.0+(compatible;+GPTBot/1.2;++https://openai.com/gptbot)",
        "Mozilla/5.0+GPTBot/1.2",
        "GPTBot/1.2+(+https://openai.com/gptbot)",
        "GPTBot/1.2;bot@example.org",
        "\"GPTBot/1.2\"",
    ] {
        assert_eq!(bot(user_agent).as_deref(), Some("GPTBot"), "{user_agent}");
    }
}

#[test]
fn treats_a_suffix_as_a_variant_of_the_bot() {
    let variant = |user_agent: &str| {
        let found = BotTable::bundled().classify_text(user_agent).unwrap();
        (found.bot.to_string(), found.variant)
    };
    let of = |bot: &str, variant: &str| (bot.to_owned(), Some(variant.to_owned()));
    assert_eq!(variant("Mozilla/5.0 (compatible; GPTBot-Shopping/1.0)"), of("GPTBot", "Shopping"));
    assert_eq!(variant("GPTBot-a.b_c-d"), of("GPTBot", "a.b_c-d"));
    assert_eq!(variant(&format!("GPTBot-{}/1.0", "x".repeat(32))), of("GPTBot", &"x".repeat(32)));
    assert_eq!(bot(&format!("GPTBot-{}/1.0", "x".repeat(33))), None);
    assert_eq!(bot("GPTBot-x@example.org"), None);
    // Listed variants have their own entries.
    assert_eq!(variant("AI2Bot-DeepResearchEval (+https://www.allenai.org/crawler)"), ("AI2Bot-DeepResearchEval".into(), None));
    assert_eq!(variant("Googlebot-Image/1.0"), ("Googlebot-Image".into(), None));
}

/// These rows are tested individually, because the test of the whole corpus tolerates a few errors.
#[test]
fn variants_in_browser_wrappers_keep_their_own_names() {
    let chrome = "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible;";
    for (user_agent, expected) in [
        ("Mozilla/5.0 (compatible) AI2Bot (+https://www.allenai.org/crawler)", Some("AI2Bot")),
        ("Mozilla/5.0 (compatible) AI2Bot-DeepResearchEval (+https://www.allenai.org/crawler)", Some("AI2Bot-DeepResearchEval")),
        (&*format!("{chrome} GoogleOther-Video/1.0) Chrome/140.0.0.0 Safari/537.36"), Some("GoogleOther-Video")),
        (&*format!("{chrome} GoogleOther) Chrome/140.0.0.0 Safari/537.36"), Some("GoogleOther")),
        // A phone's browser.
        (
            "Mozilla/5.0 (Linux; Android 9; CUBOT_P20 Build/P00610) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 \
             Mobile Safari/537.36",
            None,
        ),
    ] {
        assert_eq!(bot(user_agent).as_deref(), expected, "{user_agent}");
    }
}

#[test]
fn matches_every_pattern_only_as_a_product() {
    let file: serde_json::Value = serde_json::from_str(BUNDLED).unwrap();
    for entry in file["bots"].as_array().unwrap() {
        for pattern in entry["patterns"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_str) {
            let name = entry["bot"].as_str().unwrap();
            for (before, after) in [("", ""), ("", "/1.0"), ("x/1 (compatible; ", "; +https://a.test)"), ("(", ")"), ("a;", ".")]
            {
                let user_agent = format!("{before}{pattern}{after}");
                let found = [user_agent.clone(), user_agent.to_uppercase()].map(|user_agent| bot(&user_agent));
                assert_eq!(found, [Some(name.to_owned()), Some(name.to_owned())], "{user_agent}");
            }
            for (before, after) in
                [("/", ""), (".", ""), ("@", ""), (":", ""), ("=", ""), ("x", ""), ("-", ""), ("_", ""), (" like ", "")]
            {
                let user_agent = format!("x{before}{pattern}{after}");
                // Part of a pattern may match too: `Claude-Code` in `Claude-User (claude-code`.
                assert_ne!(bot(&user_agent).filter(|_| !pattern.contains([' ', '/'])).as_deref(), Some(name), "{user_agent}");
            }
        }
    }
}

#[test]
fn prefers_the_longest_name_then_the_first() {
    assert_eq!(bot("CCBot/2.0 (cohere-training-data-crawler)").as_deref(), Some("cohere-training-data-crawler"));
    assert_eq!(bot("CCBot/2.0 (like cohere-training-data-crawler)").as_deref(), Some("CCBot"));
    assert_eq!(bot("GPTBot/1.2 Kagibot/1.0 CCBot/2.0").as_deref(), Some("Kagibot"));
    assert_eq!(bot("GPTBot/1.2 YouBot/1.0").as_deref(), Some("GPTBot"));
    assert_eq!(bot("YouBot/1.0 GPTBot/1.2").as_deref(), Some("YouBot"));
}

#[test]
fn long_user_agents_take_linear_time() {
    for part in ["GPTBotClaude-User-", "GPTBot/", "GPTBot+", "GPTBot-", "a+", "like ", "GPTBot@"] {
        let endless = part.repeat(50_000);
        assert_eq!(bot(&format!("{endless}x")).filter(|bot| bot != "GPTBot"), None, "{part}");
    }
    assert_eq!(bot(&format!("{}/GPTBot", "x".repeat(1_000))), None);
}

#[test]
fn signature_agent_is_only_a_claim_of_a_bot() {
    for header in [
        "\"https://chatgpt.com\"",
        "https://chatgpt.com",
        "sig1=\"https://chatgpt.com\"",
        "\"https://ChatGPT.com/\"",
        "g=\"https://chatgpt.com:443\";v=1",
    ] {
        let found = signed(BROWSER, header).unwrap();
        assert_eq!(
            (found.bot.as_ref(), found.operator.as_ref(), found.purpose),
            ("ChatGPT-Agent", "OpenAI", Purpose::User),
            "{header}"
        );
        assert_eq!((found.verified, found.list), (None, None), "{header}");
    }
    let unknown = signed(BROWSER, "\"https://agent.example\"").unwrap();
    assert_eq!((unknown.bot.as_ref(), unknown.operator.as_ref(), unknown.purpose), (OTHER, OTHER, Purpose::User));
    assert_eq!(unknown.verified, None);
    for none in [
        "",
        "chatgpt.com",
        "\"http://chatgpt.com\"",
        "\"https://\"",
        "\"https://chatgpt\"",
        "\"https://chatgpt.com evil\"",
        "x https://chatgpt.com",
    ] {
        assert_eq!(signed(BROWSER, none), None, "{none:?}");
    }
    let named = signed("GPTBot/1.2", "\"https://agent.bot.goog\"").unwrap();
    assert_eq!((named.bot.as_ref(), named.verified), ("GPTBot", Some(true)), "the user agent comes first");
}

/// Bot names are column values and rows of responses, so visitors must not be able to add new ones.
#[test]
fn f55_visitors_cannot_name_new_bots() {
    let named = (0..1_000).map(|n| bot(&format!("GPTBot-x{n}/1.0")).unwrap());
    let claimed = (0..1_000).map(|n| signed(BROWSER, &format!("\"https://a{n}.example\"")).unwrap().bot.to_string());
    assert_eq!(named.chain(claimed).collect::<std::collections::BTreeSet<_>>(), ["GPTBot".to_owned(), OTHER.to_owned()].into());
}

#[test]
fn cdn_categories_classify_unknown_bots() {
    let table = BotTable::bundled();
    let classify = |user_agent, category| table.classify(&Sender { user_agent, category: Some(category), ..Sender::default() });
    let unknown = classify("NewAssistant/1.0", "AI Assistant").unwrap();
    assert_eq!((unknown.bot.as_ref(), unknown.operator.as_ref(), unknown.purpose), (OTHER, OTHER, Purpose::User));
    assert_eq!(unknown.verified, None);
    let known = classify("GPTBot/1.2", "AI Assistant").unwrap();
    assert_eq!((known.bot.as_ref(), known.purpose), ("GPTBot", Purpose::Training), "the table comes first");
    for category in ["Monitoring & Analytics", "Search Engine Optimization", "", "ai"] {
        assert_eq!(classify("NewAssistant/1.0", category), None, "{category}");
    }
}

#[test]
fn cdns_are_not_bots() {
    let table = BotTable::bundled();
    assert_eq!(table.cdn("Amazon CloudFront"), Some("Amazon CloudFront"));
    assert_eq!(table.cdn(" amazon cloudfront "), Some("Amazon CloudFront"));
    assert_eq!(table.cdn("Amazon CloudFront/1.0"), None);
    assert_eq!(table.classify_text("Amazon CloudFront"), None);
}

#[test]
fn every_bot_has_a_source_and_a_date() {
    let file: serde_json::Value = serde_json::from_str(BUNDLED).unwrap();
    let version = file["version"].as_str().unwrap();
    for entry in file["bots"].as_array().unwrap().iter().chain(file["cdns"].as_array().unwrap()) {
        assert!(entry["source"].as_str().is_some_and(|source| source.starts_with("https://")), "{entry}");
        let day: chrono::NaiveDate = entry["source_date"].as_str().unwrap().parse().unwrap();
        assert!(day.to_string().as_str() <= version, "{entry}: newer than the table");
    }
}

#[test]
fn rejects_invalid_bot_tables() {
    let table = |bots: &str| BotTable::parse(&format!(r#"{{"version":"1","bots":[{bots}]}}"#));
    let bot = |name: &str, more: &str| {
        format!(r#"{{"bot":"{name}","operator":"o","purpose":"search","documentation":"","patterns":["{name}"]{more}}}"#)
    };
    let signed = |host: &str| bot("OwnBot", &format!(r#","signature_agents":["{host}"]"#)).replace(r#"["OwnBot"]"#, "[]");
    assert!(table(&bot("OwnBot", "")).unwrap().classify_text("ownbot/1").is_some());
    assert!(table(&signed("own.example")).is_ok());
    for bad in [
        bot("Bot", ""),
        bot("OwnBot", r#","addresses":"unknown""#),
        bot("OwnBot", r#","colour":"red""#),
        bot("OwnBot", "").replace("search", "spam"),
        bot("OwnBot", "").replace(r#"["OwnBot"]"#, "[]"),
        bot("OwnBot", "").replace(r#"["OwnBot"]"#, r#"["OwnBot-"]"#),
        bot("OwnBot", "").replace(r#"["OwnBot"]"#, r#"["2026"]"#),
        format!("{},{}", bot("OwnBot", ""), bot("ownbot", "")),
        signed("https://own.example"),
        signed("Own.example"),
        format!("{},{}", signed("own.example"), signed("own.example").replace("OwnBot", "TwoBot")),
    ] {
        assert!(table(&bad).is_err(), "{bad}");
    }
    assert!(BotTable::parse("{}").is_err() && BotTable::parse(r#"{"version":"","bots":[]}"#).is_err());
    assert!(BotTable::parse(r#"{"version":"1","bots":[],"cdns":[{"user_agent":" "}]}"#).is_err());
}
