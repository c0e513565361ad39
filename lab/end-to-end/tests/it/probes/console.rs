//! U4: people request another organization's data in the console's paths, queries and forms. Each page must equal the one for missing data
//! and contain none of the data. `PROBES` sets the number of requests (100000 before a release).
//!
//! The paths come from the console's route table, so new routes are probed automatically.

use super::test_app::{Kind, TestApp, holdings, start};
use super::{nonexistent, respelt, without};
use crate::text_excerpt::around;
use chrono::TimeDelta;
use futures::{StreamExt as _, stream};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use schemas::identity::OrgType;
use service_kit::testing::{Seed, eventually, random_seed, size};
use sqlx::PgPool;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// Default number of requests, two per comparison.
const USUAL: usize = 400;
const PARALLEL: usize = 6;
/// If two responses differ this many times in a row, they are a leak.
const ROUNDS: usize = 3;
const ROUTES: &str = include_str!("../../../../../console/src/routes.rs");
/// Names in queries and forms, and their kinds. Most pages use only some of them.
const NAMED: [(&str, Kind); 9] = [
    ("domain", Kind::Domain),
    ("domain", Kind::Registered),
    ("seen_by", Kind::Organization),
    ("delegated_from", Kind::Organization),
    ("organization_id", Kind::Organization),
    ("platform_id", Kind::Organization),
    ("webhook", Kind::Webhook),
    ("agent_id", Kind::Session),
    ("id", Kind::Key),
];
/// Parameters that don't identify anything in an organization.
const PLAIN: [(&str, &str); 8] = [
    ("period", "7d"),
    ("since", "2026-10-01"),
    ("at", "2026-11-01T10:00:00Z"),
    ("by", "url"),
    ("split", "agent"),
    ("event_type", "content_cited"),
    ("live", "1"),
    ("offset", "0"),
];
const FILES: [&str; 11] = [
    "events",
    "pages",
    "corroboration",
    "reconciliation",
    "funnel",
    "crawlers",
    "robots",
    "series",
    "deliveries",
    "members",
    "own-events",
];

/// A console path, and whether it accepts a form.
type Route = (&'static str, bool);

/// Returns the routes below `/console`, one per method. Forms without an id create something for the caller, so they aren't probed.
fn routes() -> Vec<Route> {
    let registered = ROUTES.split(".route(\"").skip(1).filter_map(|rest| rest.split_once('"'));
    let of_people = registered.filter(|(path, _)| path.starts_with("/console/") && !path.contains("{*"));
    let by_method = of_people.flat_map(|(path, rest)| {
        let methods = rest.split_once('\n').map_or(rest, |(line, _)| line);
        [("get(", false), ("post(", true)]
            .into_iter()
            .filter(move |(method, _)| methods.contains(method))
            .map(move |(_, form)| (path, form))
    });
    by_method.filter(|(path, has_form)| !has_form || path.contains('{')).collect()
}

/// Returns the kind of the id in a path.
fn kind_of(path: &str) -> Kind {
    [
        ("/operator/requests/", Kind::AccessRequest),
        ("/domains/", Kind::DomainId),
        ("/drains/", Kind::Drain),
        ("/keys/", Kind::Key),
        ("/partners/requests/", Kind::Request),
        ("/partners/", Kind::Delegation),
        ("/webhooks/", Kind::Webhook),
        ("/members/invites/", Kind::Invite),
        ("/members/", Kind::Membership),
        ("/sessions/", Kind::Session),
        ("/statements/", Kind::Statement),
        ("/event/", Kind::Event),
    ]
    .into_iter()
    .find(|(part, _)| path.contains(part))
    .map_or(Kind::Organization, |(_, kind)| kind)
}

/// A signed-in person and their organization.
struct Caller {
    session: String,
    own: Option<Uuid>,
}

async fn callers(scene: &TestApp) -> Vec<Caller> {
    let pool = &scene.stores.pool;
    let (seed, mut callers) = (Seed(pool), Vec::new());
    for (email, org_type, is_owner) in [
        ("owner@elsewhere.example", Some(OrgType::ContentOwner), true),
        ("member@elsewhere.example", Some(OrgType::ContentOwner), false),
        ("agent@elsewhere.example", Some(OrgType::Agent), true),
        ("platform@elsewhere.example", Some(OrgType::Platform), true),
        ("nobody@elsewhere.example", None, false),
    ] {
        let session = seed.session(email, TimeDelta::days(1)).await;
        let mut own = None;
        if let Some(org_type) = org_type {
            let org = seed.org("Elsewhere", org_type).await.id;
            let user = seed.join(email, org).await;
            let role = if is_owner { "owner" } else { "member" };
            let joined = sqlx::query("UPDATE memberships SET role = $1 WHERE user_id = $2").bind(role).bind(user.0);
            joined.execute(pool).await.unwrap();
            own = Some(org.0);
        }
        callers.push(Caller { session, own });
    }
    callers
}

/// A request with another organization's names, and the same request with missing ones.
struct PageComparison {
    caller: usize,
    has_form: bool,
    /// Path with query, and the form fields.
    theirs: [String; 2],
    missing: [String; 2],
    /// The names in both requests.
    named: Vec<(String, String)>,
    is_theirs_first: bool,
}

enum Verdict {
    Alike,
    /// The responses differ at this place.
    Differs(String),
    /// A response contains the organization's data at this place.
    Leaks(String),
}

impl PageComparison {
    fn random(scene: &TestApp, callers: &[Caller], random: &mut StdRng, (path, has_form): Route) -> Self {
        let caller = random.random_range(0..callers.len());
        let mut named = Vec::new();
        let mut name = |kind: Kind, random: &mut StdRng| {
            let mut both = (scene.theirs(kind).to_owned(), nonexistent(kind, random));
            if random.random_range(0..4) == 0 {
                let (theirs, nobodys) = both;
                both = respelt(kind, random.random_range(0..3), [theirs, nobodys]);
            }
            named.push(both.clone());
            both
        };
        let mut theirs = [path.to_owned(), String::new()];
        let mut nobodys = theirs.clone();
        let mut fill = |place: &str, (of_tenant, of_nobody): (String, String)| {
            theirs[0] = theirs[0].replace(place, &in_address(&of_tenant));
            nobodys[0] = nobodys[0].replace(place, &in_address(&of_nobody));
        };
        // Within the caller's own organization, a form must name something that belongs to the other one.
        let may_be_home = !has_form || path.contains("{id}");
        let own = callers[caller].own.filter(|_| may_be_home && random.random_range(0..2) == 0).map(|own| own.to_string());
        let is_home = own.is_some();
        if let Some(own) = own {
            fill("{organization}", (own.clone(), own));
        }
        for (place, kind) in [("{organization}", Kind::Organization), ("{id}", kind_of(path)), ("{delivery}", Kind::Key)] {
            if path.contains(place) && !(is_home && place == "{organization}") {
                fill(place, name(kind, random));
            }
        }
        for (place, choices) in [("{answer}", ["approve", "deny"]), ("{verdict}", ["approve", "reject"])] {
            let choice = (*choices.choose(random).unwrap()).to_owned();
            fill(place, (choice.clone(), choice));
        }
        let file = format!("{}.{}", FILES.choose(random).unwrap(), ["csv", "ndjson"].choose(random).unwrap());
        fill("{file}", (file.clone(), file));
        let mut query = [String::new(), String::new()];
        for _ in 0..random.random_range(0..4) {
            let (key, kind) = *NAMED.choose(random).unwrap();
            let (of_tenant, of_nobody) = name(kind, random);
            query[0] += &format!("&{key}={}", in_address(&of_tenant));
            query[1] += &format!("&{key}={}", in_address(&of_nobody));
        }
        let count = random.random_range(0..3);
        for (key, value) in PLAIN.sample(random, count) {
            query.iter_mut().for_each(|query| *query += &format!("&{key}={value}"));
        }
        let place = usize::from(has_form && random.random());
        for (side, query) in [&mut theirs, &mut nobodys].into_iter().zip(query) {
            let sign = if place == 0 && !query.is_empty() { "?" } else { "" };
            side[place] += &format!("{sign}{}", query.trim_start_matches('&'));
        }
        for side in [&mut theirs[1], &mut nobodys[1]].into_iter().filter(|_| has_form) {
            *side += "&name=x&role=owner&email=x%40elsewhere.example&with=code&note=x&once=67e55044-10b1-426f-9247-bb680e5fe0c8";
        }
        Self { caller, has_form, theirs, missing: nobodys, named, is_theirs_first: random.random() }
    }

    /// Returns the difference or leak, or `None` if the responses are equal. A difference can be caused by load once; a leak occurs every
    /// time.
    async fn compare_with_retries(&self, scene: &TestApp, callers: &[Caller]) -> Option<String> {
        let mut wrong = None;
        for _ in 0..ROUNDS {
            match self.compare(scene, callers).await {
                Verdict::Alike => return None,
                Verdict::Differs(difference) => wrong = Some(format!("oracle: {difference}")),
                Verdict::Leaks(leak) => return Some(format!("leak: {leak}")),
            }
        }
        wrong
    }

    async fn compare(&self, scene: &TestApp, callers: &[Caller]) -> Verdict {
        let ask = |side| self.request(scene, &callers[self.caller].session, side);
        let (theirs, nobodys) = if self.is_theirs_first {
            let theirs = ask(&self.theirs).await;
            (theirs, ask(&self.missing).await)
        } else {
            let nobodys = ask(&self.missing).await;
            (ask(&self.theirs).await, nobodys)
        };
        let at = format!("{:?} by the {}. caller", self.theirs, self.caller);
        let (of_tenant, of_nobody): (Vec<_>, Vec<_>) = self.named.iter().cloned().unzip();
        let told = format!("{:?} {}", theirs.headers, theirs.text);
        let told = of_tenant.iter().fold(told, |told, named| without(&told, named)).to_lowercase();
        let mut planted = scene.theirs.iter().map(|(_, value)| value.to_lowercase()).chain(["planted".to_owned()]);
        let is_named = |planted: &str| of_tenant.iter().any(|named| named.to_lowercase().contains(planted));
        let leak = planted.find_map(|planted| told.find(&planted).filter(|_| !is_named(&planted)));
        if let Some(place) = leak {
            return Verdict::Leaks(format!("{at}: {}", around(&told, place)));
        }
        let (seen, expected) = (theirs.alike(&of_tenant), nobodys.alike(&of_nobody));
        if seen == expected {
            return Verdict::Alike;
        }
        let difference = difference(&format!("{seen:?}"), &format!("{expected:?}"));
        eprintln!("{at}: {difference}");
        Verdict::Differs(format!("{at}: {difference}"))
    }

    async fn request(&self, scene: &TestApp, session: &str, [address, fields]: &[String; 2]) -> SeenPage {
        let url = scene.url(address);
        // Retry on 503, which an overloaded store causes.
        let response = eventually("the console is available", async || {
            let request = if self.has_form {
                let form = scene.client.post(&url).header("origin", scene.demo.env("BASE_URL"));
                form.header("content-type", "application/x-www-form-urlencoded").body(fields.clone())
            } else {
                scene.client.get(&url)
            };
            let sent = request.header("cookie", format!("telemetry-session={session}")).send().await;
            // 429 means too many concurrent requests.
            sent.ok().filter(|response| ![429, 503].contains(&response.status().as_u16()))
        })
        .await;
        let status = response.status().as_u16();
        assert!(status < 500, "{url}: {status}");
        let headers = response.headers().iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
        let headers = headers.filter(|(name, _)| name != "date").collect();
        SeenPage { status, headers, text: response.text().await.unwrap() }
    }
}

/// Returns the difference between two pages with some context, because whole pages are too long for a log.
fn difference(seen: &str, expected: &str) -> String {
    let same = seen.bytes().zip(expected.bytes()).take_while(|(seen, expected)| seen == expected).count();
    format!("{} is not {}", around(seen, same), around(expected, same))
}

fn in_address(text: &str) -> String {
    text.replace('{', "%7B").replace('}', "%7D")
}

struct SeenPage {
    status: u16,
    headers: BTreeMap<String, String>,
    text: String,
}

impl SeenPage {
    /// Returns the response without the parts that differ between requests, and with one spelling for the names.
    fn alike(&self, named: &[String]) -> (u16, BTreeMap<String, String>, String) {
        // Longest names first, because a name can be the suffix of another one.
        let mut named = named.to_vec();
        named.sort_by_key(|named| std::cmp::Reverse(named.len()));
        let request_id = self.headers.get("x-request-id").cloned().unwrap_or_default();
        let even = |text: &str| {
            let text = named.iter().fold(text.replace(&request_id, "{request}"), |text, named| without(&text, named));
            let text = named.iter().fold(text, |text, named| text.replace(&in_address(named), "{it}"));
            // Form ids, times, and the example event's id differ between requests.
            let passing = [("name=\"once\" value=\"", "\""), ("<time", "</time>"), ("<code id=\"trial\">", "</code>")];
            passing.iter().fold(text, |text, (before, after)| between(&text, before, after))
        };
        let mut headers: BTreeMap<_, _> = self.headers.iter().map(|(name, value)| (name.clone(), even(value))).collect();
        // Names vary in length.
        headers.retain(|name, _| !["content-length", "set-cookie"].contains(&name.as_str()));
        (self.status, headers, even(&self.text))
    }
}

/// Removes all text between the two markers.
fn between(text: &str, before: &str, after: &str) -> String {
    let mut parts = text.split(before);
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept += before;
        kept += part.split_once(after).map_or(part, |(_, rest)| rest);
    }
    kept
}

/// Counts owners, open invites and pending requests, which can't be listed with an API key.
async fn people(pool: &PgPool, organization: &str) -> (i64, i64, i64) {
    let counts = "SELECT (SELECT count(*) FROM memberships WHERE organization_id::text = $1 AND role = 'owner'), \
        (SELECT count(*) FROM invites WHERE organization_id::text = $1 AND withdrawn_at IS NULL), \
        (SELECT count(*) FROM access_requests WHERE status = 'pending')";
    sqlx::query_as(counts).bind(organization).fetch_one(pool).await.unwrap()
}

/// Returns the pages that show planted data to its own organization. If there were none, the probes couldn't find a leak.
async fn seen_at_home(scene: &TestApp) -> BTreeSet<&'static str> {
    let session = Seed(&scene.stores.pool).session("person@planted.example", TimeDelta::days(1)).await;
    let mut seen = BTreeSet::new();
    for (path, _) in routes().into_iter().filter(|(_, has_form)| !has_form) {
        let address = path.replace("{organization}", scene.theirs(Kind::Organization));
        let address = address.replace("{id}", scene.theirs(kind_of(path))).replace("{file}", "members.csv");
        let request = scene.client.get(scene.url(&address)).header("cookie", format!("telemetry-session={session}"));
        let page = request.send().await.unwrap();
        if page.status() == 200 && page.text().await.unwrap().to_lowercase().contains("planted") {
            seen.insert(path);
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn u4_the_console_hides_other_organizations_data() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let scene = start().await;
    let seen = seen_at_home(&scene).await;
    assert!(seen.len() >= 20, "{seen:?}");
    let (callers, pool) = (callers(&scene).await, &scene.stores.pool);
    let organization = scene.theirs(Kind::Organization);
    let before = (holdings(&scene).await, people(pool, organization).await);
    let routes = routes();
    assert!(routes.len() > 50, "{routes:?}");
    // Try the routes in turn, so that none is missed by chance.
    let turns = routes.iter().cycle().take(size("PROBES", USUAL) / 2);
    let shots: Vec<PageComparison> = turns.map(|route| PageComparison::random(&scene, &callers, &mut random, *route)).collect();
    let fired = stream::iter(&shots).map(|shot| shot.compare_with_retries(&scene, &callers)).buffer_unordered(PARALLEL);
    let wrong: Vec<String> = fired.filter_map(std::future::ready).take(20).collect().await;
    assert!(wrong.is_empty(), "seed {seed}: {}", wrong.join("\n"));
    let after = (holdings(&scene).await, people(pool, organization).await);
    assert_eq!(after, before, "a probe changed another organization's data: seed {seed}");
}
