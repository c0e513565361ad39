//! Statements: the service, the crate `statements` and the Python program count the same, and the same as the reads.

use crate::random_reports::{self, random_rows};
use crate::test_app::{NEW_YEAR_MS, Observation, Query, TestApp, fetch_on, get_as};
use chrono::TimeDelta;
use query_api::{Settings, State, StatementSettings, router};
use rand::SeedableRng;
use rand::rngs::StdRng;
use reqwest::StatusCode;
use schemas::bots::Purpose;
use schemas::crawler::Crawler;
use schemas::event::SourceRole;
use schemas::event_key::{EventKey, OwnId};
use schemas::identity::{OrgType, Scope};
use schemas::ids::OrgId;
use schemas::log::{FailedFetch, LogRecord};
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::roles::Role;
use service_kit::secret_encryption::SecretsKey;
use service_kit::settings::ClickHouseSettings;
use service_kit::testing::{ClickHouseProxy, ClickHouseRequest, TestServer, client, random_seed, size};
use std::process::Command;
use std::sync::{Arc, Mutex};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../infra/clients/python/verify_statement.py");
const JANUARY: &[(&str, &str)] = &[("since", "2026-01-01"), ("until", "2026-01-31")];
const HOUR_MS: i64 = 3_600_000;

/// A service that can close months, with a clock that the test sets.
struct World {
    app: TestApp,
    /// A second process with the same stores and key.
    other: TestServer,
    clock: Clock,
    manifest: String,
    folder: tempfile::TempDir,
}

struct Files {
    statement: String,
    evidence: String,
}

impl World {
    async fn at(now: &str) -> Self {
        let app = Query::start().await;
        let (clock, folder) = (Clock::manual(now.parse().unwrap()), tempfile::tempdir().unwrap());
        let own = app.stores.signed_in_as(Role::Query);
        let settings = signing(Settings::with_stores(own.clickhouse, own.postgres));
        let start = async || TestServer::start(router(State::connect_at(&settings, clock.clone()).await.unwrap())).await;
        let (server, other) = (start().await, start().await);
        let app = Query::served_by(app, server);
        let manifest = app.read("", "/.well-known/content-telemetry.json", &[]).await.raw;
        Self { app, other, clock, manifest, folder }
    }

    async fn closer(&self, owner: OrgId) -> String {
        self.app.seed().key(owner, OrgType::ContentOwner, &[Scope::IdentityWrite, Scope::TelemetryRead]).await
    }

    async fn post(&self, key: &str, body: &Value) -> (StatusCode, Value) {
        post(&self.app.server.url, key, body).await
    }

    /// Closes January, and returns the id of the statement.
    async fn close(&self, key: &str, expected: StatusCode) -> String {
        let (status, closed) = self.post(key, &json!({"period": "2026-01"})).await;
        assert_eq!((status, &closed["created"]), (expected, &json!(expected == StatusCode::CREATED)), "{closed}");
        closed["id"].as_str().unwrap().to_owned()
    }

    async fn files(&self, key: &str, id: &str) -> Files {
        let text = async |path: &str| {
            let response = self.app.read(key, path, &[]).await;
            assert_eq!(response.status, StatusCode::OK, "{path}: {}", response.raw);
            response.raw
        };
        let path = format!("/content-owners/statements/{id}");
        Files { statement: text(&path).await, evidence: text(&format!("{path}/evidence")).await }
    }

    /// Runs both programs, which must print the same text. Returns the differences that they found.
    fn verify(&self, files: &Files, earlier: &[&str]) -> Vec<String> {
        let texts: Vec<Vec<u8>> = earlier.iter().map(|text| text.as_bytes().to_vec()).collect();
        let found =
            statements::verify(files.statement.as_bytes(), files.evidence.as_bytes(), &texts, Some(self.manifest.as_bytes()))
                .unwrap();
        let file = |name: &str, text: &str| {
            let path = self.folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let mut python = Command::new("python3");
        python.arg(PYTHON).args([file("statement", &files.statement), file("evidence", &files.evidence)]);
        python.arg("--manifest").arg(file("manifest", &self.manifest));
        for (n, text) in earlier.iter().enumerate() {
            python.arg("--previous").arg(file(&format!("earlier-{n}"), text));
        }
        let output = python.output().expect("this test needs Python 3.11");
        let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr);
        assert_eq!(said, found.to_string());
        assert!(!found.checks.iter().any(|check| check.starts_with("not checked")), "{found}");
        found.differences
    }

    /// Compares the totals of January with the reads.
    async fn assert_equals_reads(&self, key: &str, statement: &str, lines: u64) {
        let totals: Value = serde_json::from_str::<Value>(statement).unwrap()["totals"].take();
        let whole = self.app.summary(key, JANUARY).await;
        let all: u64 = tiers(&totals).map(|(_, _, events)| events).sum();
        assert_eq!((all - lines, &totals["sessions"]), (whole.total_events, &json!(whole.total_sessions)), "{totals}");
        for of in &whole.events_by_type {
            let found: u64 =
                tiers(&totals).filter(|(measure, ..)| event_type(measure) == of.event_type).map(|(.., events)| events).sum();
            let lines = if of.event_type == "content_retrieved" { lines } else { 0 };
            assert_eq!(found - lines, of.count, "{}: {totals}", of.event_type);
        }
        for tier in ["claimed", "corroborated", "observed", "unknown"] {
            let read = self.app.total(key, &[JANUARY, &[("evidence", tier)]].concat()).await;
            let found: u64 = tiers(&totals).filter(|(_, name, _)| *name == tier).map(|(.., events)| events).sum();
            assert_eq!(found - if tier == "observed" { lines } else { 0 }, read, "{tier}: {totals}");
        }
        for (measure, outcome) in [("fetch", "fetch"), ("revalidation", "revalidation"), ("failed_fetch", "failed")] {
            let split = self.app.total(key, &[JANUARY, &[("outcome", outcome)]].concat()).await;
            let found: u64 = tiers(&totals).filter(|(name, ..)| *name == measure).map(|(.., events)| events).sum();
            assert_eq!(found - if measure == "failed_fetch" { lines } else { 0 }, split, "{measure}: {totals}");
        }
        let coverage = self.app.page(key, "/content-owners/coverage", JANUARY).await;
        assert_eq!((&totals["covered_hours"], &totals["hours"]), (&coverage["coverage"]["hours_covered"], &json!(744)));
    }
}

/// Adds the configuration for signing statements.
pub(crate) fn signing(settings: Settings) -> Settings {
    Settings {
        statements: StatementSettings { statement_keys: Some(SecretsKey::generate()) },
        public_url: Some("https://telemetry.example".parse().unwrap()),
        ..settings
    }
}

async fn post(url: &str, key: &str, body: &Value) -> (StatusCode, Value) {
    let request = client().post(format!("{url}/content-owners/statements")).header("x-api-key", key).json(body);
    let response = request.send().await.unwrap();
    (response.status(), response.json().await.unwrap())
}

/// Returns the measure, tier and number of events of each entry in `totals`.
fn tiers(totals: &Value) -> impl Iterator<Item = (&str, &str, u64)> {
    let measures = totals["events"].as_object().unwrap().iter();
    measures.flat_map(|(measure, tiers)| {
        let tiers = tiers.as_object().unwrap().iter().filter(|(tier, _)| *tier != "signed");
        tiers.map(move |(tier, events)| (measure.as_str(), tier.as_str(), events.as_u64().unwrap()))
    })
}

fn event_type(measure: &str) -> &str {
    match measure {
        "fetch" | "revalidation" | "failed_fetch" => "content_retrieved",
        "grounding" => "content_grounded",
        "citation" => "content_cited",
        "presentation" => "content_presented",
        "visit" | "engagement" => "content_engaged",
        other => other,
    }
}

fn line_of_bot(status: u16, at_ms: i64) -> FailedFetch {
    FailedFetch {
        own_key: EventKey::own(&OwnId::Reported { org: OrgId(uuid::Uuid::nil()), id: &format!("{status} {at_ms}") }),
        at_ms,
        site: "test.a".to_owned(),
        path: "/gone".to_owned(),
        bot: "GPTBot".to_owned(),
        operator: "OpenAI".to_owned(),
        purpose: Purpose::Training,
        verified: None,
        status,
        signature: None,
    }
}

/// Reports by an agent and by the owner's drain in January.
fn january(agent: OrgId, owner: OrgId) -> Vec<LogRecord> {
    let page = |number: u128| fetch_on("a.test", number).url(&format!("https://a.test/blog/{number}")).after(HOUR_MS);
    let claim = |number: u128| page(number).by_org(agent).role(SourceRole::Agent).session(number % 2 + 1).agent("ChatGPT-User");
    let crawler = |response_status| Crawler {
        bot: "ChatGPT-User".to_owned(),
        operator: "OpenAI".to_owned(),
        response_status,
        ..Crawler::default()
    };
    let seen = |number: u128, status| page(number).by_org(owner).role(SourceRole::Origin).crawler(crawler(status));
    let cited = claim(1).named("content_cited").data(r#"{"license_ref":"deal-1"}"#);
    let cited = Observation { output_id: "answer".to_owned(), ..cited };
    let reports = [claim(1), claim(2), claim(2).again(1), cited, claim(3).accepted(30 * 24 * HOUR_MS)];
    let lines = [seen(1, 200), seen(2, 404), seen(7, 200)];
    let own = |row: &Observation| LogRecord { is_owners: true, ..row.record() };
    let mut records: Vec<LogRecord> = reports.iter().map(Observation::record).chain(lines.iter().map(own)).collect();
    records[5].failed_fetches = vec![line_of_bot(404, NEW_YEAR_MS + 2 * HOUR_MS), line_of_bot(500, NEW_YEAR_MS + HOUR_MS)];
    records
}

#[tokio::test]
async fn anyone_can_recount_a_closed_month() {
    let world = World::at("2026-01-31T23:59:59Z").await;
    let (app, agent) = (&world.app, world.app.seed().org("agent", OrgType::Agent).await);
    let owner = app.seed().owner_of("a.test").await;
    let key = world.closer(owner.id).await;
    app.store(&january(agent.id, owner.id)).await;
    let (status, refusal) = world.post(&key, &json!({"period": "2026-01"})).await;
    assert_eq!((status, &refusal["errors"][0]["field"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("period")));

    world.clock.advance(TimeDelta::days(3));
    let first = world.close(&key, StatusCode::CREATED).await;
    let one = world.files(&owner.key, &first).await;
    assert_eq!(world.verify(&one, &[]), Vec::<String>::new());
    world.assert_equals_reads(&owner.key, &one.statement, 2).await;
    let statement: Value = serde_json::from_str(&one.statement).unwrap();
    let line = |content: &str, license: &str| {
        let lines = statement["lines"].as_array().unwrap().iter();
        lines.clone().find(|line| line["content"] == content && line["license"] == license).unwrap()
    };
    assert_eq!(line("https://a.test/blog/1", "")["events"]["fetch"]["corroborated"], 1);
    assert_eq!(line("https://a.test/blog/1", "deal-1")["counter"]["AI_Responses_Generated"], 1);
    assert_eq!(line("https://a.test/gone", "")["events"]["failed_fetch"]["observed"], 2);
    assert_eq!(statement["evidence"]["reports"], 10);
    for secret in [agent.id, owner.id] {
        assert!(!one.evidence.contains(&secret.to_string()), "organizations have opaque ids");
    }
    assert_eq!(world.close(&key, StatusCode::OK).await, first, "nothing has changed");

    // Without a row, and with another figure, both programs find a difference.
    let shorter = one.evidence.lines().skip(1).map(|row| format!("{row}\n")).collect();
    assert!(!world.verify(&Files { statement: one.statement.clone(), evidence: shorter }, &[]).is_empty());
    let altered = one.statement.replacen(r#""corroborated":1"#, r#""corroborated":2"#, 1);
    assert!(!world.verify(&Files { statement: altered, evidence: one.evidence.clone() }, &[]).is_empty());

    let late = fetch_on("a.test", 7).url("https://a.test/blog/7").after(HOUR_MS).accepted(34 * 24 * HOUR_MS);
    app.insert(&[late.by_org(agent.id).role(SourceRole::Agent).session(9)]).await;
    world.clock.advance(TimeDelta::days(1));
    let second = world.close(&key, StatusCode::CREATED).await;
    let two = world.files(&owner.key, &second).await;
    assert_eq!(world.verify(&two, &[&one.statement]), Vec::<String>::new());
    world.assert_equals_reads(&owner.key, &two.statement, 2).await;
    let corrections = serde_json::from_str::<Value>(&two.statement).unwrap()["corrections"].take();
    assert_eq!((&corrections["late_reports"], &corrections["other_reports"]), (&json!(1), &json!(0)));
    let changed = corrections["changes"].as_array().unwrap().iter();
    let changed: Vec<_> =
        changed.map(|change| (change["figure"].as_str().unwrap(), &change["before"], &change["after"])).collect();
    let (zero, one_more) = (json!(0), json!(1));
    let expected = [
        ("events.fetch.corroborated", &zero, &one_more),
        ("events.fetch.observed", &one_more, &zero),
        ("sessions", &zero, &one_more),
    ];
    assert_eq!(changed, expected);
    assert_eq!(world.files(&owner.key, &first).await.statement, one.statement, "revisions don't change");
    let audited: Vec<(String, String)> =
        sqlx::query_as("SELECT actor_kind, detail ->> 'revision' FROM audit_log WHERE action = 'statement.closed' ORDER BY at")
            .fetch_all(&app.stores.pool)
            .await
            .unwrap();
    assert_eq!(audited, [("key", "1"), ("key", "2")].map(|(kind, revision)| (kind.to_owned(), revision.to_owned())));
}

/// The service, the crate and the Python program count random months alike, and like the reads.
#[tokio::test]
async fn statements_equal_the_reads_of_random_months() {
    let world = World::at("2026-02-03T09:00:00Z").await;
    let owners = random_reports::owners(&world.app).await;
    let seed = random_seed();
    println!("TEST_SEED={seed}");
    for round in 0..size("TEST_ROUNDS", 4) as u64 {
        let random = &mut StdRng::seed_from_u64(seed.wrapping_add(round));
        let rows = random_rows(random, &[1, 2, 3]);
        random_reports::refill(&world.app, &rows, random).await;
        sqlx::query("TRUNCATE statements, statement_evidence").execute(&world.app.stores.pool).await.unwrap();
        for owner in &owners {
            let key = world.closer(owner.id).await;
            let one = world.files(&owner.key, &world.close(&key, StatusCode::CREATED).await).await;
            assert_eq!(world.verify(&one, &[]), Vec::<String>::new(), "{}", one.statement);
            for body in [json!({"period": "2026-01", "by": "section"}), json!({"period": "2026-01", "operator": "OpenAI"})] {
                let (_, closed) = world.post(&key, &body).await;
                let files = world.files(&owner.key, closed["id"].as_str().unwrap()).await;
                let earlier = if body["by"] == "section" { vec![one.statement.as_str()] } else { Vec::new() };
                assert_eq!(world.verify(&files, &earlier), Vec::<String>::new(), "{}", files.statement);
            }
        }
        // All reports were accepted before this time.
        world.clock.advance(TimeDelta::days(40));
        for owner in &owners {
            let key = world.closer(owner.id).await;
            let (status, closed) = world.post(&key, &json!({"period": "2026-01"})).await;
            let files = world.files(&owner.key, closed["id"].as_str().unwrap()).await;
            assert_eq!(status == StatusCode::CREATED, closed["revision"] == 2, "{closed}");
            world.assert_equals_reads(&owner.key, &files.statement, 0).await;
        }
        world.clock.advance(TimeDelta::days(-40));
    }
}

/// If two processes close months at the same time, the numbers have no gaps and the chain is valid.
#[tokio::test]
async fn concurrent_closes_keep_the_chain_intact() {
    let world = World::at("2026-05-01T00:00:00Z").await;
    let owner = world.app.seed().owner_of("a.test").await;
    let key = &world.closer(owner.id).await;
    let rows: Vec<_> = (0..4).map(|month| fetch_on("a.test", month + 1).after(month as i64 * 31 * 24 * HOUR_MS)).collect();
    world.app.insert(&rows).await;
    let urls = [&world.app.server.url, &world.other.url];
    let close = async |n: usize| post(urls[n % 2], key, &json!({"period": format!("2026-0{}", n / 4 + 1)})).await;
    let closed = futures::future::join_all((0..12).map(close)).await;
    let created = closed.iter().filter(|(status, _)| *status == StatusCode::CREATED).count();
    assert!(closed.iter().all(|(status, _)| status.is_success()), "{closed:?}");
    assert_eq!(created, 3, "one statement per month");
    let list = world.app.page(&owner.key, "/content-owners/statements", &[]).await;
    let mut items = list["items"].as_array().unwrap().clone();
    items.sort_by_key(|item| item["number"].as_i64());
    assert_eq!(items.iter().map(|item| item["number"].as_i64().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
    let mut previous: Option<String> = None;
    for item in items {
        let files = world.files(&owner.key, item["id"].as_str().unwrap()).await;
        let earlier: Vec<&str> = previous.iter().map(String::as_str).collect();
        assert_eq!(world.verify(&files, &earlier), Vec::<String>::new());
        previous = Some(files.statement);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_transaction_is_open_while_clickhouse_is_read() {
    const OPEN: &str = "SELECT count(*) FROM pg_stat_activity \
                        WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    let app = Query::start().await;
    let owner = app.seed().owner_of("a.test").await;
    let key = app.seed().key(owner.id, OrgType::ContentOwner, &[Scope::IdentityWrite]).await;
    app.insert(&[fetch_on("a.test", 1)]).await;
    let counts = Arc::new(Mutex::new(Vec::new()));
    let (pool, found, runtime) = (app.stores.pool.clone(), Arc::clone(&counts), Handle::current());
    let count = move |_: &mut ClickHouseRequest| {
        let open = block_in_place(|| runtime.block_on(sqlx::query_scalar(OPEN).fetch_one(&pool)));
        found.lock().unwrap().push(open.unwrap());
    };
    let own = app.stores.signed_in_as(Role::Query);
    let proxy = ClickHouseProxy::start_before(&own.clickhouse.clickhouse_url, count).await;
    let clickhouse = ClickHouseSettings { clickhouse_url: proxy.url().to_owned(), ..own.clickhouse };
    let settings = signing(Settings::with_stores(clickhouse, own.postgres));
    let state = State::connect_at(&settings, Clock::manual("2026-02-03T09:00:00Z".parse().unwrap())).await.unwrap();
    let server = TestServer::start(router(state)).await;
    counts.lock().unwrap().clear();
    let (status, closed) = post(&server.url, &key, &json!({"period": "2026-01"})).await;
    assert_eq!((status, &closed["reports"]), (StatusCode::CREATED, &json!(1)), "{closed}");
    let counts: Vec<i64> = std::mem::take(&mut counts.lock().unwrap());
    assert!(counts.len() > 2 && counts.iter().all(|open| *open == 0), "{counts:?}");
}

#[tokio::test]
async fn partners_read_statements_but_cannot_close() {
    let world = World::at("2026-02-03T09:00:00Z").await;
    let (app, seed) = (&world.app, world.app.seed());
    let (owner, stranger) = (seed.owner_of("a.test").await, seed.owner_of("b.test").await);
    let partner = seed.org("partner", OrgType::Platform).await;
    seed.delegate(owner.id, partner.id).await;
    let id = world.close(&world.closer(owner.id).await, StatusCode::CREATED).await;
    let path = format!("/content-owners/statements/{id}");
    let from = [("delegated_from", owner.id.to_string())];
    let from: Vec<(&str, &str)> = from.iter().map(|(name, value)| (*name, value.as_str())).collect();
    for path in [path.clone(), format!("{path}/evidence"), "/content-owners/statements".to_owned()] {
        assert_eq!(app.read(&partner.key, &path, &from).await.status, StatusCode::OK, "{path}");
        assert_eq!(app.read(&partner.key, &path, &[]).await.status, StatusCode::FORBIDDEN, "{path}");
    }
    let writer = seed.key(partner.id, OrgType::Platform, &[Scope::IdentityWrite]).await;
    let body = json!({"period": "2026-01"});
    for url in [app.server.url.clone(), format!("{}/content-owners/statements?delegated_from={}", app.server.url, owner.id)] {
        let url = if url.contains('?') { url } else { format!("{url}/content-owners/statements") };
        let response = client().post(url).header("x-api-key", &writer).json(&body).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::FORBIDDEN);
    }
    // Without identity:write, and as a member who isn't an owner.
    assert_eq!(world.post(&owner.key, &body).await.0, StatusCode::FORBIDDEN);
    let session = seed.session("ada@a.test", TimeDelta::days(4_000)).await;
    seed.join("ada@a.test", owner.id).await;
    let by_session = async || {
        let url = format!("{}/content-owners/statements", app.server.url);
        client().post(url).bearer_auth(&session).json(&body).send().await.unwrap().status()
    };
    assert_eq!(by_session().await, StatusCode::FORBIDDEN);
    seed.own("ada@a.test", &[owner.id]).await;
    assert_eq!(by_session().await, StatusCode::OK);
    // Others' statements look like unknown ones.
    let unknown = "/content-owners/statements/01900000-0000-7000-8000-000000000000";
    for end in ["", "/evidence"] {
        let expected = app.read(&stranger.key, &format!("{unknown}{end}"), &[]).await.problem();
        assert_eq!(expected.0, StatusCode::NOT_FOUND);
        assert_eq!(app.read(&stranger.key, &format!("{path}{end}"), &[]).await.problem(), expected);
        assert_eq!(app.read(&stranger.key, &format!("/content-owners/statements/x{end}"), &[]).await.problem(), expected);
    }
}

#[tokio::test]
async fn rejects_cookies_from_other_sites_pages() {
    let world = World::at("2026-02-03T09:00:00Z").await;
    let (app, seed) = (&world.app, world.app.seed());
    let owner = seed.owner_of("a.test").await;
    let session = seed.session("ada@a.test", TimeDelta::days(4_000)).await;
    seed.own("ada@a.test", &[owner.id]).await;
    for (header, value, expected) in [
        ("x-none", "", 403),
        ("sec-fetch-site", "cross-site", 403),
        ("sec-fetch-site", "same-site", 403),
        ("origin", "https://other.example", 403),
        ("sec-fetch-site", "same-origin", 201),
        ("origin", "https://telemetry.example", 200),
    ] {
        let url = format!("{}/content-owners/statements", app.server.url);
        let request = client().post(url).header("cookie", format!("telemetry-session={session}")).header(header, value);
        assert_eq!(request.json(&json!({"period": "2026-01"})).send().await.unwrap().status(), expected, "{header}: {value}");
    }
}

#[tokio::test]
async fn returns_every_format_of_a_statement() {
    let world = World::at("2026-02-03T09:00:00Z").await;
    let (app, agent) = (&world.app, world.app.seed().org("agent", OrgType::Agent).await);
    let owner = app.seed().owner_of("a.test").await;
    app.store(&january(agent.id, owner.id)).await;
    let id = world.close(&world.closer(owner.id).await, StatusCode::CREATED).await;
    let path = format!("/content-owners/statements/{id}");
    let (_, kind, _, csv) = get_as(app, "text/csv", &owner.key, &path).await;
    assert_eq!(kind, "text/csv; charset=utf-8");
    let columns = "period,revision,operator,host,content,license,measure,claimed,corroborated,observed,unknown,signed,sessions,covered_hours,note";
    assert_eq!(csv.lines().next(), Some(columns));
    assert!(csv.contains("2026-01,1,,a.test,https://a.test/blog/1,deal-1,citation,1,0,0,0,0,1,"), "{csv}");
    assert_eq!(csv, app.read(&owner.key, &path, &[("format", "csv")]).await.raw);
    let counter = app.read(&owner.key, &path, &[("format", "counter")]).await.raw;
    assert!(counter.starts_with("Platform,Publisher,URI,License,Access_Method,Metric_Type,2026-01,Note\n"), "{counter}");
    assert!(counter.contains(",a.test,https://a.test/blog/1,deal-1,Agent,AI_Responses_Generated,1,"), "{counter}");
    for text in [&csv, &counter] {
        assert!(text.lines().nth(1).unwrap().ends_with(schemas::statement_responses::STATEMENT_NOTE), "{text}");
    }
    let workbook =
        client().get(format!("{}{path}?format=xlsx", app.server.url)).header("x-api-key", &owner.key).send().await.unwrap();
    assert_eq!(workbook.headers()["content-type"], "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet");
    assert!(workbook.headers()["content-disposition"].to_str().unwrap().ends_with("statement-2026-01-1-revision-1.xlsx\""));
    assert!(workbook.bytes().await.unwrap().starts_with(b"PK"), "a ZIP archive");
    assert_eq!(app.read(&owner.key, &path, &[("format", "pdf")]).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn rejects_unknown_months_operators_and_members() {
    let world = World::at("2026-02-03T09:00:00Z").await;
    let owner = world.app.seed().owner_of("a.test").await;
    let key = world.closer(owner.id).await;
    for body in [
        json!({"period": "2026-02"}),
        json!({"period": "January"}),
        json!({"period": "2026-01", "operator": "nobody"}),
        json!({"period": "2026-01", "by": "host"}),
        json!({"period": "2026-01", "other": 1}),
        json!({}),
    ] {
        assert_eq!(world.post(&key, &body).await.0, StatusCode::UNPROCESSABLE_ENTITY, "{body}");
    }
    let (_, refusal) = world.post(&key, &json!({"other": 1})).await;
    let detail = refusal["errors"][0]["detail"].as_str().unwrap();
    assert!(detail.contains("`other`") && !detail.contains("column"), "{detail}");
    assert_eq!(world.post(&key, &json!([])).await.0, StatusCode::BAD_REQUEST);
    let without_domain = world.app.seed().org("none", OrgType::ContentOwner).await;
    let key = world.closer(without_domain.id).await;
    assert_eq!(world.post(&key, &json!({"period": "2026-01"})).await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn limits_statements_and_their_bytes_per_day() {
    const STORE: &str = "INSERT INTO statements (id, organization_id, operator, period, lines_by, number, revision, closed_at, sha256, \
                         reports, late_reports, document, actor_kind, actor_id) \
                         SELECT gen_random_uuid(), $1, 'earlier', '2025-01', 'url', n, n, '2026-02-03T08:00:00Z', '', 0, 0, '', 'key', $1 \
                         FROM generate_series(1, $2) AS n";
    const FILL: &str = "INSERT INTO statement_evidence \
                        SELECT id, $3, convert_to(repeat('x', $2), 'UTF8') FROM statements WHERE organization_id = $1 AND number = 1";
    let world = World::at("2026-02-03T09:00:00Z").await;
    let pool = &world.app.stores.pool;
    sqlx::query("ALTER TABLE statement_evidence ALTER content SET STORAGE EXTENDED").execute(pool).await.unwrap();
    for (host, statements, bytes, left) in [("a.test", 199, 0, 1), ("b.test", 1, 256 << 20, 0), ("c.test", 1, 255 << 20, 4)] {
        let owner = world.app.seed().owner_of(host).await;
        let key = &world.closer(owner.id).await;
        sqlx::query(STORE).bind(owner.id.0).bind(statements).execute(pool).await.unwrap();
        for piece in 0..64 {
            sqlx::query(FILL).bind(owner.id.0).bind(bytes / 64).bind(piece).execute(pool).await.unwrap();
        }
        let urls = [&world.app.server.url, &world.other.url];
        let bodies = ["OpenAI", "Anthropic", "Google", "Amazon"].map(|name| json!({"period": "2026-01", "operator": name}));
        let close = async |n: usize| post(urls[n % 2], key, &bodies[n]).await;
        let closed = futures::future::join_all((0..4).map(close)).await;
        let created = closed.iter().filter(|(status, _)| *status == StatusCode::CREATED).count();
        let refused = closed.iter().filter(|(status, _)| *status == StatusCode::TOO_MANY_REQUESTS).count();
        assert_eq!((created, refused), (left, 4 - left), "{host}: {closed:?}");
        for (n, (status, _)) in closed.iter().enumerate() {
            let expected = if *status == StatusCode::CREATED { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
            assert_eq!(close(n).await.0, expected, "{host}: existing statements are returned");
        }
    }
}
