//! S10: random sessions at every privacy level, with planted values that must never be shown.

mod generator;

use super::*;
use generator::{Generator, SECRET, SITES};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use schemas::ids::SessionId;
use serde_json::json;
use service_kit::testing::random_seed;
use uuid::Uuid;

/// Members that each level may show, repeated here independently of the code: docs/api/click-tokens.md#members-of-a-manifest.
fn allowed(level: PrivacyLevel) -> (&'static [&'static str], &'static [&'static str]) {
    const COUNTS: &[&str] = &["query_tokens", "response_tokens", "tokens_ingested", "excerpt_tokens"];
    const WORDS: &[&str] = &[
        "query_tokens",
        "response_tokens",
        "tokens_ingested",
        "excerpt_tokens",
        "scope",
        "cached",
        "citation_type",
        "position",
        "presentation_kind",
        "presentation_type",
    ];
    match level {
        PrivacyLevel::Minimal => (&[], COUNTS),
        PrivacyLevel::Intent | PrivacyLevel::Summary | PrivacyLevel::Full => (&["turn_id", "output_id"], WORDS),
    }
}

/// Keywords of the standard that a manifest may contain, repeated independently of the code.
const STANDARD_WORDS: [&str; 18] = [
    "session",
    "turn",
    "direct_quote",
    "paraphrase",
    "reference",
    "contradiction",
    "unclassified",
    "primary",
    "supporting",
    "mentioned",
    "content",
    "source_reference",
    "link",
    "snippet",
    "inline_quote",
    "card",
    "detail_view",
    "embed",
];

fn whole(events: &[SessionEvent]) -> SessionEvents {
    SessionEvents { events: events.to_vec(), is_whole: true }
}

/// Returns whether the text contains one of the encoded ids. Independent of the tested code.
fn is_told(spelt: &[String], text: &str) -> bool {
    spelt.iter().any(|spelt| text.contains(spelt.as_str()))
}

fn check(manifest: &ClickManifest, level: PrivacyLevel, spelt: &[String], context: &str) {
    let value = serde_json::to_value(manifest).unwrap();
    let text = value.to_string();
    assert!(!text.contains(SECRET), "{context}: {text}");
    let mut strings = Vec::new();
    collect(&value, &mut strings);
    for string in strings {
        assert!(!is_told(spelt, &string), "{context}: {string}");
    }
    assert!(!is_told(spelt, &text), "{context}: {text}");
    let (beside, within) = allowed(level);
    for event in value["events"].as_array().unwrap() {
        for name in event.as_object().unwrap().keys() {
            let is_always = ["type", "timestamp", "content_url", "data"].contains(&name.as_str());
            assert!(is_always || beside.contains(&name.as_str()), "{context}: {name}");
        }
        for (name, value) in event["data"].as_object().unwrap() {
            assert!(within.contains(&name.as_str()), "{context}: {name} {value}");
            let is_of_its_kind = match name.as_str() {
                "cached" => value.is_boolean(),
                name if name.starts_with("tokens_") || name.ends_with("_tokens") => value.is_u64(),
                _ => value.as_str().is_some_and(|word| STANDARD_WORDS.contains(&word)),
            };
            assert!(is_of_its_kind, "{context}: {name} {value}");
        }
        assert!([GROUNDED, CITED, PRESENTED].contains(&event["type"].as_str().unwrap()), "{context}: unexpected event type");
        let url = event["content_url"].as_str().unwrap();
        assert!(
            ["https://www.example.com/", "https://example.org/"].iter().any(|host| url.starts_with(host)),
            "{context}: {url}"
        );
    }
    for (event_type, urls) in [
        (GROUNDED, &manifest.content_urls_grounded),
        (CITED, &manifest.content_urls_cited),
        (PRESENTED, &manifest.content_urls_presented),
    ] {
        let shown = manifest.events.iter().filter(|event| event.event_type == event_type);
        let shown: BTreeSet<&String> = shown.map(|event| &event.content_url).collect();
        assert_eq!(shown, urls.iter().collect(), "{context}: URL lists contain the URLs of the shown events");
        assert_eq!(shown.len(), urls.len(), "{context}: no duplicate URLs");
    }
}

fn collect(value: &Value, strings: &mut Vec<String>) {
    match value {
        Value::String(text) => strings.push(text.clone()),
        Value::Array(list) => list.iter().for_each(|value| collect(value, strings)),
        Value::Object(members) => members.iter().for_each(|(name, value)| {
            strings.push(name.clone());
            collect(value, strings);
        }),
        _ => {}
    }
}

#[test]
fn s10_ct6_ct7_ct8_ct9_shows_only_listed_members() {
    let mut seeds = StdRng::seed_from_u64(random_seed());
    let consents = Consents::to(&SITES[..2]);
    let mut shown = [0_usize; 4];
    for number in 0..10_000 {
        let mut generator = Generator::new(StdRng::seed_from_u64(seeds.random()));
        let events: Vec<SessionEvent> = (0..generator.random.random_range(0..6)).map(|_| generator.event()).collect();
        for (index, level) in PrivacyLevel::ALL.into_iter().enumerate() {
            let clicked = generator.clicked(Some(level));
            let manifest = manifest(&clicked, &whole(&events), &consents);
            check(&manifest, level, &generator.spelt, &format!("session {number} at {}", level.as_str()));
            shown[index] += manifest.events.iter().map(|event| event.data.len() + 1).sum::<usize>();
        }
    }
    assert!(shown[0] > 1_000 && shown.is_sorted() && shown[0] < shown[1], "less strict levels show more: {shown:?}");
}

fn cited(data: &Value) -> SessionEvent {
    SessionEvent {
        key: 1,
        event_type: CITED.to_owned(),
        at_ms: 1_767_225_600_000,
        site: SITES[0].to_owned(),
        content_url: "https://www.example.com/a".to_owned(),
        turn_id: "t1".to_owned(),
        output_id: "o1".to_owned(),
        data: data.to_string(),
        ..SessionEvent::default()
    }
}

#[test]
fn shows_events_for_two_hosts_once() {
    let of = |key, site: &str, url: &str| {
        let (site, content_url) = (site.to_owned(), url.to_owned());
        SessionEvent { key, site, content_url, ..cited(&json!({})) }
    };
    let events = [
        of(1, SITES[2], "https://hidden.example/"),
        of(1, SITES[0], "https://www.example.com/a"),
        of(1, SITES[1], "https://example.org/b"),
        of(2, SITES[1], "https://example.org/c"),
        of(2, SITES[1], "https://example.org/c"),
    ];
    let clicked = Generator::new(StdRng::seed_from_u64(1)).clicked(Some(PrivacyLevel::Full));
    let manifest = manifest(&clicked, &whole(&events), &Consents::to(&SITES[..2]));
    let expected = ["https://www.example.com/a", "https://example.org/c"];
    assert_eq!(manifest.events.iter().map(|event| event.content_url.as_str()).collect::<Vec<_>>(), expected);
    assert_eq!(manifest.content_urls_cited, expected);
}

fn turn(level: Option<&str>) -> SessionEvent {
    let extra = json!({"turn": level.map_or(json!({}), |level| json!({"privacy_level": level}))});
    SessionEvent { event_type: "turn_started".to_owned(), extra: extra.to_string(), ..SessionEvent::default() }
}

#[test]
fn each_level_shows_its_members() {
    let data = json!({"citation_type": "paraphrase", "position": "supporting", "excerpt_tokens": 12, "cached": true, "scope": "turn",
        "query_text": SECRET, "excerpt_chars": 80});
    let session = SessionId(Uuid::from_u128(7));
    let words =
        json!({"citation_type": "paraphrase", "position": "supporting", "excerpt_tokens": 12, "cached": true, "scope": "turn"});
    for (level, reference, expected) in [
        (PrivacyLevel::Full, Some("t1"), words.clone()),
        (PrivacyLevel::Summary, Some("t1"), words.clone()),
        (PrivacyLevel::Intent, Some("t1"), words),
        (PrivacyLevel::Minimal, None, json!({"excerpt_tokens": 12})),
    ] {
        let mut generator = Generator::new(StdRng::seed_from_u64(1));
        generator.session = session;
        let manifest = manifest(&generator.clicked(Some(level)), &whole(&[cited(&data)]), &Consents::to(&SITES[..1]));
        let event = &manifest.events[0];
        assert_eq!(event.turn_id.as_deref(), reference, "{level:?}");
        assert_eq!(event.output_id.is_some(), reference.is_some(), "{level:?}");
        assert_eq!(Value::from(event.data.clone()), expected, "{level:?}: CT12: positions are unchanged");
        assert_eq!(manifest.content_urls_cited, ["https://www.example.com/a"]);
    }
}

#[test]
fn uses_the_strictest_turn_without_a_session_level() {
    use PrivacyLevel::{Full, Intent, Minimal, Summary};
    let turns = |levels: &[Option<&str>]| levels.iter().map(|level| turn(*level)).collect::<Vec<_>>();
    for (declared, said, expected) in [
        (None, vec![], Minimal),
        (None, vec![Some("full")], Full),
        (None, vec![Some("full"), Some("intent"), Some("summary")], Intent),
        (None, vec![Some("full"), None], Minimal),
        (None, vec![Some("full"), Some("loud")], Minimal),
        (Some(Summary), vec![Some("full")], Summary),
        (Some(Summary), vec![], Summary),
        (Some(Full), vec![Some("full")], Full),
    ] {
        assert_eq!(level_of(declared, &whole(&turns(&said))), expected, "{declared:?} {said:?}");
    }
    let posing = SessionEvent { extra: turn(Some("full")).extra, ..cited(&json!({})) };
    assert_eq!(level_of(None, &whole(&[posing])), Minimal, "only turns have a level");
    let part = SessionEvents { is_whole: false, ..whole(&turns(&[Some("full")])) };
    assert_eq!(level_of(None, &part), Minimal, "turns that were not read may be stricter");
    assert_eq!(level_of(Some(Summary), &part), Summary);
}

#[test]
fn hides_events_before_the_owners_verification() {
    let consents = Consents::from_times(&[("com.example", Some(1_000))]);
    assert!(!consents.cover("com.example", 999) && consents.cover("com.example", 1_000));
    assert!(!consents.cover("com.example.www", 1_000), "consent doesn't extend to subdomains");
}

#[test]
fn data_contains_only_keywords_flags_and_counts() {
    let clicked = Generator::new(StdRng::seed_from_u64(1)).clicked(Some(PrivacyLevel::Full));
    let id = clicked.scope.session().to_string();
    let half = u64::from_str_radix(&clicked.scope.session().0.simple().to_string()[..16], 16).unwrap();
    let free = json!({"scope": id, "cached": id, "citation_type": id.replace('-', "_"), "position": "prim4ry", "presentation_kind": "Content",
        "presentation_type": "my_widget", "query_tokens": half | 1 << 60, "response_tokens": -1, "tokens_ingested": 1.5, "excerpt_tokens": id});
    let shown = manifest(&clicked, &whole(&[cited(&free)]), &Consents::to(&SITES[..1]));
    assert_eq!(Value::from(shown.events[0].data.clone()), json!({}));
    let told = json!({"scope": "turn", "cached": false, "query_tokens": 100_000_000});
    let shown = manifest(&clicked, &whole(&[cited(&told)]), &Consents::to(&SITES[..1]));
    assert_eq!(Value::from(shown.events[0].data.clone()), told);
}

#[test]
fn manifests_never_contain_the_session_id() {
    for level in PrivacyLevel::ALL {
        let mut generator = Generator::new(StdRng::seed_from_u64(9));
        let clicked = generator.clicked(Some(level));
        let (spelt, consents) = (generator.spelt, Consents::to(&SITES[..1]));
        let event = |turn_id: &str, output_id: &str, url: &str| SessionEvent {
            turn_id: turn_id.to_owned(),
            output_id: output_id.to_owned(),
            content_url: url.to_owned(),
            ..cited(&json!({}))
        };
        let url = "https://www.example.com/a";
        let mut events: Vec<SessionEvent> = spelt.iter().map(|spelt| event(spelt, &format!("o-{spelt}"), url)).collect();
        events.extend(spelt.iter().map(|spelt| event("t", "o", &format!("{url}?x={spelt}"))));
        for (key, event) in (0..).zip(&mut events) {
            event.key = key;
        }
        let shown = manifest(&clicked, &whole(&events), &consents);
        assert_eq!(shown.events.len(), spelt.len(), "an event is hidden if its URL is");
        assert!(shown.events.iter().all(|event| event.turn_id.is_none() && event.output_id.is_none()), "{level:?}");
    }
}
