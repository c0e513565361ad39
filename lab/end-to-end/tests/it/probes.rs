//! S2: responses for another organization's data and for missing data have the same status, headers and body shape, and contain none of
//! that data. `PROBES` sets the number of requests (100000 before a release).

mod console;
mod test_app;
mod table;

use futures::{StreamExt as _, stream};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use reqwest::Method;
use schemas::secrets::PlainClickToken;
use serde_json::Value;
use service_kit::testing::{eventually, random_seed, size};
use std::collections::BTreeMap;
use table::{PROBES, Probe};
use test_app::{CallerKind, Kind, TestApp, holdings};
use uuid::Uuid;

/// Default number of requests, two per comparison.
const USUAL: usize = 1_000;
const PARALLEL: usize = 6;

/// A response without the parts that differ between requests, together with its whole text.
#[derive(Debug)]
struct ComparableResponse {
    comparable: (u16, BTreeMap<String, String>, Value),
    text: String,
}

/// A comparison of two responses.
struct Comparison {
    probe: &'static Probe,
    who: CallerKind,
    theirs: String,
    missing: String,
    number: usize,
    is_theirs_first: bool,
}

impl Comparison {
    fn random(scene: &TestApp, random: &mut StdRng, number: usize) -> Self {
        // Try the probes in turn, so that none is missed by chance.
        let probe = &PROBES[number % PROBES.len()];
        let (mut theirs, mut nobodys) = (scene.theirs(probe.it).to_owned(), nonexistent(probe.it, random));
        if random.random_range(0..4) == 0 {
            (theirs, nobodys) = respelt(probe.it, random.random_range(0..3), [theirs, nobodys]);
        }
        let (who, is_theirs_first) = (*probe.by.choose(random).unwrap(), random.random());
        Self { probe, who, theirs, missing: nobodys, number, is_theirs_first }
    }

    /// Returns the difference or leak, or `None` if the responses are equal.
    async fn compare(&self, scene: &TestApp) -> Option<String> {
        let (theirs, nobodys) = if self.is_theirs_first {
            let theirs = self.request(scene, &self.theirs, "x").await;
            (theirs, self.request(scene, &self.missing, "y").await)
        } else {
            let nobodys = self.request(scene, &self.missing, "y").await;
            (self.request(scene, &self.theirs, "x").await, nobodys)
        };
        let at = || format!("{} {} {} by {:?} of {}", self.probe.method, self.probe.path, self.probe.body, self.who, self.theirs);
        if theirs.comparable != nobodys.comparable {
            return Some(format!("oracle: {}: {:?} is not {:?}", at(), theirs.comparable, nobodys.comparable));
        }
        let told = without(&theirs.text, &self.theirs).to_lowercase();
        let mut planted = scene.theirs.iter().map(|(_, value)| value.as_str()).chain(["planted"]);
        let leak = planted.find(|planted| !self.theirs.to_lowercase().contains(planted) && told.contains(planted));
        leak.map(|leak| format!("leak: {}: {leak} in {}", at(), theirs.text))
    }

    async fn request(&self, scene: &TestApp, it: &str, side: &str) -> ComparableResponse {
        let filled = |text: &str, it: &str| {
            let text = text.replace("{it}", it).replace("{own}", &scene.own.to_string());
            let text = text.replace("{organization}", scene.theirs(Kind::Organization));
            let text = text.replace("{member}", scene.theirs(Kind::Membership)).replace("{invite}", scene.theirs(Kind::Invite));
            // Names have the same length in both requests.
            text.replace("{domain_id}", scene.theirs(Kind::DomainId)).replace("{new}", &format!("{side}{}", self.number))
        };
        let encoded = it.replace('{', "%7B").replace('}', "%7D");
        let url = scene.url(&filled(self.probe.path, &encoded));
        let (_, header, value) = scene.callers.iter().find(|(who, ..)| *who == self.who).unwrap();
        let method = Method::from_bytes(self.probe.method.as_bytes()).unwrap();
        // Retry on 503, which an overloaded store causes.
        let response = eventually("the service returns no 503", async || {
            let mut request = scene.client.request(method.clone(), &url).header(*header, value);
            if !self.probe.body.is_empty() {
                request = request.header("content-type", "application/json").body(filled(self.probe.body, it));
            }
            request.send().await.ok().filter(|response| response.status() != 503)
        })
        .await;
        let status = response.status().as_u16();
        let headers = response.headers().iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
        let mut headers: BTreeMap<String, String> = headers.collect();
        assert!(headers.remove("x-request-id").is_some());
        headers.remove("date");
        let text = response.text().await.unwrap();
        let mut body: Value = serde_json::from_str(&without(&text, it)).unwrap_or(Value::Null);
        body.as_object_mut().and_then(|members| members.remove("request_id"));
        if status < 400 {
            body = shape(&body);
            // The caller's own times and secrets vary in length.
            headers.remove("content-length");
        }
        ComparableResponse { comparable: (status, headers, body), text }
    }
}

/// Replaces the requested name with a canonical spelling.
fn without(text: &str, asked: &str) -> String {
    let canonical = asked.trim_matches(['{', '}']).to_lowercase();
    let hyphenated = Uuid::try_parse(asked).map(|id| id.to_string()).unwrap_or_default();
    let spellings = [asked, &canonical, canonical.trim_end_matches('.'), &hyphenated];
    spellings.into_iter().filter(|spelling| !spelling.is_empty()).fold(text.to_owned(), |text, it| text.replace(it, "{it}"))
}

/// Replaces values with their types.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), shape(value))).collect(),
        Value::Array(items) => items.iter().map(shape).collect(),
        Value::String(_) => "text".into(),
        Value::Number(_) => 1.into(),
        other => other.clone(),
    }
}

/// Returns a plausible id or name that does not exist.
fn nonexistent(kind: Kind, random: &mut StdRng) -> String {
    let name = |random: &mut StdRng, length: usize| -> String {
        (0..length).map(|_| char::from(random.random_range(b'a'..=b'z'))).collect::<String>() + ".example"
    };
    match kind {
        Kind::Domain => name(random, "planted".len()),
        Kind::Registered => name(random, "planted-not-verified".len()),
        Kind::Token | Kind::ExpiredToken => PlainClickToken::generate().reveal().to_owned(),
        _ => Uuid::from_u128(random.random()).to_string(),
    }
}

/// Returns both names in another spelling.
fn respelt(kind: Kind, how: usize, both: [String; 2]) -> (String, String) {
    let spell = |text: String| match (kind, how) {
        (Kind::Token | Kind::ExpiredToken, _) => text,
        (Kind::Domain | Kind::Registered, 0) => text + ".",
        (Kind::Domain | Kind::Registered, 1) => format!("a.{text}"),
        (Kind::Domain | Kind::Registered, _) | (_, 0) => text.to_uppercase(),
        (_, 1) => text.replace('-', ""),
        (_, _) => format!("{{{text}}}"),
    };
    let [theirs, nobodys] = both.map(spell);
    (theirs, nobodys)
}

#[tokio::test(flavor = "multi_thread")]
async fn r1_s2_foreign_and_missing_data_get_equal_responses() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let comparisons = size("PROBES", USUAL) / 2;
    let scene = test_app::start().await;
    let before = holdings(&scene).await;
    let shots: Vec<Comparison> = (0..comparisons).map(|number| Comparison::random(&scene, &mut random, number)).collect();
    let fired = stream::iter(&shots).map(|shot| shot.compare(&scene)).buffer_unordered(PARALLEL);
    let wrong: Vec<String> = fired.filter_map(std::future::ready).take(20).collect().await;
    assert!(wrong.is_empty(), "seed {seed}: {}", wrong.join("\n"));
    assert_eq!(holdings(&scene).await, before, "a probe changed another organization's data: seed {seed}");
}

#[test]
fn s2_every_route_with_an_id_is_probed() {
    let sources = [
        include_str!("../../../../query-api/src/routes.rs"),
        include_str!("../../../../identity-api/src/routes.rs"),
        include_str!("../../../../ingest-gateway/src/routes.rs"),
    ];
    let nameless = |path: &str| {
        let names = path.split('?').next().unwrap().split('/');
        names.map(|name| if name.starts_with('{') { "{}" } else { name }).collect::<Vec<_>>().join("/")
    };
    let registered = sources.iter().flat_map(|source| source.split(".route(").skip(1));
    let registered = registered.filter_map(|registration| registration.split('"').nth(1));
    // Sign-in providers belong to no organization. Other routes without an id have a domain or organization as a parameter.
    let with_ids =
        registered.filter(|path| (path.contains('{') && !path.contains("{provider}")) || path.contains("content-owners"));
    for path in with_ids {
        assert!(PROBES.iter().any(|probe| nameless(probe.path) == nameless(path)), "{path}: add a probe of it");
    }
}
