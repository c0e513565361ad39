//! `GET /content-owners/crawlers` and `/content-owners/coverage` against a second, naive reading of docs/api/reads.md, in memory.

use crate::model::{BOTS, Event, Read, owners, random_rows, refill};
use crate::model_lists::given;
use crate::model_time::{Stretch, visible_from};
use crate::test_app::{NEW_YEAR_MS, Observation, TestApp, seen};
use chrono::DateTime;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::StatusCode;
use schemas::bots::Purpose;
use schemas::crawler::Crawler;
use schemas::event::SourceRole;
use schemas::event_key::EventKey;
use schemas::identity::OrgType;
use schemas::ids::OrgId;
use schemas::instant;
use schemas::log::{FailedFetch, LogRecord, RECORD_VERSION, RecordKind};
use schemas::site::Site;
use serde_json::{Value, json};
use service_kit::testing::random_seed;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

const HOUR_MS: i64 = 3_600_000;
#[derive(Default)]
struct Counted {
    retrievals: u64,
    bytes: u64,
    corroborated: u64,
    statuses: BTreeMap<u16, u64>,
}

/// Operator, bot, purpose, and whether it is verified.
type Crawled = (String, String, &'static str, Option<bool>);

/// Claimed, cited, presented, clicks.
type Claims = [u64; 4];

/// The items of a read, what each operator fetched and its agents claim, and what stands under no operator.
fn expected(events: &[Event<'_>]) -> (Vec<Value>, Vec<Value>, Value) {
    let (mut counted, mut claims): (BTreeMap<Crawled, Counted>, BTreeMap<&str, Claims>) = (BTreeMap::new(), BTreeMap::new());
    for event in events {
        let crawler = event.crawler();
        if let Some((operator, claim)) = claimed(event) {
            claims.entry(operator).or_default()[claim] += 1;
        }
        if !event.is_fetch() || crawler.bot.is_empty() {
            continue;
        }
        let purpose = crawler.purpose.map_or("", Purpose::as_str);
        let of_crawler = counted.entry((crawler.operator, crawler.bot, purpose, crawler.verified)).or_default();
        of_crawler.retrievals += 1;
        of_crawler.bytes += crawler.response_bytes;
        *of_crawler.statuses.entry(crawler.response_status).or_default() += 1;
        of_crawler.corroborated += u64::from(is_corroborated(event));
    }
    let by_operator =
        |operator: &str| counted.iter().filter(|(of, _)| of.0 == operator).map(|(_, of)| of.retrievals).sum::<u64>();
    let unattributed = claims_told(claims.remove("").unwrap_or_default());
    let names: BTreeSet<&str> = counted.keys().map(|of| of.0.as_str()).chain(claims.keys().copied()).collect();
    let mut operators: Vec<_> = names.into_iter().map(|operator| (by_operator(operator), operator)).collect();
    operators.sort_by_key(|(retrievals, operator)| (Reverse(*retrievals), *operator));
    let operators = operators.into_iter().map(|(retrievals, operator)| {
        let mut told = claims_told(claims.get(operator).copied().unwrap_or_default());
        told["operator"] = json!(operator);
        told["retrievals"] = json!(retrievals);
        told
    });
    let operators = operators.collect();
    let mut items: Vec<_> = counted.iter().collect();
    items.sort_by(|(a, one), (b, other)| other.retrievals.cmp(&one.retrievals).then(a.cmp(b)));
    let items = items.into_iter().map(|((operator, bot, purpose, verified), of)| {
        let [.., clicks] = claims.get(operator.as_str()).copied().unwrap_or_default();
        json!({"operator": operator, "bot": bot, "purpose": purpose, "verified": verified, "retrievals": of.retrievals,
            "bytes": of.bytes, "corroborated": of.corroborated, "corroborated_share": of.corroborated as f64 / of.retrievals as f64,
            "statuses": of.statuses.iter().map(|(status, count)| json!({"status": status, "count": count})).collect::<Vec<_>>(),
            "operator_clicks": clicks,
            "retrievals_per_click": (clicks > 0).then(|| by_operator(operator) as f64 / clicks as f64)})
    });
    (items.collect(), operators, unattributed)
}

fn claims_told([claimed, cited, presented, clicks]: Claims) -> Value {
    json!({"claimed": claimed, "cited": cited, "presented": presented, "clicks": clicks})
}

/// Under which operator an event counts as a claim, and as which of [`Claims`].
fn claimed(event: &Event<'_>) -> Option<(&'static str, usize)> {
    let shown = event.shown();
    // Of a click that led elsewhere the owner may be told whose it is; it came back to another host.
    let is_click = shown.event_type == "content_engaged" && matches!(shown.link, 1 | 2) && shown.link_site.is_empty();
    let claimant = claimant(shown).map(|agent| operator_of(&agent));
    match shown.event_type.as_str() {
        _ if is_click => Some((operator_of(&shown.agent_id), 3)),
        // Whichever report represents it, an agent's among others is a claim.
        "content_retrieved" if event.is_fetch() && !claimants(event).is_empty() => Some((claimant.unwrap_or_default(), 0)),
        "content_cited" => Some((claimant.unwrap_or_default(), 1)),
        "content_presented" => Some((claimant.unwrap_or_default(), 2)),
        _ => None,
    }
}

/// The name of the agent that stands behind a report, as an owner is told it.
fn claimant(row: &Observation) -> Option<String> {
    let (role, (_, session, agent)) = (row.counted_role(), row.as_owners_see());
    (role == 1 || (role == 0 && !session.is_nil())).then(|| agent.to_owned())
}

/// The organizations of the agents that report an event.
fn claimants(event: &Event<'_>) -> BTreeSet<Uuid> {
    let is_claim = |row: &&&Observation| {
        let role = row.counted_role();
        role <= 1 && (role == 1 || !row.as_owners_see().1.is_nil())
    };
    event.reports.iter().filter(is_claim).map(|row| row.org_id).collect()
}

/// Claimed by an agent, and seen by a server of somebody else.
fn is_corroborated(event: &Event<'_>) -> bool {
    let claimants = claimants(event);
    let mut servers = event.reports.iter().filter(|row| matches!(row.source_role, 2 | 3)).map(|row| row.org_id);
    !claimants.is_empty() && servers.any(|server| !claimants.contains(&server))
}

fn operator_of(agent: &str) -> &'static str {
    BOTS[1..].iter().find(|(bot, ..)| agent.contains(bot)).map_or("", |(_, operator, _)| operator)
}

/// Agents that say whose bot they are, and one that does not; most other reports are claims and clicks, and most clicks by another's
/// token. By the keys of the report, so that copies agree.
fn with_agents(rows: Vec<Observation>) -> Vec<Observation> {
    let named = |agent: &str| match agent {
        "alpha" => "ChatGPT-User/1.0".to_owned(),
        "beta" => "ClaudeBot".to_owned(),
        other => other.to_owned(),
    };
    let typed = |row: Observation| match row.event_key % 6 {
        _ if row.event_type == "content_retrieved" => row,
        number @ 0..=1 => {
            let issuer = OrgId(Uuid::from_u128(if row.org_id.as_u128() == 1 { 2 } else { 1 }));
            let link = if number == 0 { 1 } else { 2 };
            Observation { link_site: String::new(), ..row.named("content_engaged").bound(issuer, link) }
        }
        2 => row.named("content_cited"),
        3 => row.named("content_presented"),
        _ => row,
    };
    rows.into_iter().map(|row| typed(Observation { agent_id: named(&row.agent_id), ..row })).collect()
}

#[tokio::test]
async fn s1_every_page_of_crawlers_equals_the_model() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let app = TestApp::new().await;
    let owners = owners(&app).await;
    app.stop_merges().await;
    let rounds = given("MODEL_ROUNDS").unwrap_or(15);
    let (mut compared, mut clicks, mut several, mut claims) = (0, 0, 0, [0; 3]);
    // Some seeds make few clicks: the rounds go on until they have compared enough to mean something.
    for round in 0.. {
        if round >= rounds && compared > 15 && clicks > 4 && several > 4 && !claims.contains(&0) {
            break;
        }
        assert!(
            round < rounds + 400,
            "hardly anything compared: {compared} items, {clicks} with clicks, {several} corroborated, {claims:?} operators with claims, seed {seed}"
        );
        let rows = with_agents(random_rows(&mut random, &[1, 2, 1 << 64, 1 << 127]));
        refill(&app, &rows, &mut random).await;
        let read = Read::random(&mut random);
        let (owner, query) = (&owners[read.owner], read.query());
        let query: Vec<(&str, &str)> = query.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let trace = format!("seed {seed} round {round} {read:?}");
        let answer = app.get(&owner.key, "/content-owners/crawlers", &query).await;
        let rows = read.told(&rows);
        let Some(retrievals) = read.seen(&rows) else {
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{trace}");
            continue;
        };
        assert_eq!(answer.status, StatusCode::OK, "{trace}: {}", answer.text);
        let mut found = answer.json();
        let (items, operators, unattributed) = expected(&retrievals);
        for item in found["items"].as_array_mut().unwrap() {
            item.as_object_mut().unwrap().remove("refused");
        }
        assert_eq!((&found["items"], &found["total"]), (&json!(items), &json!(items.len())), "{trace}");
        assert_eq!((&found["operators"], &found["unattributed"]), (&json!(operators), &unattributed), "{trace}");
        if items.len() > 1 {
            let (limit, offset) = (random.random_range(1..3), random.random_range(0..items.len()));
            let (first, passed) = (limit.to_string(), offset.to_string());
            let part = [&query[..], &[("limit", first.as_str()), ("offset", passed.as_str())]].concat();
            let mut page = app.page(&owner.key, "/content-owners/crawlers", &part).await;
            for item in page["items"].as_array_mut().unwrap() {
                item.as_object_mut().unwrap().remove("refused");
            }
            assert_eq!(page["items"], json!(items[offset..(offset + limit).min(items.len())]), "{trace} {limit} {offset}");
            assert_eq!(page["total"], items.len(), "{trace}");
        }
        compared += items.len();
        clicks += items.iter().filter(|item| item["operator_clicks"] != 0).count();
        for (sum, claim) in claims.iter_mut().zip(["claimed", "cited", "presented"]) {
            *sum += operators.iter().filter(|operator| operator[claim] != 0).count();
        }
        several += retrievals.iter().filter(|of| is_corroborated(of)).count();
    }
}

/// docs/api/counting.md#measures
#[tokio::test]
async fn only_fetches_are_retrievals_and_claims() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("a.test").await;
    let answered = |key: u128, response_status| {
        let crawler = Crawler { response_status, response_bytes: 10, ..by_bot(1, None) };
        let server = seen("a.test", key).role(SourceRole::Edge).by(2).crawler(crawler);
        [server, seen("a.test", key).role(SourceRole::Agent).by(1).session(1).agent("alpha")]
    };
    let statuses = [0, 200, 206, 304, 404, 500];
    let rows: Vec<Observation> = (1..).zip(statuses).flat_map(|(key, status)| answered(key, status)).collect();
    app.insert(&rows).await;
    let item = |page: &Value| page["items"][0].clone();
    let part = item(&app.page(&owner.key, "/content-owners/corroboration", &[]).await);
    assert_eq!((&part["retrievals"], &part["seen_by_both"]), (&json!(3), &json!(3)), "{part}");
    let crawlers = app.page(&owner.key, "/content-owners/crawlers", &[]).await;
    let bot = item(&crawlers);
    assert_eq!((&bot["retrievals"], &bot["bytes"], &bot["corroborated"]), (&json!(3), &json!(30), &json!(3)), "{bot}");
    assert_eq!(bot["statuses"], json!([0, 200, 206].map(|status| json!({"status": status, "count": 1}))));
    assert_eq!((&bot["refused"], &crawlers["unattributed"]["claimed"]), (&json!(3), &json!(3)), "{crawlers}");
    let refused: Vec<&Value> = crawlers["refused"].as_array().unwrap().iter().map(|of| &of["status"]).collect();
    assert_eq!(refused, [304, 404, 500]);
    for (key, corroboration) in [(2, json!("seen_by_both")), (4, Value::Null), (5, Value::Null)] {
        let id = answered(key, 0)[1].key_id();
        let event = app.page(&owner.key, &format!("/content-owners/events/{id}"), &[]).await;
        assert_eq!(event["corroboration"], corroboration, "{key}");
    }
    for path in ["corroboration", "crawlers"] {
        let failed = app.page(&owner.key, &format!("/content-owners/{path}"), &[("outcome", "failed")]).await;
        assert_eq!(failed["total"], 0, "{path}");
    }
}

#[tokio::test]
async fn an_agent_without_a_role_claims_a_fetch_of_a_server() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("a.test").await;
    app.insert(&[seen("a.test", 1).role(SourceRole::Edge).by(2), seen("a.test", 1).by(1).session(1).agent("GPTBot")]).await;
    let part = app.page(&owner.key, "/content-owners/corroboration", &[]).await["items"][0].clone();
    let crawlers = app.page(&owner.key, "/content-owners/crawlers", &[]).await;
    assert_eq!((&part["seen_by_both"], &crawlers["unattributed"]["claimed"]), (&json!(1), &json!(1)), "{part} {crawlers}");
}

/// The hours that are called covered.
fn covered(told: &Value) -> BTreeSet<i64> {
    let hour = |span: &Value, end: &str| {
        span[end].as_str().unwrap().parse::<DateTime<chrono::Utc>>().unwrap().timestamp_millis() / HOUR_MS
    };
    let spans = told["coverage"]["spans"].as_array().unwrap().iter().filter(|span| span["covered"] == true);
    spans.flat_map(|span| hour(span, "start")..hour(span, "end")).collect()
}

#[tokio::test]
async fn s1_the_hours_that_a_server_told_of_are_those_of_the_model() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let app = TestApp::new().await;
    let owners = owners(&app).await;
    let from = visible_from(&app).await;
    app.stop_merges().await;
    let (mut compared, mut several, rounds) = (0, 0, given("MODEL_ROUNDS").unwrap_or(8));
    for round in 0.. {
        if round >= rounds && compared > rounds / 3 && several > 2 {
            break;
        }
        assert!(round < rounds + 400, "hardly any hours: {compared} in {several} rounds, seed {seed}");
        // Long enough that a time of the model is an hour or two.
        let stretch = Stretch(18_780_001 / random.random_range(3..9));
        let rows = stretch.rows(&random_rows(&mut random, &[1, 2, 1 << 64, 1 << 127]));
        stretch.owners(&app, &from).await;
        refill(&app, &rows, &mut random).await;
        let read = Read::stretched(stretch, &mut random);
        let query = read.query();
        let query: Vec<(&str, &str)> = query.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let trace = format!("seed {seed} round {round} scale {} {read:?}", stretch.0);
        let key = &owners[read.owner].key;
        let Some(times) = read.seen_by_servers(&rows) else {
            assert_eq!(app.get(key, "/content-owners/coverage", &query).await.status, StatusCode::FORBIDDEN, "{trace}");
            continue;
        };
        let expected: BTreeSet<i64> = times.into_iter().map(|at| at.div_euclid(HOUR_MS)).collect();
        let told = app.page(key, "/content-owners/coverage", &query).await;
        assert_eq!(covered(&told), expected, "{trace}");
        assert_eq!(told["coverage"]["hours_covered"], expected.len(), "{trace}");
        compared += expected.len();
        several += usize::from(expected.len() > 2);
    }
}

#[tokio::test]
async fn an_hour_is_covered_if_it_has_an_event_that_a_server_reported() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("a.test").await;
    app.insert(&[seen("a.test", 1).role(SourceRole::Agent).by(1)]).await;
    let hours = async |number: i64| {
        let (since, until) = (hour(number), hour(number + 1));
        let window = [("since", since.as_str()), ("until", until.as_str())];
        app.page(&owner.key, "/content-owners/coverage", &window).await["coverage"]["hours_covered"].clone()
    };
    assert_eq!(hours(0).await, 0, "an agent's claim says nothing of servers");
    // However much later the server saw it.
    app.insert(&[seen("a.test", 1).role(SourceRole::Edge).by(2).after(72 * HOUR_MS + 5)]).await;
    assert_eq!((hours(0).await, hours(72).await), (json!(1), json!(0)));
}

#[tokio::test]
async fn f50_spans_are_bounded_and_hours_are_counted_in_full() {
    const HOURS: usize = 100_001;
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("a.test").await;
    drained(&app, owner.id, &[(0, 1)]).await;
    let every_other = |number: usize| 2 * HOUR_MS * i64::try_from(number).unwrap();
    let reports: Vec<_> = (0..HOURS)
        .map(|number| seen("a.test", number as u128 + 1).role(SourceRole::Edge).after(every_other(number)).accepted(0))
        .collect();
    app.insert(&reports).await;
    for (path, spans) in
        [("/content-owners/summary", 1_000), ("/content-owners/series", 1_000), ("/content-owners/coverage", 10_000)]
    {
        let told = app.page(&owner.key, path, &[]).await;
        assert_eq!(told["coverage"]["hours_covered"], HOURS, "{path}");
        assert_eq!(told["coverage"]["spans"].as_array().map(Vec::len), Some(spans), "{path}");
    }
}

#[tokio::test]
async fn more_agents_than_a_read_has_rows_are_added_up_and_a_summary_names_them_all() {
    const AGENTS: u128 = 100_001;
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("a.test").await;
    let reporter = app.seed().org("reporter", OrgType::Agent).await;
    let name = |number: u128| format!("agent {number}");
    let report = seen("a.test", 0).role(SourceRole::Agent).of(reporter.id).named("content_cited");
    let cited = |number| Observation { event_key: number, ..report.clone() }.agent(&name(number));
    // One of them cites twice.
    let last = Observation { event_key: AGENTS + 1, ..report.clone() }.agent(&name(AGENTS));
    app.insert(&(1..=AGENTS).map(cited).chain([last]).collect::<Vec<_>>()).await;
    let told = app.page(&owner.key, "/content-owners/crawlers", &[]).await;
    assert_eq!(told["unattributed"], json!({"claimed": 0, "cited": AGENTS as u64 + 1, "presented": 0, "clicks": 0}));

    let mut names: Vec<String> = (1..AGENTS).map(name).collect();
    names.sort_unstable();
    names.insert(0, name(AGENTS));
    for (path, key) in [("/content-owners/summary", &owner.key), ("/agent/summary", &reporter.key)] {
        let told = app.page(key, path, &[]).await;
        assert_eq!(told["total_events"], AGENTS as u64 + 1, "{path}");
        let agents = told["agents"].as_array().unwrap();
        assert!(agents.iter().map(|agent| agent["agent_id"].as_str().unwrap()).eq(names.iter()), "{path}");
        assert_eq!((&agents[0]["event_count"], &agents[1]["event_count"]), (&json!(2), &json!(1)), "{path}");
    }
}

/// An owner of `a.test` whose drain has told of some hours after new year: hour and lines.
async fn drained(app: &TestApp, org: OrgId, hours: &[(i64, i64)]) {
    for (hour, lines) in hours {
        sqlx::query(
            "INSERT INTO drain_hours (source, organization_id, provider, hour, lines, kept, people, bad, dropped, bytes, \
             lag_ms, received_at) VALUES ($1, $2, 'ndjson', $3, $4, 0, 0, 0, '{}', 0, 0, now())",
        )
        .bind(Uuid::from_u128(7))
        .bind(org.0)
        .bind(DateTime::from_timestamp_millis(NEW_YEAR_MS + hour * HOUR_MS).unwrap())
        .bind(lines)
        .execute(&app.stores.pool)
        .await
        .unwrap();
    }
}

/// One of [`BOTS`].
fn by_bot(number: usize, verified: Option<bool>) -> Crawler {
    let (bot, operator, purpose) = BOTS[number];
    Crawler { bot: bot.to_owned(), operator: operator.to_owned(), purpose, verified, ..Crawler::default() }
}

fn hour(number: i64) -> String {
    instant::text(DateTime::from_timestamp_millis(NEW_YEAR_MS + number * HOUR_MS).unwrap())
}

#[tokio::test]
async fn hours_without_a_line_say_so_and_are_never_a_zero() {
    let app = TestApp::new().await;
    let (owner, other) = (app.seed().owner_of("a.test").await, app.seed().owner_of("b.test").await);
    drained(&app, owner.id, &[(1, 15), (2, 3), (3, 0), (7, 1)]).await;
    drained(&app, other.id, &[(4, 9)]).await;
    // An edge worker's report makes its hour known; an agent's claim does not.
    let reports = [
        seen("a.test", 1).role(SourceRole::Edge).after(5 * HOUR_MS),
        seen("a.test", 2).role(SourceRole::Agent).after(6 * HOUR_MS),
    ];
    app.insert(&reports).await;
    let window = [("since", hour(0)), ("until", hour(8))];
    let window = window.each_ref().map(|(name, at)| (*name, at.as_str()));
    let spans = |told: &Value| -> Vec<(String, String, bool)> {
        let of = |span: &Value| {
            (span["start"].as_str().unwrap().to_owned(), span["end"].as_str().unwrap().to_owned(), span["covered"] == true)
        };
        told["coverage"]["spans"].as_array().unwrap().iter().map(of).collect()
    };
    let expected: Vec<_> = [(0, 1, false), (1, 3, true), (3, 5, false), (5, 6, true), (6, 7, false), (7, 8, true)]
        .map(|(start, end, covered)| (hour(start), hour(end), covered))
        .into();
    for path in ["/content-owners/coverage", "/content-owners/crawlers"] {
        let told = app.page(&owner.key, path, &window).await;
        assert_eq!(spans(&told), expected, "{path}");
        assert_eq!((&told["coverage"]["hours_covered"], &told["coverage"]["hours_uncovered"]), (&json!(4), &json!(4)), "{path}");
        let open = app.page(&owner.key, path, &[]).await;
        assert_eq!(spans(&open), expected[1..], "{path}: from the first line to the last");
    }
    for path in ["/content-owners/summary", "/content-owners/series"] {
        let told = app.page(&owner.key, path, &window).await;
        assert_eq!(spans(&told), expected, "{path}");
    }
    let theirs = app.page(&other.key, "/content-owners/coverage", &window).await;
    assert_eq!(theirs["coverage"]["hours_covered"], 1, "nobody's coverage is another's");
    let nobodys = app.seed().owner_of("c.test").await;
    let none = app.page(&nobodys.key, "/content-owners/coverage", &[]).await;
    assert_eq!(none["coverage"], json!({"hours_covered": 0, "hours_uncovered": 0, "spans": []}));
}

/// A drain of these hosts; it has no line yet.
async fn drain_of(app: &TestApp, org: OrgId, hosts: &[&str]) -> Uuid {
    let made = "INSERT INTO drains (organization_id, name, provider, hosts) VALUES ($1, 'x', 'ndjson', $2) RETURNING id";
    sqlx::query_scalar(made).bind(org.0).bind(hosts).fetch_one(&app.stores.pool).await.unwrap()
}

#[tokio::test]
async fn figures_tell_what_is_covered_where_the_hosts_have_a_drain_and_nowhere_else() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("a.test").await;
    app.seed().verify(owner.id, "b.test").await;
    app.insert(&[seen("a.test", 1).role(SourceRole::Edge), seen("b.test", 2).role(SourceRole::Edge)]).await;
    let until = hour(2);
    let told = async |path: &str, domain: &str| {
        let window = [("since", "2026-01-01T00:00:00Z"), ("until", until.as_str()), ("domain", domain)];
        app.page(&owner.key, path, &window).await["coverage"].clone()
    };
    let paths = ["/content-owners/summary", "/content-owners/series"];
    for path in paths {
        assert_eq!(told(path, "a.test").await, Value::Null, "{path}: a silent hour of who has no drain is no news");
    }
    let drain = drain_of(&app, owner.id, &["shop.a.test"]).await;
    for path in paths {
        assert_eq!(told(path, "a.test").await["hours_uncovered"], 1, "{path}: the hour after the report of the edge");
        assert_eq!(told(path, "news.a.test").await, Value::Null, "{path}: another host's drain");
        assert_eq!(told(path, "b.test").await, Value::Null, "{path}: another domain's drain");
    }
    drained(&app, owner.id, &[(1, 3)]).await;
    sqlx::query("UPDATE drain_hours SET drain_id = $1").bind(drain).execute(&app.stores.pool).await.unwrap();
    sqlx::query("UPDATE drains SET deleted_at = now()").execute(&app.stores.pool).await.unwrap();
    for path in paths {
        assert_eq!(told(path, "shop.a.test").await["hours_covered"], 1, "{path}: what a drain has told stays told");
        assert_eq!(told(path, "b.test").await, Value::Null, "{path}: of its hosts");
    }
    let other = app.page(&owner.key, "/content-owners/coverage", &[("domain", "b.test")]).await;
    assert_eq!(other["coverage"]["hours_covered"], 1, "the edge's report, and no line of the drain of another host");
    let text = app.get_as("text/csv", &owner.key, "/content-owners/series").await.3;
    assert!(text.starts_with("start,total_events,total_sessions\n"), "records have no place for it: {text}");
}

/// A drain's record of log lines whose request returned no content, accepted some months after new year.
fn failing(org: OrgId, months: i64, lines: &[FailedFetch]) -> LogRecord {
    LogRecord {
        v: RECORD_VERSION,
        org,
        received_at_us: (NEW_YEAR_MS + 24 * HOUR_MS * (1 + 31 * months)) * 1_000,
        kind: RecordKind::Drain,
        drain: None,
        session: None,
        named_sessions: Vec::new(),
        events: Vec::new(),
        failed_fetches: lines.to_vec(),
    }
}

/// A line about a host of one of [`BOTS`], some minutes after new year.
fn failed(key: u128, host: &str, bot: usize, status: u16, minutes: i64) -> FailedFetch {
    let (bot, operator, purpose) = BOTS[bot];
    FailedFetch {
        own_key: EventKey(key),
        at_ms: NEW_YEAR_MS + minutes * 60_000,
        site: Site::from_domain(host).unwrap().as_str().to_owned(),
        path: "/".to_owned(),
        bot: bot.to_owned(),
        operator: operator.to_owned(),
        purpose: purpose.unwrap(),
        verified: None,
        status,
    }
}

/// A window and a filter, and what a read says of refused requests.
type Refusals<'a> = (&'a [(&'a str, &'a str)], &'a [(&'a str, &'a str, u16, u64)]);

#[tokio::test]
async fn refused_requests_are_counted_once_from_lines_and_events() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("a.test").await;
    app.seed().verify(owner.id, "b.test").await;
    let lines = [
        failed(1, "a.test", 1, 403, 0),
        failed(2, "www.a.test", 1, 403, 59),
        failed(3, "a.test", 1, 304, 60),
        failed(4, "b.test", 1, 403, 89),
        failed(5, "a.test", 1, 403, 90),
        failed(6, "a.test", 3, 500, 0),
        failed(8, "a.test", 2, 0, 0),
        failed(7, "c.test", 1, 403, 0),
    ];
    // Copies: in another order, accepted in another month, of which one says something else.
    let mut again = lines.clone();
    again.reverse();
    again[2].status = 404;
    app.store(&[failing(owner.id, 1, &again), failing(owner.id, 0, &lines[..3])]).await;
    app.store(&[failing(owner.id, 0, &lines), failing(owner.id, 2, &again)]).await;
    let seen_with = |key: u128, status: u16| {
        let crawler = Crawler { response_status: status, ..by_bot(1, Some(true)) };
        seen("a.test", key).role(SourceRole::Edge).by(9).crawler(crawler)
    };
    app.insert(&[seen_with(1, 200), seen_with(2, 404)]).await;
    let until = hour(1).replace("01:00:00", "01:30:00");
    let claude = ("ClaudeBot", "Anthropic", 500, 1);
    let unanswered = ("ChatGPT-User", "OpenAI", 0, 1);
    let not_found = ("GPTBot", "OpenAI", 404, 1);
    let expected: [Refusals<'_>; 5] = [
        (&[("until", &until)], &[("GPTBot", "OpenAI", 403, 3), unanswered, claude, ("GPTBot", "OpenAI", 304, 1), not_found]),
        (&[], &[("GPTBot", "OpenAI", 403, 4), unanswered, claude, ("GPTBot", "OpenAI", 304, 1), not_found]),
        (&[("domain", "a.test")], &[("GPTBot", "OpenAI", 403, 3), unanswered, claude, ("GPTBot", "OpenAI", 304, 1), not_found]),
        (&[("outcome", "revalidation")], &[("GPTBot", "OpenAI", 304, 1)]),
        (&[("outcome", "fetch")], &[]),
    ];
    for (query, expected) in expected {
        let told = app.page(&owner.key, "/content-owners/crawlers", query).await;
        let refused = |(bot, operator, status, count): &(&str, &str, u16, u64)| json!({"bot": bot, "operator": operator, "status": status, "count": count});
        let refused: Vec<Value> = expected.iter().map(refused).collect();
        assert_eq!(told["refused"], json!(refused), "{query:?}");
        let of_gpt_bot = expected.iter().filter(|(bot, ..)| *bot == "GPTBot").map(|(.., count)| count).sum::<u64>();
        let items = told["items"].as_array().unwrap();
        assert!(items.iter().all(|item| item["bot"] == "GPTBot" && item["refused"] == of_gpt_bot), "{query:?} {items:?}");
    }
    let series = async |query: &[(&str, &str)]| -> Vec<(String, u64)> {
        let told = app.page(&owner.key, "/content-owners/series", query).await;
        let item =
            |item: &Value| (item["outcome"].as_str().unwrap_or_default().to_owned(), item["total_events"].as_u64().unwrap());
        told["items"].as_array().unwrap().iter().map(item).collect()
    };
    let by_outcome = [("failed", 7), ("fetch", 1), ("revalidation", 1)].map(|(name, count)| (name.to_owned(), count));
    assert_eq!(series(&[("split", "outcome")]).await, by_outcome);
    assert_eq!(series(&[("outcome", "failed")]).await, [(String::new(), 7)]);
    let by_status = app.page(&owner.key, "/content-owners/series", &[("outcome", "failed"), ("split", "status")]).await;
    let of_none = by_status["items"].as_array().unwrap().iter().find(|item| item["status"] == 0);
    assert_eq!(of_none.map(|item| &item["total_events"]), Some(&json!(1)), "a request that wasn't answered: {by_status}");
    assert_eq!(series(&[("outcome", "failed"), ("split", "type")]).await, [(String::new(), 1)], "a line has no type");
    let summary = app.page(&owner.key, "/content-owners/summary", &[("outcome", "failed")]).await;
    assert_eq!(summary["total_events"], 1, "a line is no event");
}

#[tokio::test]
async fn a_table_of_ones_own_names_the_operators_of_clicks() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bots.json");
    let own = json!({"version": "own-1", "bots": [{"bot": "Own bot", "operator": "Ourselves", "purpose": "search", "documentation": "",
        "patterns": ["OwnFetcher"]}]});
    std::fs::write(&file, own.to_string()).unwrap();
    let app = TestApp::naming_bots_by(&file).await;
    let owner = app.seed().owner_of("a.test").await;
    let click = |key: u128, agent: &str| seen("a.test", key).named("content_engaged").by(9).session(key).agent(agent);
    let issuer = OrgId(Uuid::from_u128(8));
    let clicks = [click(1, "OwnFetcher/1.0").bound(issuer, 1), click(2, "GPTBot").bound(issuer, 1)];
    app.insert(&clicks).await;
    let told = app.page(&owner.key, "/content-owners/crawlers", &[]).await;
    assert_eq!(told["unattributed"]["clicks"], 1, "GPTBot is nobody's by this table");
}

#[tokio::test]
async fn crawlers_are_told_as_csv_and_lines_too() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("a.test").await;
    let crawler = Crawler { response_status: 200, response_bytes: 3, ..by_bot(3, None) };
    app.insert(&[seen("a.test", 1).role(SourceRole::Edge).by(9).crawler(crawler)]).await;
    let path = "/content-owners/crawlers";
    let (status, kind, total, text) = app.get_as("text/csv", &owner.key, path).await;
    assert_eq!((status, kind.as_str(), total.as_str()), (StatusCode::OK, "text/csv; charset=utf-8", "1"));
    let expected = "operator,bot,purpose,verified,retrievals,bytes,statuses,corroborated,corroborated_share,refused,operator_clicks,retrievals_per_click\n\
        Anthropic,ClaudeBot,training,null,1,3,\"[{\"\"status\"\":200,\"\"count\"\":1}]\",0,0.0,0,0,null\n";
    assert_eq!(text, expected);
    let (_, kind, _, text) = app.get_as("application/x-ndjson", &owner.key, path).await;
    assert_eq!((kind.as_str(), text.lines().count()), ("application/x-ndjson", 1));
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["bot"], "ClaudeBot");
}
