//! Reconciliation of a generated month finds the planted differences, and no others.

mod month;

use crate::pipeline::Pipeline;
use chrono::{DateTime, TimeDelta, Utc};
use month::{AGENTS, DOMAINS, Expected, Month, Sender};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use schemas::identity::{DrainProvider, OrgType};
use serde_json::{Value, json};
use service_kit::testing::send_request;
use service_kit::testing::{Seed, client, random_seed};
use std::collections::BTreeMap;

/// URL, licensee and finding of each fetch, with their number.
type Found = BTreeMap<(String, String, String), u64>;

fn found<'a>(fetches: impl IntoIterator<Item = &'a Expected>) -> Found {
    let mut found = Found::new();
    for Expected { url, operator, finding, .. } in fetches {
        *found.entry((url.clone(), (*operator).to_owned(), (*finding).to_owned())).or_default() += 1;
    }
    found
}

struct World {
    pipeline: Pipeline,
    owner: String,
    partner: String,
    owner_id: String,
}

impl World {
    /// Reports the month, some requests twice.
    async fn reporting(month: &Month, random: &mut StdRng) -> Self {
        let pipeline = Pipeline::start().await;
        let seed = Seed(&pipeline.stores.pool);
        let owner = seed.owner_of(DOMAINS[0]).await;
        seed.verify(owner.id, DOMAINS[1]).await;
        let (partner, stranger) = (seed.org("partner", OrgType::Platform).await, seed.org("stranger", OrgType::Platform).await);
        seed.delegate(owner.id, partner.id).await;
        let mut keys: BTreeMap<Sender, String> =
            [(Sender::Owner, owner.key.clone()), (Sender::Partner, partner.key.clone()), (Sender::Stranger, stranger.key)].into();
        for (nth, (_, name, _)) in AGENTS.iter().enumerate() {
            let agent = seed.org(name, OrgType::Agent).await;
            keys.extend([Sender::Agent(nth), Sender::Forger(nth)].map(|sender| (sender, agent.key.clone())));
        }
        let partners = [Sender::PartnersAgent, Sender::PartnersLog].map(|sender| (sender, partner.key.clone()));
        keys.extend(partners.into_iter().chain([(Sender::StrangersLog, keys[&Sender::Stranger].clone())]));
        for (sender, hosts) in [(Sender::PaperDrain, vec![DOMAINS[0]]), (Sender::SharedDrain, Vec::new())] {
            let (id, key) = seed.drain(owner.id, OrgType::ContentOwner, DrainProvider::Ndjson).await;
            let update = sqlx::query("UPDATE drains SET hosts = $2 WHERE id = $1").bind(id.0).bind(&hosts);
            update.execute(&pipeline.stores.pool).await.unwrap();
            keys.insert(sender, key);
        }
        let world = Self { pipeline, owner: owner.key, partner: partner.key, owner_id: owner.id.to_string() };
        for (sender, reports) in &month.reports {
            for reports in reports.chunks(200) {
                for _ in 0..random.random_range(1..3) {
                    world.send(*sender, &keys[sender], reports).await;
                }
            }
        }
        world.pipeline.run_worker_until_idle().await;
        world
    }

    async fn send(&self, sender: Sender, key: &str, reports: &[Value]) {
        let (path, body) = match sender {
            Sender::PaperDrain | Sender::SharedDrain | Sender::StrangersLog | Sender::PartnersLog => {
                ("/drains/ndjson", json!(reports))
            }
            Sender::Agent(_) | Sender::Forger(_) | Sender::PartnersAgent => {
                let nth = if let Sender::Agent(nth) | Sender::Forger(nth) = sender { nth } else { 0 };
                let session = "67e55044-10b1-426f-9247-bb680e5fe0c8";
                ("/events", json!({"agent_id": AGENTS[nth].1, "session_id": session, "events": reports}))
            }
            _ => ("/events", json!({"events": reports})),
        };
        let mut request = client().post(self.pipeline.gateway_url(path)).header("content-type", "application/json");
        if matches!(sender, Sender::Forger(_)) {
            request =
                request.header("signature-input", "ct=(\"@method\");tag=\"content-telemetry\"").header("signature", "ct=:AAAA:");
        }
        let taken = send_request(request.header("x-api-key", key).body(body.to_string())).await;
        assert!(taken.status == 200 || taken.status == 201, "{sender:?}: {}", taken.body);
    }

    /// Returns all items of a list.
    async fn items(&self, key: &str, asked: &str) -> Vec<Value> {
        let mut items = Vec::new();
        loop {
            let path = format!("/content-owners/reconciliation?limit=1000&offset={}&{asked}", items.len());
            let page: Value = serde_json::from_str(&self.pipeline.read(key, &path).await).unwrap();
            let more = page["items"].as_array().unwrap();
            items.extend(more.iter().cloned());
            if more.is_empty() || items.len() as u64 == page["total"].as_u64().unwrap() {
                return items;
            }
        }
    }

    async fn found(&self, asked: &str) -> Found {
        let mut found = Found::new();
        for item in self.items(&self.owner, &format!("by=event&{asked}")).await {
            let [url, operator, finding] =
                ["content_url", "operator", "finding"].map(|name| item[name].as_str().unwrap().to_owned());
            *found.entry((url, operator, finding)).or_default() += 1;
        }
        found
    }

    /// Returns the fetches by the named members of the items.
    async fn sums(&self, key: &str, asked: &str, members: &[&str]) -> BTreeMap<Vec<String>, u64> {
        let mut sums = BTreeMap::new();
        for item in self.items(key, asked).await {
            let name = members.iter().map(|member| item[*member].as_str().unwrap().to_owned()).collect();
            *sums.entry(name).or_default() += item["fetches"].as_u64().unwrap();
        }
        sums
    }
}

fn assert_found(actual: &Found, expected: &Found, trace: &str) {
    let of = |left: &Found, right: &Found| -> Vec<_> {
        left.iter().filter(|(fetch, count)| right.get(*fetch) != Some(count)).map(|(fetch, _)| fetch.clone()).collect()
    };
    assert_eq!((of(actual, expected), of(expected, actual)), (Vec::new(), Vec::new()), "{trace}: only found; only planted");
}

fn sums(expected: &Found, name: impl Fn(&(String, String, String)) -> Vec<String>) -> BTreeMap<Vec<String>, u64> {
    let mut sums = BTreeMap::new();
    for (fetch, count) in expected {
        *sums.entry(name(fetch)).or_default() += count;
    }
    sums
}

/// Asserts that claims and sightings are those of the evidence filter and of corroboration.
async fn assert_agrees_with_corroboration(world: &World) {
    let path = "/content-owners/corroboration?by=day&limit=1000";
    let page: Value = serde_json::from_str(&world.pipeline.read(&world.owner, path).await).unwrap();
    let days = page["items"].as_array().unwrap();
    let counts = [("corroborated", "seen_by_both"), ("claimed", "claimed_by_agent_only"), ("observed", "seen_by_server_only")];
    for (evidence, count) in counts {
        let expected: u64 = days.iter().map(|day| day[count].as_u64().unwrap()).sum();
        let found = world.sums(&world.owner, &format!("by=finding&outcome=fetch&evidence={evidence}"), &["operator"]).await;
        assert_eq!(found.values().sum::<u64>(), expected, "{evidence}");
        assert!(expected > 0, "{evidence}");
        let by_finding = world.sums(&world.owner, &format!("by=finding&evidence={evidence}"), &["finding"]).await;
        let only =
            [("extra", "claimed"), ("no_coverage", "claimed"), ("missing", "observed"), ("timestamp_mismatch", "corroborated")];
        for (finding, tier) in only {
            assert_eq!(by_finding.contains_key(&vec![finding.to_owned()]), tier == evidence, "{finding} {evidence}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn finds_planted_differences_and_no_others() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let begin = DateTime::from_timestamp(1_790_812_800, 0).unwrap();
    let month = Month::plan(StdRng::seed_from_u64(random.random()), begin);
    let planted = found(&month.expected);
    let kinds = sums(&planted, |(_, _, finding)| vec![finding.clone()]);
    eprintln!("planted {kinds:?}");
    assert!(kinds.len() == 9, "{kinds:?}");

    let world = World::reporting(&month, &mut random).await;
    assert_found(&world.found("").await, &planted, "all");
    let by_finding = sums(&planted, |(_, operator, finding)| vec![operator.clone(), finding.clone()]);
    assert_eq!(world.sums(&world.owner, "by=finding", &["operator", "finding"]).await, by_finding);
    let by_url = sums(&planted, |(url, operator, finding)| vec![url.clone(), operator.clone(), finding.clone()]);
    assert_eq!(world.sums(&world.owner, "by=url", &["content_url", "operator", "finding"]).await, by_url);
    let by_agent = world.sums(&world.owner, "by=agent", &["operator", "finding"]).await;
    assert_eq!(by_agent, by_finding, "items by agent add up");
    let theirs = format!("delegated_from={}", world.owner_id);
    assert_eq!(world.sums(&world.partner, &theirs, &["operator", "finding"]).await, by_finding, "partners read the same");

    // Neither the period nor a filter changes a finding.
    let split = begin + TimeDelta::hours(random.random_range(0..720));
    let instant = |at: DateTime<Utc>| at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
    for (asked, is_in) in [(format!("until={}", instant(split)), true), (format!("since={}", instant(split)), false)] {
        let part = found(month.expected.iter().filter(|fetch| (fetch.at < split) == is_in));
        assert_found(&world.found(&asked).await, &part, &asked);
    }
    for (asked, operator, finding) in
        [("operator=OpenAI", Some("OpenAI"), None), ("operator=", Some(""), None), ("finding=extra", None, Some("extra"))]
    {
        let is_asked =
            |fetch: &&Expected| operator.is_none_or(|of| of == fetch.operator) && finding.is_none_or(|of| of == fetch.finding);
        assert_found(&world.found(asked).await, &found(month.expected.iter().filter(is_asked)), asked);
    }
    let one = &month.expected[random.random_range(0..month.expected.len())];
    let path = one.url.split_once(".example").unwrap().1;
    let same_path = found(month.expected.iter().filter(|fetch| fetch.url.ends_with(&format!(".example{path}"))));
    assert_found(&world.found(&format!("path={path}")).await, &same_path, path);

    assert_agrees_with_corroboration(&world).await;
    for item in world.items(&world.owner, "by=event").await.iter().step_by(97) {
        let path = format!("/content-owners/events/{}", item["event_id"].as_str().unwrap());
        let event: Value = serde_json::from_str(&world.pipeline.read(&world.owner, &path).await).unwrap();
        assert_eq!(
            (&event["content_url"], &event["event_timestamp"]),
            (&item["content_url"], &item["event_timestamp"]),
            "{path}"
        );
    }
}
