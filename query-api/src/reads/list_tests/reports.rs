//! Random reports, some of them copies of others.

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use schemas::event::SourceRole;
use schemas::event_key::EventKey;
use schemas::ids::OrgId;
use schemas::site::Site;
use std::sync::Arc;
use store::report::{Acceptance, Observer, Report};
use uuid::Uuid;

/// 2026-01-31T20:00:00Z, so that acceptance crosses the end of a month.
pub(super) const BASE_MS: i64 = 1_769_889_600_000;
const HOUR_MS: i64 = 3_600_000;
/// Reported times: timely, late and in the future. There are few, so many are equal.
const TIMES_MS: [i64; 8] = [-60 * 24 * HOUR_MS, -20 * HOUR_MS, -HOUR_MS, 0, 1, HOUR_MS, 9 * HOUR_MS, 60 * 24 * HOUR_MS];
/// Hosts of the model's owners, a host without an owner, and one that can't be verified.
pub(super) const HOSTS: [&str; 6] =
    ["example.com", "a.example.com", "blog.example.com", "x.blog.example.com", "other.test", "nobody.test"];
pub(super) const IDS: [&str; 4] = ["", "", "a", "b"];
/// Types that can have a click token are more frequent.
const TYPES: [&str; 12] = [
    "content_grounded",
    "content_cited",
    "content_presented",
    "content_engaged",
    "turn_started",
    "turn_completed",
    "checkout_completed",
    "com.example.custom",
    "com.example.other",
    "com.example.third",
    "content_engaged",
    "checkout_completed",
];

#[derive(Clone, Debug)]
pub(super) struct Content {
    pub(super) event_type: &'static str,
    pub(super) url: String,
    /// The reported role, and the role that it counts for.
    pub(super) roles: (u8, u8),
    /// The session's organization: the issuer, if the report has another organization's click token.
    pub(super) platform: Uuid,
    pub(super) session: Uuid,
    pub(super) agent: String,
    /// As in `reports`.
    pub(super) link: u8,
    pub(super) link_site: String,
    pub(super) event_id: String,
    pub(super) telemetry_id: String,
    pub(super) turn_id: String,
    pub(super) data: String,
    pub(super) extra: String,
    /// Code of its signature's result.
    pub(super) signature: u8,
}

pub(super) type Copy = Report<Arc<Content>>;

pub(super) fn org(number: u128) -> Uuid {
    // The halves have opposite orders, because ClickHouse compares the second half first.
    Uuid::from_u128((4 - number) << 64 | number)
}

pub(super) fn session(number: u128) -> Uuid {
    if number == 0 { Uuid::nil() } else { Uuid::from_u128(0xabc0 + number) }
}

/// The part shared by all copies of a report.
#[derive(Clone)]
struct Subject {
    identity: EventKey,
    shared_key: Option<EventKey>,
    observer: Observer,
    host: &'static str,
    event_type: &'static str,
    event_id: String,
    /// The click token's issuer, its session, kind of link and link host.
    bound: Option<(Uuid, Uuid, u8, String)>,
    at_ms: i64,
}

pub(super) fn site(host: &str) -> Option<Site> {
    Site::from_domain(host).ok()
}

pub(super) fn stored_site(host: &str) -> String {
    site(host).map_or_else(String::new, |site| site.as_str().to_owned())
}

impl Subject {
    /// Few fetches have several observers, and they reuse ids. Every other report is a separate event.
    fn random(number: u128, random: &mut StdRng) -> Self {
        let org_id = org(random.random_range(1..4));
        let role =
            [None, Some(SourceRole::Agent), Some(SourceRole::Edge), Some(SourceRole::Origin)].choose(random).copied().unwrap();
        let observer = Observer { org: OrgId(org_id), role, drain: None };
        let key = random.random_bool(0.5).then(|| random.random_range(1..5_u128));
        let ids = IDS.iter().map(|id| (*id).to_owned());
        // An id in the format of another event's key.
        let ids: Vec<String> = ids.chain([Uuid::from_u128(1).to_string(), Uuid::from_u128(1 << 100 | 3).to_string()]).collect();
        let event_type = if key.is_some() { "content_retrieved" } else { TYPES.choose(random).unwrap() };
        let is_bindable = matches!(event_type, "content_engaged" | "checkout_completed");
        let bound = (is_bindable && random.random_bool(0.7)).then(|| {
            let issuer = (1..4).map(org).filter(|issuer| *issuer != org_id).collect::<Vec<_>>().choose(random).copied().unwrap();
            let link = random.random_range(1..4);
            let leads_to =
                if link == 3 && random.random_bool(0.8) { stored_site(HOSTS.choose(random).unwrap()) } else { String::new() };
            (issuer, session(random.random_range(1..3)), link, leads_to)
        });
        Self {
            identity: EventKey(1 << 100 | number),
            shared_key: key.map(EventKey),
            observer,
            host: key.map_or_else(|| HOSTS.choose(random).copied().unwrap(), |key| HOSTS[usize::try_from(key).unwrap()]),
            event_type,
            event_id: ids.choose(random).unwrap().clone(),
            bound,
            at_ms: BASE_MS + TIMES_MS.choose(random).unwrap(),
        }
    }

    fn copy(&self, number: u16, random: &mut StdRng) -> Copy {
        let own = (self.observer.org.0, session(random.random_range(0..4)), 0, String::new());
        let (platform, session, link, link_site) = self.bound.clone().unwrap_or(own);
        let is_agents =
            ["content_grounded", "content_cited", "content_presented", "content_engaged", "turn_started", "turn_completed"];
        let reported = SourceRole::code(self.observer.role);
        let role = if reported == 0 && is_agents.contains(&self.event_type) { 1 } else { reported };
        // Longer than the values that are returned.
        let long = "x".repeat(600);
        let content = Content {
            event_type: self.event_type,
            url: format!("https://{}/{}", self.host, random.random_range(0..3)),
            roles: (reported, role),
            platform,
            session,
            agent: ["", "alpha", "beta"].choose(random).copied().unwrap().to_owned(),
            link,
            link_site,
            event_id: self.event_id.clone(),
            telemetry_id: self.shared_key.map_or_else(String::new, |key| format!("telemetry {}", key.0)),
            turn_id: ["", "turn"].choose(random).copied().unwrap().to_owned(),
            data: format!(r#"{{"scope":"turn","value_amount":{number},"position":"{long}","currency":"{long}","own":1}}"#),
            extra: [r#"{"turn":{"privacy_level":"full","query":"q"}}"#, r#"{"turn":{}}"#, r#"{"turn":"text"}"#, ""]
                .choose(random)
                .copied()
                .unwrap()
                .to_owned(),
            signature: random.random_range(0..3),
        };
        Report {
            shared_key: self.shared_key,
            accepted: Acceptance {
                at_us: (BASE_MS + random.random_range(0..9) * HOUR_MS) * 1_000,
                // Unique, so that two copies never have the same acceptance.
                place: number,
                identity: self.identity,
            },
            observer: self.observer,
            site: site(self.host),
            // Most copies of a report have the same time.
            at_ms: if random.random_bool(0.6) { self.at_ms } else { BASE_MS + TIMES_MS.choose(random).unwrap() },
            facts: Arc::new(content),
        }
    }
}

pub(super) fn random_time(random: &mut StdRng) -> i64 {
    BASE_MS + TIMES_MS.choose(random).unwrap() + random.random_range(-1..2)
}

/// Returns copies of random reports in order of arrival.
pub(super) fn random_copies(random: &mut StdRng) -> Vec<Copy> {
    let subjects: Vec<Subject> = (1..random.random_range(5..50)).map(|number| Subject::random(number, random)).collect();
    let mut copies: Vec<Copy> = (0..subjects.len() * 3)
        .map(|number| subjects.choose(random).unwrap().clone().copy(u16::try_from(number).unwrap(), random))
        .collect();
    copies.shuffle(random);
    copies
}
