//! Random reports. There are few possible values, so ids, observers, times and hosts collide.

use super::{HOUR_MS, random_time};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use schemas::event::SourceRole;
use schemas::event_key::EventKey;
use schemas::ids::{DrainId, OrgId, SessionId};
use schemas::signature::SignatureResult;
use schemas::site::Site;
use std::sync::Arc;
use store::facts::{Facts, Fetch, ReportFacts, session_digest};
use store::report::{Acceptance, Observer, Report};
use uuid::Uuid;

pub(in crate::reads) type TestReport = Report<Facts>;

pub(in crate::reads) const HOSTS: [&str; 16] = [
    "example.com",
    "news.example.com",
    "blog.example.com",
    "a.blog.example.com",
    "deep.blog.example.com",
    "b.deep.blog.example.com",
    "late.example.com",
    "c.late.example.com",
    "x.late.example.com",
    "other.test",
    "sub.other.test",
    "d.sub.other.test",
    "notexample.com",
    "example-x.com",
    "example.com.evil.test",
    "nobody.test",
];

const AGENTS_TYPES: [&str; 5] = ["content_grounded", "content_cited", "content_presented", "content_engaged", "turn_started"];
const INVENTED_TYPES: [&str; 4] = ["com.example.x", "com.example.y", "com.example.z", "com.example.x.y"];
const AGENTS: [&str; 4] = ["", "alpha", "beta", "\u{e4}' \\"];
/// Bots with their operators and purposes. The first entry means no bot.
pub(super) const BOTS: [(&str, &str, &str); 4] =
    [("", "", ""), ("GPTBot", "OpenAI", "training"), ("ChatGPT-User", "OpenAI", "user"), ("ClaudeBot", "Anthropic", "training")];
/// Paths with and without a section, and with pattern characters.
const PATHS: [&str; 14] = [
    "/",
    "",
    "/blog",
    "/blog/",
    "/blog/a",
    "/blog/a?q=/blog/b",
    "/blog/b_",
    "/blog/b%25",
    "/Blog/a",
    "/bl_g/a",
    "/b%C3%A4/a",
    "//a",
    "/a\\*",
    "?q=/a/b",
];

fn pick<'a>(random: &mut StdRng, of: &[&'a str]) -> &'a str {
    of.choose(random).copied().unwrap_or_default()
}

/// Reporting organizations; the first two are the content owners. The halves of the last one sort differently as UUID and as number.
pub(super) const ORGANIZATIONS: [u128; 4] = [1, 2, 1 << 64, 1 << 127];

fn org(random: &mut StdRng) -> OrgId {
    OrgId(Uuid::from_u128(*ORGANIZATIONS.choose(random).unwrap()))
}

/// Returns up to 300 reports, often so few that no event has several.
pub(in crate::reads) fn random(random: &mut StdRng) -> Vec<TestReport> {
    let most = [10, 60, 300][random.random_range(0..3)];
    (0..random.random_range(0..most)).map(|_| report(random)).collect()
}

fn report(random: &mut StdRng) -> TestReport {
    let host = random.random_range(0..HOSTS.len());
    let is_retrieval = random.random_bool(0.6);
    let correlation = (is_retrieval && random.random_bool(0.7)).then(|| random.random_range(0..3_u128));
    let shared_key = correlation.map(|id| EventKey(1 << 100 | (host as u128) << 8 | id));
    let event_type =
        if is_retrieval { "content_retrieved" } else { pick(random, &[&AGENTS_TYPES[..], &INVENTED_TYPES].concat()) };
    let is_agents = AGENTS_TYPES.contains(&event_type);
    let roles = if is_agents {
        &[None, Some(SourceRole::Agent)][..]
    } else {
        &[None, Some(SourceRole::Agent), Some(SourceRole::Edge), Some(SourceRole::Origin), Some(SourceRole::Index)]
    };
    // A report without a role is a claim only if the reader may see its session.
    let role = if random.random_bool(0.3) { None } else { roles[random.random_range(0..roles.len())] };
    let org = org(random);
    let drain = (role == Some(SourceRole::Edge) && shared_key.is_some() && random.random()).then(|| DrainId(Uuid::from_u128(7)));
    let observer = Observer { org, role, drain };
    let site = Site::from_domain(HOSTS[host]).ok();
    let counted = if is_agents { 1 } else { SourceRole::code(role) };
    let facts = facts(random, (event_type, counted), (org, HOSTS[host]), shared_key.is_none());
    let identity = identity(random, &observer, host, shared_key);
    let (at_ms, accepted_ms) = times(random);
    Report {
        shared_key,
        accepted: Acceptance { at_us: accepted_ms * 1_000, place: 0, identity },
        observer,
        site,
        at_ms,
        facts: Arc::new(facts),
    }
}

/// Returns the times of an event and of its acceptance, mostly in time.
fn times(random: &mut StdRng) -> (i64, i64) {
    let at_ms = random_time(random);
    let late_ms = [0, 1, 5_000, 2 * HOUR_MS, 25 * HOUR_MS, 800 * HOUR_MS, -2 * HOUR_MS][random.random_range(0..7)];
    (at_ms, at_ms + late_ms)
}

/// Returns the identity. With a correlation id, it depends on the observer and the shared key, otherwise on organization and host.
fn identity(random: &mut StdRng, observer: &Observer, host: usize, shared_key: Option<EventKey>) -> EventKey {
    let org = observer.org.0.as_u128() % 1_009;
    let id = random.random_range(0..8_u128) | org << 8 | (host as u128) << 24;
    let role = u128::from(SourceRole::code(observer.role)) | u128::from(observer.drain.is_some()) << 4;
    EventKey(shared_key.map_or(2 << 100 | id, |key| 3 << 100 | (key.0 & 0xffff) << 40 | role << 32 | id))
}

fn facts(random: &mut StdRng, (event_type, role): (&str, u8), (org, host): (OrgId, &str), is_alone: bool) -> ReportFacts {
    // Another organization's click token requires an event without a correlation id.
    let platform = if is_alone && random.random_bool(0.6) { self::org(random) } else { org };
    let session = match random.random_range(0..4_u128) {
        0 => 0,
        session => session_digest(platform, SessionId(Uuid::from_u128(session))),
    };
    let link_site = match random.random_range(0..4) {
        _ if platform == org => String::new(),
        0 => "-".to_owned(),
        1 => String::new(),
        _ => Site::from_domain(pick(random, &HOSTS)).map(|site| site.as_str().to_owned()).unwrap_or_default(),
    };
    let scheme = pick(random, &["https://", "http://", "https://www."]);
    ReportFacts {
        is_owners: org.0.as_u128() == ORGANIZATIONS[0],
        event_type: event_type.to_owned(),
        url: format!("{scheme}{host}{}", pick(random, &PATHS)),
        role,
        platform,
        agent: pick(random, &AGENTS).to_owned(),
        session,
        link_site,
        signature: *SignatureResult::ALL.choose(random).unwrap(),
        fetch: if event_type == "content_retrieved" && role > 1 { fetch(random) } else { None },
    }
}

fn fetch(random: &mut StdRng) -> Option<Fetch> {
    let (bot, operator, purpose) = BOTS[random.random_range(0..BOTS.len())];
    let status = [0, 200, 206, 304, 404][random.random_range(0..5)];
    let is_told = !bot.is_empty() || status != 0 || random.random();
    is_told.then(|| Fetch {
        bot: bot.to_owned(),
        operator: operator.to_owned(),
        purpose: purpose.to_owned(),
        verified: if bot.is_empty() { 0 } else { random.random_range(0..3) },
        status,
        bytes: random.random_range(0..1_000),
    })
}
