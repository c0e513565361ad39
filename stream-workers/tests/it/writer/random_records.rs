//! Random histories: observers that share ids, copies that were accepted earlier and arrive later, changes of the month.

use crate::test_app::{NEW_YEAR_US, PARTITIONS};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Map, Value, json};
use uuid::Uuid;

const HOUR_US: i64 = 3_600_000_000;
const ROLES: [Option<&str>; 5] = [Some("agent"), Some("edge"), Some("origin"), Some("index"), None];
const SITES: [&str; 3] = ["com.example", "com.example.blog", "org.example"];

/// Returns the same request, accepted earlier or later: gateways that couldn't reach the log send their records late.
fn copy(record: &Value, random: &mut StdRng) -> Value {
    let mut copy = record.clone();
    let received_at_us = record["received_at_us"].as_i64().unwrap() + random.random_range(-30 * 24..30 * 24) * HOUR_US;
    copy["received_at_us"] = received_at_us.into();
    copy
}

/// Returns members for another organization's click token, or an empty object.
fn click(random: &mut StdRng) -> Map<String, Value> {
    let link = *["taken", "same", "other", ""].choose(random).unwrap();
    let issuer = Uuid::from_u128(random.random_range(5..7));
    let mut click = match link {
        "" => json!({}),
        link => json!({"session_org": issuer, "link": link}),
    };
    if link == "other" && random.random_bool(0.5) {
        click["link_site"] = (*SITES.choose(random).unwrap()).into();
    }
    click.as_object().unwrap().clone()
}

/// Returns a server's description of a fetch. Some contain nothing that `events` stores.
fn crawler(random: &mut StdRng) -> Value {
    let mut crawler = json!({"cache_status": "hit", "asn": random.random_range(1..9), "country": "NL", "media_type": "text/html",
        "bots_version": "1"});
    if random.random_bool(0.5) {
        let mut fetch = json!({"verified": random.random_bool(0.5), "response_bytes": random.random_range(1..9_000)});
        if random.random_bool(0.5) {
            fetch["response_status"] = [200, 404][random.random_range(0..2)].into();
        }
        crawler.as_object_mut().unwrap().append(&mut fetch.as_object().unwrap().clone());
    }
    if random.random_bool(0.5) {
        let bot = json!({"bot": "GPTBot", "operator": "OpenAI", "purpose": "training"});
        crawler.as_object_mut().unwrap().append(&mut bot.as_object().unwrap().clone());
    }
    crawler
}

/// Returns a request's or a fetch's signature; null if it is unsigned.
fn signature(random: &mut StdRng) -> Value {
    let proof = json!({"base": "\"@method\": POST", "signature": "c2lnbmVk", "key_id": "k", "public_key": "z6Mk"});
    match random.random_range(0..4) {
        0 => json!({"result": "valid", "proof": proof}),
        1 => json!({"result": "invalid", "reason": "replayed", "proof": proof}),
        2 => json!({"result": "invalid", "reason": "no_key", "signed_by": "https://agent.example"}),
        _ => Value::Null,
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RandomRecords {
    pub(crate) records: usize,
    pub(crate) events_per_record: usize,
    pub(crate) padding: usize,
    /// Number of correlation ids and report ids. With fewer, more reports join and repeat.
    pub(crate) ids: u128,
}

impl RandomRecords {
    /// Returns records by partition, in reading order.
    pub(crate) fn records(self, seed: u64) -> Vec<(i32, Value)> {
        let mut random = StdRng::seed_from_u64(seed);
        // Different requests are never accepted in the same microsecond, also those of two histories in one log.
        let start_us = random.random_range(0..1_000_000) * 1_000;
        let mut records: Vec<(i32, Value)> = Vec::new();
        for n in 0..self.records {
            let copied = records.choose(&mut random).filter(|_| random.random_bool(0.2));
            let record = match copied {
                Some((_, record)) => copy(record, &mut random),
                None => self.record(start_us + n as i64, &mut random),
            };
            records.push((random.random_range(0..PARTITIONS), record));
        }
        records
    }

    fn record(self, offset_us: i64, random: &mut StdRng) -> Value {
        // Half of them are around the turn of the year, so that homes differ; one in five is earlier than its neighbors.
        let spread = if random.random_bool(0.5) { 2 } else { 20 * 24 };
        let delay = if random.random_bool(0.2) { random.random_range(0..48) } else { 0 };
        let received_at_us = NEW_YEAR_US + (random.random_range(-spread..=spread) - delay) * HOUR_US + offset_us;
        let drain = random.random_bool(0.3).then(|| Uuid::from_u128(random.random_range(1..3)));
        let events: Vec<Value> = (0..self.events_per_record).map(|_| self.event(received_at_us, random)).collect();
        let org = random.random_range(1..4);
        json!({"v": 1, "org": Uuid::from_u128(org), "is_owners": org == 1, "received_at_us": received_at_us, "kind": "events",
            "drain": drain, "events": events, "signature": signature(random)})
    }

    fn event(self, received_at_us: i64, random: &mut StdRng) -> Value {
        let is_correlated = random.random_bool(0.7);
        let key = |n: u128| format!("{n:032x}");
        // Some are more than a day late, some are in the future.
        let late_by = *[0, 0, 1, 30, -2].choose(random).unwrap() * HOUR_US;
        let mut event = json!({
            "own_key": key(random.random_range(1..=self.ids)),
            "type": if is_correlated { "content_retrieved" } else { "content_cited" },
            "at_ms": (received_at_us - late_by) / 1_000 - random.random_range(0..3),
            "site": SITES.choose(random).unwrap(),
            "content_url": format!("https://example.com/{}", random.random_range(0..5)),
            "data": {"padding": "x".repeat(self.padding)},
        });
        let more = event.as_object_mut().unwrap();
        if is_correlated {
            more.insert("correlation_key".to_owned(), key(random.random_range(1..=self.ids / 2 + 1)).into());
        }
        if let Some(role) = ROLES.choose(random).unwrap() {
            more.insert("source_role".to_owned(), (*role).into());
        }
        if random.random_bool(0.5) {
            more.insert("session_id".to_owned(), Uuid::from_u128(random.random_range(1..9)).to_string().into());
            more.append(&mut click(random));
        }
        for name in ["agent_id", "id", "content_id", "content_telemetry_id", "turn_id", "output_id"] {
            if random.random_bool(0.3) {
                more.insert(name.to_owned(), format!("{name}{}", random.random_range(0..3)).into());
            }
        }
        if random.random_bool(0.3) {
            more.insert("extra".to_owned(), json!({"unknown": random.random_range(0..3)}));
            more.insert("crawler".to_owned(), crawler(random));
            more.insert("signature".to_owned(), signature(random));
        }
        event
    }
}
