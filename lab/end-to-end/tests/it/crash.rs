//! C1 and C2: a worker that gets no responses from ClickHouse is killed, and another one takes over.

use crate::demo::retrieval;
use crate::pipeline::process;
use crate::summary_poller::{SummaryPoller, seen_by};
use crate::withholding_proxy::WithholdingProxy;
use schemas::identity::OrgType;
use schemas::summary_responses::Summary;
use service_kit::clock::Clock;
use service_kit::http;
use service_kit::settings::ClickHouseSettings;
use service_kit::testing::{
    Seed, SeededOrg, TestLog, TestProcess, TestServer, TestStores, client, eventually, free_address, send_request,
};

const RETRIEVALS: usize = 5;

/// Gateway and query API on one address, without a worker.
struct GatewayAndQuery {
    stores: TestStores,
    server: TestServer,
    owner: SeededOrg,
    network: SeededOrg,
    agent: SeededOrg,
    _spill: tempfile::TempDir,
}

impl GatewayAndQuery {
    async fn start() -> Self {
        let stores = TestStores::fresh().await;
        let spill = tempfile::tempdir().unwrap();
        let durability = ingest_gateway::Durability { spill_dir: Some(spill.path().to_owned()), ..Default::default() };
        let usual = ingest_gateway::Settings::on(stores.kafka.clone(), stores.postgres.clone());
        let gateway = ingest_gateway::Settings { durability, ..usual };
        let query = query_api::Settings::with_stores(stores.clickhouse.clone(), stores.postgres.clone());
        let gateway = ingest_gateway::State::connect(&gateway, Clock::System).await.unwrap();
        let query = query_api::State::connect(&query).await.unwrap();
        let router = ingest_gateway::routes(gateway).merge(query_api::routes(query));
        let server = TestServer::start(http::with_request_middleware(router)).await;
        let seed = Seed(&stores.pool);
        let owner = seed.owner_of("example.com").await;
        let network = seed.org("network", OrgType::Platform).await;
        let agent = seed.org("agent", OrgType::Agent).await;
        Self { owner, network, agent, server, stores, _spill: spill }
    }

    /// Reports one fetch by three observers.
    async fn report(&self, content_telemetry_id: &str) {
        for (role, org) in [("edge", &self.network), ("origin", &self.owner), ("agent", &self.agent)] {
            let request = client().post(format!("{}/events", self.server.url)).header("content-type", "application/json");
            let body = retrieval(role, content_telemetry_id).to_string();
            assert_eq!(send_request(request.header("x-api-key", &org.key).body(body)).await.status, 201, "{role}");
        }
    }

    fn summary_url(&self) -> String {
        format!("{}/content-owners/summary", self.server.url)
    }

    /// Waits until this many fetches are counted with all of their observers.
    async fn wait_for_retrievals(&self, retrievals: u64) {
        eventually(&format!("{retrievals} retrievals are visible"), || async {
            let answer = client().get(self.summary_url()).header("x-api-key", &self.owner.key).send().await.ok()?;
            let summary: Summary = answer.json().await.ok()?;
            ["edge", "origin", "agent"].iter().all(|role| seen_by(&summary, role) == retrievals).then_some(())
        })
        .await;
    }

    /// Starts a real worker. Returns it with the address of its metrics.
    async fn worker(&self, clickhouse_url: &str) -> (TestProcess, String) {
        let (listen, metrics) = (free_address(), free_address());
        let own = [
            ("TELEMETRY_LISTEN", listen.to_string()),
            ("TELEMETRY_METRICS_LISTEN", metrics.to_string()),
            ("TELEMETRY_TAKEOVER_AFTER_MS", "1000".to_owned()),
        ];
        let clickhouse = ClickHouseSettings { clickhouse_url: clickhouse_url.to_owned(), ..self.stores.clickhouse.clone() };
        let stores = TestStores { clickhouse, ..self.stores.clone() };
        let settings: Vec<_> = own.into_iter().chain(stores.environment()).collect();
        let mut process = process("stream-workers", &[], &settings);
        process.wait_until_ok(&format!("http://{listen}/ready")).await;
        (process, format!("http://{metrics}/metrics"))
    }
}

/// Returns a counter's value, or 0 if it has not been incremented.
async fn counter(metrics_url: &str, name: &str) -> Option<i64> {
    let text = client().get(metrics_url).send().await.ok()?.text().await.ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    Some(value.unwrap_or(0))
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_a_worker_without_responses_does_not_lose_data() {
    let front = GatewayAndQuery::start().await;
    let log = TestLog::connect(&front.stores.kafka);
    let direct = reqwest::Url::parse(&front.stores.clickhouse.clickhouse_url).unwrap();
    let proxy = WithholdingProxy::before(format!("{}:{}", direct.host_str().unwrap(), direct.port().unwrap())).await;
    let mut through_proxy = direct.clone();
    through_proxy.set_port(Some(proxy.address.port())).unwrap();
    through_proxy.set_host(Some("127.0.0.1")).unwrap();

    let (mut doomed, _) = front.worker(through_proxy.as_str()).await;
    front.report("warm-up").await;
    log.caught_up(&front.stores.clickhouse).await;
    front.wait_for_retrievals(1).await;

    let most = u64::try_from(RETRIEVALS).unwrap() + 1;
    let watch = SummaryPoller::start(front.summary_url(), front.owner.key.clone(), most);
    proxy.withhold_answers();
    for retrieval in 0..RETRIEVALS {
        front.report(&format!("retrieval-{retrieval}")).await;
    }
    let reports = i64::try_from(3 * RETRIEVALS).unwrap();
    watch.wait_for_polls(5).await;
    assert_eq!(log.not_stored(&front.stores.clickhouse).await, reports, "a block is complete");
    doomed.kill_9().await;
    watch.wait_for_polls(5).await;

    let (mut heir, metrics) = front.worker(direct.as_str()).await;
    log.caught_up(&front.stores.clickhouse).await;
    front.wait_for_retrievals(most).await;
    watch.wait_for_polls(20).await;
    assert_eq!(counter(&metrics, "worker_records_total").await, Some(reports), "the successor did not store every record");
    let summary = watch.finish().await;
    assert_eq!(summary.total_events, most, "{summary:?}");
    for role in ["edge", "origin", "agent"] {
        assert_eq!(seen_by(&summary, role), most, "{summary:?}");
    }
    assert_eq!(heir.terminate().await, Some(0));
}
