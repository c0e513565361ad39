//! Reads over two servers return the same bytes as reads over one server, and 503 while one of the two is unavailable.
//!
//! With `TEST_SHARDS=2`, this program's other tests use two servers too.

use crate::random_reports::{OWNERS, in_window, owners, random_rows, refill};
use crate::test_app::{Query, TestApp, fetch_on, over_shards, start_shards};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use reqwest::StatusCode;
use schemas::event::SourceRole::{Agent, Edge};
use schemas::identity::OrgType;
use service_kit::testing::{SeededOrg, client, eventually, random_seed, size};

const REPORTERS: [&str; 5] = [
    "/agent/events?limit=1000",
    "/agent/events?limit=3&offset=1",
    "/agent/summary",
    "/agent/series?by=hour",
    "/sessions/00000000-0000-0000-0000-000000000001/document",
];

/// The same stores on one server and on two.
struct Both {
    one: TestApp,
    two: TestApp,
    owners: [SeededOrg; 2],
    agent: SeededOrg,
}

impl Both {
    async fn start() -> Self {
        let one = Query::on_one_server().await;
        let two = over_shards(&one.stores, start_shards(2).await).await;
        let (owners, agent) = (owners(&one).await, one.seed().org("Agent", OrgType::Agent).await);
        let started = "INSERT INTO sessions (organization_id, session_id, privacy_level, started_at) \
                       VALUES ($1, '00000000-0000-0000-0000-000000000001', 3, '2026-01-01T00:00:00Z')";
        sqlx::query(started).bind(agent.id.0).execute(&one.stores.pool).await.unwrap();
        Self { one, two, owners, agent }
    }

    /// Compares all reads of both owners and the agent. Returns the size of the equal responses.
    async fn compare(&self, trace: &str) -> usize {
        let mut compared = 0;
        let of_owners = self.owners.iter().flat_map(|owner| OWNERS.map(|path| (&owner.key, path)));
        for (key, path) in of_owners.chain(REPORTERS.map(|path| (&self.agent.key, path))) {
            for path in [path.to_owned(), in_window(path)] {
                let (expected, found) = (self.one.read(key, &path, &[]).await, self.two.read(key, &path, &[]).await);
                assert_eq!(found.status, expected.status, "{path} {trace}: {} {}", found.raw, expected.raw);
                if expected.status == StatusCode::OK {
                    assert_eq!(found, expected, "{path} {trace}");
                    compared += found.raw.len();
                } else {
                    assert_eq!(found.problem(), expected.problem(), "{path} {trace}");
                }
            }
        }
        compared + self.walk(trace).await
    }

    /// Compares a list page by page. Each store has its own cursors.
    async fn walk(&self, trace: &str) -> usize {
        let (mut compared, mut cursors) = (0, [String::new(), String::new()]);
        loop {
            let mut pages = Vec::new();
            for (app, cursor) in [&self.one, &self.two].into_iter().zip(&mut cursors) {
                let url = format!("{}/content-owners/events?limit=2{cursor}", app.server.url);
                let answer = client().get(url).header("x-api-key", &self.owners[0].key).send().await.unwrap();
                let next = answer.headers().get("x-next-after").map(|next| next.to_str().unwrap().to_owned());
                *cursor = next.map(|next| format!("&after={next}")).unwrap_or_default();
                pages.push((answer.status(), cursor.is_empty(), answer.text().await.unwrap()));
            }
            assert_eq!(pages[1], pages[0], "a page differs: {trace}");
            compared += pages[0].2.len();
            if cursors[0].is_empty() {
                return compared;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_shards_return_the_same_reads_as_one_server() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let both = Both::start().await;
    let agent = both.agent.id.0.as_u128();
    let (mut compared, cases) = (0, size("TEST_ROUNDS", 1));
    for case in 0..cases {
        let mut rows = random_rows(&mut random, &[1, 2, agent, agent, 1 << 127]);
        rows.extend(random_rows(&mut random, &[1, 2, agent]));
        crate::test_app::accept_apart(&mut rows);
        rows.shuffle(&mut random);
        refill(&both.one, &rows, &mut random).await;
        refill(&both.two, &rows, &mut random).await;
        compared += both.compare(&format!("seed {seed} case {case}")).await;
    }
    assert!(compared > cases * 5_000, "the cases didn't compare enough: {compared} bytes, seed {seed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn returns_503_if_a_shard_is_unavailable() {
    let mut both = Both::start().await;
    // The hosts are on both shards.
    let rows = ["example.com", "news.example.com", "a.blog.example.com", "b.deep.blog.example.com", "c.late.example.com"]
        .into_iter()
        .zip(1..)
        .flat_map(|(host, key)| [fetch_on(host, key).role(Edge), fetch_on(host, key).role(Agent).session(1)])
        .collect::<Vec<_>>();
    both.two.insert(&rows).await;
    let key = both.owners[0].key.clone();
    let total = both.two.total(&key, &[]).await;
    assert!(total > 1);
    both.two.kill_shard(1);
    for path in OWNERS.iter().filter(|path| !path.contains("/events/")) {
        let answer = both.two.read(&key, path, &[]).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{path}: {}", answer.raw);
    }
    assert_eq!(both.two.read(&both.agent.key, "/agent/events", &[]).await.status, StatusCode::SERVICE_UNAVAILABLE);
    both.two.restart_shard(1);
    eventually("reads succeed again", || async {
        (both.two.get_summary(&key, &[]).await.status == StatusCode::OK).then_some(())
    })
    .await;
    assert_eq!(both.two.total(&key, &[]).await, total);
}
