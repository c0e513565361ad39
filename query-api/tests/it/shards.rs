//! Observations over two servers: every read says to the byte what it says on one, and says nothing while one of the two is away.
//! `TEST_SHARDS=2` has the other tests of this program keep their rows on so many.
//!
//! Must put the same rows into both stores, and must not compare a store with itself.

use crate::crawlers::tell;
use crate::model::{owners, random_rows};
use crate::test_app::{Observation, TestApp, seen, start_shards};
use query_api::{Settings, State, router};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use reqwest::StatusCode;
use schemas::event::SourceRole::{Agent, Edge};
use schemas::identity::OrgType;
use service_kit::settings::{ClickHouseSettings, ClickHouseShards};
use service_kit::stores;
use service_kit::testing::{
    ClickHouseProxy, ClickHouseRequest, SeededOrg, TestServer, TestStores, client, eventually, random_seed, size,
};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

const OWNERS: [&str; 22] = [
    "/content-owners/summary",
    "/content-owners/summary?domain=example.com",
    "/content-owners/events?limit=1000",
    "/content-owners/events?limit=3&offset=2",
    "/content-owners/events/a",
    "/content-owners/events/b",
    "/content-owners/urls?limit=1000",
    "/content-owners/urls?limit=2&offset=1&by=section",
    "/content-owners/corroboration?limit=1000",
    "/content-owners/corroboration?limit=1000&by=day",
    "/content-owners/funnel?limit=1000&by=agent",
    "/content-owners/funnel?limit=1000&by=url",
    "/content-owners/funnel?limit=1000&by=day",
    "/content-owners/series?by=hour",
    "/content-owners/series?split=type",
    "/content-owners/series?split=role",
    "/content-owners/series?split=agent",
    "/content-owners/series?split=platform",
    "/content-owners/series?split=operator",
    "/content-owners/series?split=status",
    "/content-owners/crawlers?limit=1000",
    "/content-owners/coverage",
];
const PARTIES: [&str; 5] = [
    "/agent/events?limit=1000",
    "/agent/events?limit=3&offset=1",
    "/agent/summary",
    "/agent/series?by=hour",
    "/sessions/00000000-0000-0000-0000-000000000001/document",
];
const WINDOW: &str = "since=2026-01-01T00:00:00.003Z&until=2026-01-01T00:00:00.007Z";

/// One server, and the same world over two.
struct Both {
    one: TestApp,
    two: TestApp,
    owners: [SeededOrg; 2],
    agent: SeededOrg,
}

impl Both {
    async fn start(shards: &[local::private::ClickHouse]) -> Self {
        let one = TestApp::new().await;
        let two = TestStores { clickhouse: TestStores::over_shards(shards).await.clickhouse, ..one.stores.clone() };
        let settings = Settings::on(two.clickhouse.clone(), two.postgres.clone());
        let server = TestServer::start(router(State::connect(&settings).await.unwrap())).await;
        let two = TestApp::on(two, server);
        tell(&one).await;
        tell(&two).await;
        let (owners, agent) = (owners(&one).await, one.seed().org("Agent", OrgType::Agent).await);
        let started = "INSERT INTO sessions (organization_id, session_id, privacy_level, started_at) \
                       VALUES ($1, '00000000-0000-0000-0000-000000000001', 3, '2026-01-01T00:00:00Z')";
        sqlx::query(started).bind(agent.id.0).execute(&one.stores.pool).await.unwrap();
        Self { one, two, owners, agent }
    }

    /// The same rows in blocks that are cut and compacted as it comes.
    async fn fill(&self, rows: &[Observation], random: &mut StdRng) {
        for app in [&self.one, &self.two] {
            app.empty().await;
            let mut rest = rows;
            while !rest.is_empty() {
                let (block, later) = rest.split_at(random.random_range(1..=rest.len()));
                app.insert(block).await;
                if random.random_bool(0.5) {
                    app.compact().await;
                }
                rest = later;
            }
        }
    }

    /// The same with windows, and page after page.
    async fn compare_all(&self, trace: &str) -> usize {
        let (mut compared, both) = (self.walk(trace).await, ["", WINDOW]);
        for owner in &self.owners {
            compared += self.compare(owner, &both, trace).await;
        }
        compared
    }

    /// How many bytes the answers had that were compared, of this owner and of the agent.
    async fn compare(&self, owner: &SeededOrg, windows: &[&str], trace: &str) -> usize {
        let mut compared = 0;
        let of_owner = OWNERS.iter().map(|path| (&owner.key, path));
        for (key, path) in of_owner.chain(PARTIES.iter().map(|path| (&self.agent.key, path))) {
            let joined = if path.contains('?') { "&" } else { "?" };
            for path in windows.iter().map(|window| format!("{path}{joined}{window}")) {
                let (expected, found) = (self.one.get(key, &path, &[]).await, self.two.get(key, &path, &[]).await);
                if expected.status == StatusCode::OK {
                    assert_eq!(found, expected, "{path} {trace}");
                    compared += found.text.len();
                } else {
                    assert_eq!(found.problem(), expected.problem(), "{path} {trace}");
                }
            }
        }
        compared
    }

    /// Raises the high watermark of a partition, on one shard alone.
    async fn raise(&self, shard: usize, (partition, high_watermark): (i32, i64)) {
        let shard = stores::clickhouse(&self.two.stores.clickhouse.each_shard()[shard]).unwrap();
        let raised = format!("INSERT INTO high_watermarks VALUES ({partition}, {high_watermark})");
        shard.query(&raised).execute().await.unwrap();
    }

    /// A list to its end, page after page, by each store's own places.
    async fn walk(&self, trace: &str) -> usize {
        let (mut compared, mut places) = (0, [String::new(), String::new()]);
        loop {
            let mut pages = Vec::new();
            for (app, place) in [&self.one, &self.two].into_iter().zip(&mut places) {
                let url = format!("{}/content-owners/events?limit=2{place}", app.server.url);
                let answer = client().get(url).header("x-api-key", &self.owners[0].key).send().await.unwrap();
                let next = answer.headers().get("x-next-after").map(|next| next.to_str().unwrap().to_owned());
                *place = next.map(|next| format!("&after={next}")).unwrap_or_default();
                pages.push((answer.status(), place.is_empty(), answer.text().await.unwrap()));
            }
            assert_eq!(pages[1], pages[0], "a page of a walk: {trace}");
            compared += pages[0].2.len();
            if places[0].is_empty() {
                return compared;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_read_over_two_shards_is_byte_for_byte_that_of_one_server() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let shards = start_shards(2).await;
    let both = Both::start(&shards).await;
    let agent = both.agent.id.0.as_u128();
    let (mut compared, cases) = (0, size("TEST_ROUNDS", 1));
    for case in 0..cases {
        // At one call: the repeats of two would have equal versions, and which of these stays is not said.
        let mut rows = random_rows(&mut random, &[1, 2, agent, agent, 1 << 127]);
        rows.shuffle(&mut random);
        both.fill(&rows, &mut random).await;
        compared += both.compare_all(&format!("seed {seed} case {case}")).await;
    }
    assert!(compared > cases * 5_000, "the cases compared hardly anything: {compared} bytes, seed {seed}");
}

/// Makes each of a request of its own, accepted in another order than they come.
fn accept_each(rows: &mut [Observation], random: &mut StdRng) {
    let mut accepted: Vec<u64> = (1..=rows.len() as u64).collect();
    accepted.shuffle(random);
    rows.iter_mut().zip(accepted).for_each(|(row, accepted)| row.version = !(accepted << 12));
}

/// A block is cut by shards, and one of these has its piece: whatever is read is what there was before, until all have theirs, also where
/// the shard has merged what cannot be seen with what can.
#[tokio::test(flavor = "multi_thread")]
async fn half_of_a_request_is_in_no_read() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let shards = start_shards(2).await;
    let both = Both::start(&shards).await;
    let agent = both.agent.id.0.as_u128();
    let (mut changed, cases) = (0, size("TEST_ROUNDS", 1));
    for case in 0..cases {
        let mut rows = random_rows(&mut random, &[1, 2, agent, 1 << 127]);
        rows.extend((0..40).flat_map(|_| random_rows(&mut random, &[agent])).take(60));
        rows.shuffle(&mut random);
        accept_each(&mut rows, &mut random);
        let (before, block) = rows.split_at(rows.len() / 2);
        both.two.command("TRUNCATE TABLE high_watermarks").await;
        both.fill(before, &mut random).await;
        let first = random.random_range(0..2);
        let piece =
            |place| block.iter().filter(|row| ClickHouseShards::place_of(row.event_key, 2) == place).cloned().collect::<Vec<_>>();
        let (trace, owner) = (format!("seed {seed} case {case}"), &both.owners[random.random_range(0..2)]);
        both.two.insert_at(&piece(first), (3, 5)).await;
        both.two.command("OPTIMIZE TABLE observations FINAL").await;
        both.two.command("OPTIMIZE TABLE retrieval_index FINAL").await;
        let all_before = both.compare(owner, &[""], &format!("one piece: {trace}")).await;
        both.two.insert_at(&piece(1 - first), (3, 5)).await;
        both.raise(0, (3, 5)).await;
        both.raise(0, (0, 9)).await;
        assert_eq!(both.compare(owner, &[""], &format!("both pieces: {trace}")).await, all_before);
        // The worker died when it had told one of the two.
        both.raise(random.random_range(0..2), (3, 6)).await;
        both.one.insert(block).await;
        changed += usize::from(both.compare(owner, &[""], &format!("all is there: {trace}")).await != all_before);
    }
    assert_eq!(changed, cases, "a block that changes nothing: seed {seed}");
}

/// A gateway that was not told that a request is on the log puts it there again: it is seen by its first position.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_logged_again_stays_in_sight() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let shards = start_shards(2).await;
    let both = Both::start(&shards).await;
    let agent = both.agent.id.0.as_u128();
    let mut rows = random_rows(&mut random, &[1, 2, agent, 1 << 127]);
    rows.extend((0..40).flat_map(|_| random_rows(&mut random, &[agent])).take(60));
    accept_each(&mut rows, &mut random);
    both.one.insert(&rows).await;
    both.two.insert_at(&rows, (3, 5)).await;
    both.raise(1, (3, 6)).await;
    let owner = &both.owners[random.random_range(0..2)];
    let compared = both.compare(owner, &[""], &format!("once on the log: seed {seed}")).await;
    assert!(compared > 5_000, "hardly anything was compared: {compared} bytes, seed {seed}");
    // Further on in that partition, and in another one.
    for again in [(3, 9), (1, 2)] {
        let piece: Vec<_> = rows.iter().filter(|row| ClickHouseShards::place_of(row.event_key, 2) == 0).cloned().collect();
        both.two.insert_at(&piece, again).await;
        both.two.command("OPTIMIZE TABLE observations FINAL").await;
        both.two.command("OPTIMIZE TABLE retrieval_index FINAL").await;
        both.compare(owner, &[""], &format!("again at {again:?}: seed {seed}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn more_rows_than_an_answer_may_have_are_counted_over_shards() {
    let shards = start_shards(2).await;
    let both = Both::start(&shards).await;
    for (place, shard) in both.two.stores.clickhouse.each_shard().iter().enumerate() {
        let rows = format!(
            "INSERT INTO observations (site, event_key, org_id, version, source_role, event_type, at, content_url) \
             SELECT 'com.example', number, toUUID('00000000-0000-0000-0000-000000000001'), 1, 'edge', 'content_retrieved', \
               toDateTime64('2026-01-01 00:00:00', 3, 'UTC') + number, 'https://example.com/' FROM numbers(240001) WHERE number % 2 = {place}"
        );
        stores::clickhouse(shard).unwrap().query(&rows).execute().await.unwrap();
    }
    both.two.compact().await;
    let key = &both.owners[0].key;
    assert_eq!(both.two.total(key, &[]).await, 240_001);
    let page = both.two.page(key, "/content-owners/events", &[("limit", "2")]).await;
    assert_eq!((page["total"].as_u64(), page["items"].as_array().map(Vec::len)), (Some(240_001), Some(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_shard_is_away_reads_are_503_and_none_leaves_its_rows_out() {
    let mut shards = start_shards(2).await;
    let both = Both::start(&shards).await;
    both.two.insert(&[seen("example.com", 1).role(Edge), seen("example.com", 2).role(Agent).session(1)]).await;
    let key = &both.owners[0].key;
    assert_eq!(both.two.total(key, &[]).await, 2);
    shards[1].kill_9();
    for path in OWNERS.iter().filter(|path| !path.contains("/events/")) {
        let answer = both.two.get(key, path, &[]).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{path}: {}", answer.text);
    }
    assert_eq!(both.two.get(&both.agent.key, "/agent/events", &[]).await.status, StatusCode::SERVICE_UNAVAILABLE);
    let shard = &mut shards[1];
    shard.restart().unwrap();
    eventually("reads are answered again", || async { (both.two.ask(key, &[]).await.status == StatusCode::OK).then_some(()) })
        .await;
    assert_eq!(both.two.total(key, &[]).await, 2);
}

/// Has the store wait before it goes on planning what it has named a table for.
fn planned_slowly(request: &mut ClickHouseRequest) {
    request.statement = request.statement.replace(" PREWHERE ", " PREWHERE (SELECT sleep(0.15)) = 0 AND ");
}

/// Requests of two events, one for each shard: stored on one shard, a moment later on the other, and then below the watermark.
async fn arrive(both: &Both) -> Infallible {
    for number in 0_u64.. {
        let rows = [0, 1].map(|shard| {
            let row = seen("example.com", u128::from(2 * number + shard)).role(Edge);
            row.version(!((number + 1) << 12))
        });
        let offset = i64::try_from(number).unwrap();
        for row in rows {
            both.two.insert_at(&[row], (0, offset)).await;
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
        both.raise(1, (0, offset + 1)).await;
        both.raise(0, (0, offset + 1)).await;
    }
    unreachable!("numbers do not run out")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_whole_in_every_read_however_long_the_shards_plan_it() {
    let shards = start_shards(2).await;
    let both = Both::start(&shards).await;
    let proxy = ClickHouseProxy::before(&shards[0].url(), planned_slowly).await;
    let slow = ClickHouseSettings {
        clickhouse_url: proxy.url().to_owned(),
        clickhouse_shards: [proxy.url().to_owned(), shards[1].url()].into_iter().collect(),
        ..both.two.stores.clickhouse.clone()
    };
    let state = State::connect(&Settings::on(slow, both.two.stores.postgres.clone())).await.unwrap();
    let reader = TestApp::on(both.two.stores.clone(), TestServer::start(router(state)).await);
    let reported = "UPDATE api_keys SET organization_id = $1 WHERE organization_id = $2";
    let first = seen("example.com", 0).org_id;
    sqlx::query("INSERT INTO organizations (id, name, org_type) VALUES ($1, 'reporter', 'platform')")
        .bind(first)
        .execute(&reader.stores.pool)
        .await
        .unwrap();
    sqlx::query(reported).bind(first).bind(both.agent.id.0).execute(&reader.stores.pool).await.unwrap();
    let reads = async {
        let mut totals = BTreeSet::new();
        for _ in 0..size("TEST_ROUNDS", 8) {
            let of_owner = reader.total(&both.owners[0].key, &[]).await;
            let listed =
                reader.page(&both.owners[0].key, "/content-owners/events", &[("limit", "1")]).await["total"].as_u64().unwrap();
            let own = reader.page(&both.agent.key, "/agent/events", &[("limit", "1")]).await["total"].as_u64().unwrap();
            assert!([of_owner, listed, own].iter().all(|total| total % 2 == 0), "{of_owner} {listed} {own}");
            assert!(of_owner <= listed && listed <= own, "{of_owner} {listed} {own}");
            totals.insert(own);
        }
        assert!(totals.len() > 2, "nothing came between the reads: {totals:?}");
    };
    tokio::select! {
        never = arrive(&both) => match never {},
        () = reads => {}
    }
    let slowed = proxy.take_requests().iter().filter(|request| request.statement.contains(" PREWHERE ")).count();
    assert!(slowed >= 3 * size("TEST_ROUNDS", 8), "{slowed} statements were slowed");
}

/// Why a read over these settings does not start.
async fn refusal(settings: ClickHouseSettings, stores: &TestStores) -> String {
    let refused = State::connect(&Settings::on(settings, stores.postgres.clone())).await;
    refused.err().map(|error| format!("{error:#}")).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_in_another_order_or_of_another_number_are_refused() {
    let (shards, others) = (start_shards(2).await, start_shards(2).await);
    let stores = TestStores::over_shards(&shards).await;
    let url = |place: usize| shards[place].url();
    let over = |urls: &[String], asked: String| ClickHouseSettings {
        clickhouse_url: asked,
        clickhouse_shards: urls.iter().cloned().collect::<ClickHouseShards>(),
        ..stores.clickhouse.clone()
    };
    assert_eq!(refusal(over(&[url(0), url(1)], url(1)), &stores).await, "");
    let swapped = refusal(over(&[url(1), url(0)], url(0)), &stores).await;
    assert!(swapped.contains("is shard 2 of 2, and would be shard 1 of 2"), "{swapped}");
    let alone = refusal(over(&[], url(0)), &stores).await;
    assert!(alone.contains("is shard 1 of 2, and would be shard 1 of 1"), "{alone}");
    let elsewhere = refusal(over(&[url(0), url(1)], others[0].url()), &stores).await;
    assert!(elsewhere.contains("not one of CLICKHOUSE_SHARDS="), "{elsewhere}");
    let twice = refusal(over(&[url(0), url(0)], url(0)), &stores).await;
    assert!(twice.contains("an address stands there twice"), "{twice}");
    // The servers are right, and the one that is asked knows two others.
    let elsewhere = TestStores::over_shards(&others).await;
    let mixed = ClickHouseSettings {
        clickhouse_shards: [shards[0].url(), others[1].url()].into_iter().collect(),
        clickhouse_database: elsewhere.clickhouse.clickhouse_database.clone() + "_mixed",
        ..stores.clickhouse.clone()
    };
    stores::apply_clickhouse_ddl(&mixed).await.unwrap();
    let said = refusal(mixed, &stores).await;
    assert!(said.contains("the cluster telemetry"), "{said}");
}
