//! E2: an owner's events, exported as documents and reported to an empty service with one key per observer, give the same figures.

use crate::pipeline::Pipeline;
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use schemas::identity::OrgType;
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::testing::send_request;
use service_kit::testing::{Seed, SeededOrg, client, random_seed, size};
use std::collections::BTreeMap;

const BOTS: [&str; 3] = ["Mozilla/5.0 (compatible; GPTBot/1.2)", "PerplexityBot/1.0", "Mozilla/5.0 Firefox/141.0"];
const PAGES: [&str; 5] = ["/a", "/a/", "/a?utm_source=x", "/b?x=2&y=1", "/b?y=1&x=2"];
const ROLES: [&str; 3] = ["origin", "edge", "index"];

/// The organizations of one history; each reports in several roles.
struct Observers {
    owner: SeededOrg,
    /// Two agents, a network and a shop.
    others: Vec<SeededOrg>,
    sessions: Vec<String>,
    /// A click token for a page of the owner, and one for a page of somebody else.
    tokens: Vec<String>,
    domain: String,
}

impl Observers {
    async fn create(source: &Pipeline, domain: String, random: &mut StdRng) -> Self {
        let seed = Seed(&source.stores.pool);
        let owner = seed.owner_of(&domain).await;
        let mut others = Vec::new();
        for (name, org_type) in
            [("a", OrgType::Agent), ("b", OrgType::Agent), ("network", OrgType::Platform), ("shop", OrgType::Platform)]
        {
            others.push(seed.org(name, org_type).await);
        }
        let sessions: Vec<String> = (0..3).map(|_| uuid(random)).collect();
        let mut tokens = Vec::new();
        for page in [format!("https://{domain}/a"), "https://elsewhere.test/a".to_owned()] {
            let session = json!({"session_id": sessions[0], "agent_id": "answers/1.0"});
            let started = source.try_post("/sessions/bulk", &others[0].key, &session).await;
            assert!([200, 201].contains(&started.status), "{started:?}");
            let link = json!({"session_id": sessions[0], "content_url": page});
            let token = source.post("/click-tokens", &others[0].key, &link).await;
            tokens.push(token.body["token"].as_str().unwrap().to_owned());
        }
        Self { owner, others, sessions, tokens, domain }
    }

    /// Returns a request by a random observer.
    fn request(&self, correlation: &[String], now: DateTime<Utc>, random: &mut StdRng) -> (String, &'static str, Value) {
        let count = random.random_range(1..4);
        let host = pick(&["", "www.", "news."], random);
        let page = |random: &mut StdRng| format!("https://{host}{}{}", self.domain, pick(&PAGES, random));
        let at = |random: &mut StdRng| {
            // Some reports are late.
            let longest = pick(&[80_000, 4_000_000], random);
            let ago = random.random_range(0..*longest);
            (now - TimeDelta::seconds(ago)).to_rfc3339_opts(SecondsFormat::Millis, true)
        };
        let nth = random.random_range(0..self.others.len() + 1);
        let Some(observer) = self.others.get(nth) else {
            if random.random_range(0..2) == 0 {
                let lines: Vec<Value> = (0..count).map(|_| self.line(correlation, &at(random), &page(random), random)).collect();
                return (self.owner.key.clone(), "/drains/ndjson", json!(lines));
            }
            let events: Vec<Value> =
                (0..count).map(|_| fetch(&ROLES[..2], correlation, &at(random), &page(random), random)).collect();
            return (self.owner.key.clone(), "/events", json!({"events": events}));
        };
        let events: Vec<Value> = match nth {
            0 | 1 => (0..count).map(|_| claim(correlation, &at(random), &page(random), random)).collect(),
            _ if random.random_range(0..3) > 0 => {
                (0..count).map(|_| fetch(&ROLES, correlation, &at(random), &page(random), random)).collect()
            }
            _ => {
                let token = pick(&self.tokens, random);
                let event = json!({"type": "content_engaged", "timestamp": at(random), "content_url": page(random), "ctx_token": token,
                    "id": uuid(random), "data": {"engagement_type": "link_click"}});
                vec![event]
            }
        };
        let mut request = json!({"events": events});
        if nth < 2 {
            request["session_id"] = json!(pick(&self.sessions, random));
            request["agent_id"] = json!(pick(&["answers/1.0", "reader"], random));
        }
        (observer.key.clone(), "/events", request)
    }

    fn line(&self, correlation: &[String], at: &str, page: &str, random: &mut StdRng) -> Value {
        let path = page.split_once(&self.domain).unwrap();
        let host = format!("{}{}", path.0.trim_start_matches("https://"), self.domain);
        let mut line = json!({"timestamp": at, "host": host, "url": path.1, "method": "GET", "user_agent": pick(&BOTS, random),
            "status": pick(&[200, 304, 404], random)});
        if random.random_range(0..2) == 0 {
            line["content_telemetry_id"] = json!(pick(correlation, random));
        }
        line
    }
}

fn pick<'a, T>(from: &'a [T], random: &mut StdRng) -> &'a T {
    from.choose(random).unwrap()
}

fn uuid(random: &mut StdRng) -> String {
    uuid::Builder::from_random_bytes(random.random()).into_uuid().to_string()
}

/// Returns a server's report of a fetch.
fn fetch(roles: &[&str], correlation: &[String], at: &str, page: &str, random: &mut StdRng) -> Value {
    let mut event = json!({"type": "content_retrieved", "timestamp": at, "content_url": page, "source_role": pick(roles, random),
        "data": {"user_agent": pick(&BOTS, random), "response_status": pick(&[200, 200, 304, 404], random),
            "com.example.cache": {"com.example.tier": random.random_range(0..3)}}});
    identify(&mut event, correlation, random);
    event
}

/// Returns an agent's report.
fn claim(correlation: &[String], at: &str, page: &str, random: &mut StdRng) -> Value {
    let kinds = [
        ("content_retrieved", json!({"media_type": "text/html"})),
        ("content_retrieved", json!({"response_status": 404})),
        ("content_grounded", json!({"scope": "session", "evidence": {"method": "quote", "query_text": "private"}})),
        ("content_cited", json!({"citation_type": "reference"})),
        ("content_presented", json!({"presentation_kind": "source_reference", "presentation_type": "link"})),
        ("content_engaged", json!({"engagement_type": "link_click"})),
        ("com.example.shared", json!({"com.example.n": 1.50})),
    ];
    let (event_type, data) = pick(&kinds, random);
    let mut event = json!({"type": event_type, "timestamp": at, "content_url": page, "data": data, "output_id": "response:1"});
    if random.random_range(0..3) > 0 {
        event["source_role"] = json!("agent");
    }
    if *event_type == "content_engaged" {
        event["presentation_id"] = json!(uuid(random));
    }
    identify(&mut event, correlation, random);
    event
}

/// Adds IDs, which other reports may have too.
fn identify(event: &mut Value, correlation: &[String], random: &mut StdRng) {
    if event["type"] == "content_retrieved" && random.random_range(0..3) > 0 {
        event["content_telemetry_id"] = json!(pick(correlation, random));
    }
    match random.random_range(0..3) {
        0 => event["id"] = json!(pick(correlation, random)),
        1 => event["id"] = json!(uuid(random)),
        _ => {}
    }
}

async fn send(pipeline: &Pipeline, key: &str, path: &str, body: &Value, trace: &str) {
    let request = client().post(pipeline.gateway_url(path)).header("content-type", "application/json").header("x-api-key", key);
    let taken = send_request(request.body(body.to_string())).await;
    assert!([200, 201].contains(&taken.status), "{trace}: {}\n{body}", taken.body);
}

/// Returns all documents of an export, page by page.
async fn exported(pipeline: &Pipeline, key: &str, limit: u32) -> Vec<Value> {
    let (mut documents, mut after) = (Vec::new(), String::new());
    loop {
        let url = pipeline.query_url(&format!("/content-owners/documents?limit={limit}{after}"));
        let page = client().get(url).header("x-api-key", key).send().await.unwrap();
        let next = page.headers().get("x-next-after").map(|next| format!("&after={}", next.to_str().unwrap()));
        let (status, text) = (page.status(), page.text().await.unwrap());
        assert_eq!(status, 200, "{text}");
        documents.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        let Some(next) = next else { return documents };
        after = next;
    }
}

/// Returns the owner's totals, and the number of events by type, outcome, URL, roles, agent and bot.
async fn figures(pipeline: &Pipeline, key: &str) -> (Vec<Value>, BTreeMap<String, u32>) {
    let mut totals = Vec::new();
    for outcome in ["", "?outcome=fetch", "?outcome=revalidation", "?outcome=failed"] {
        let summary: Value =
            serde_json::from_str(&pipeline.read(key, &format!("/content-owners/summary{outcome}")).await).unwrap();
        let roles = summary["events_by_source"].as_array().unwrap().iter();
        // A click's session belongs to the issuer of its token, or else to the reporter.
        let roles: Vec<_> = roles.map(|role| (&role["source_role"], &role["count"])).collect();
        totals.push(json!([summary["total_events"], summary["events_by_type"], roles]));
    }
    let page: Value = serde_json::from_str(&pipeline.read(key, "/content-owners/events?limit=1000").await).unwrap();
    let mut events = BTreeMap::new();
    for event in page["items"].as_array().unwrap() {
        let names = ["event_type", "outcome", "content_url", "agent_id", "bot"].map(|name| &event[name]);
        *events.entry(json!([names, event["event_data"]["observers"]]).to_string()).or_default() += 1;
    }
    (totals, events)
}

#[tokio::test(flavor = "multi_thread")]
async fn e2_reported_exports_give_the_same_figures() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let (source, copy) = (Pipeline::start().await, Pipeline::start().await);
    let now = Clock::System.now();
    let mut histories = Vec::new();
    for round in 0..size("MODEL_ROUNDS", 12) {
        let observers = Observers::create(&source, format!("paper{round}.example"), &mut random).await;
        let correlation: Vec<String> = (0..6).map(|_| uuid(&mut random)).collect();
        for _ in 0..random.random_range(5..60) {
            let (key, path, body) = observers.request(&correlation, now, &mut random);
            send(&source, &key, path, &body, &format!("seed {seed}")).await;
        }
        histories.push(observers);
    }
    source.run_worker_until_idle().await;
    let mut owners = Vec::new();
    for observers in &histories {
        let seeded = Seed(&copy.stores.pool);
        let owner = seeded.owner_of(&observers.domain).await;
        let mut keys = BTreeMap::new();
        for document in exported(&source, &observers.owner.key, random.random_range(1..40)).await {
            let observer = &document["extensions"]["observer"];
            let id = observer["id"].as_str().unwrap().to_owned();
            if !keys.contains_key(&id) {
                let is_owner = observer["is_owner"] == true;
                let key = if is_owner { owner.key.clone() } else { seeded.org("observer", OrgType::Platform).await.key };
                keys.insert(id.clone(), key);
            }
            assert!(document["events"].as_array().unwrap().len() <= 500);
            assert!(!document.to_string().contains("private"), "{document}");
            send(&copy, &keys[&id], "/events", &document, &format!("seed {seed}")).await;
        }
        owners.push(owner);
    }
    copy.run_worker_until_idle().await;
    let mut compared = 0;
    for (observers, owner) in histories.iter().zip(&owners) {
        let (expected, found) = (figures(&source, &observers.owner.key).await, figures(&copy, &owner.key).await);
        let trace = format!("seed {seed} {}", observers.domain);
        assert_eq!(found.1, expected.1, "{trace}");
        assert_eq!(found.0, expected.0, "{trace}");
        compared += expected.1.values().sum::<u32>();
    }
    assert!(compared > 100, "too little was compared: {compared} events, seed {seed}");
}
