//! Writers that lose contact with Kafka, one or all of them.

use super::WriterFixture;
use super::random_records::RandomRecords;
use crate::test_app::Workers;
use local::test_servers::Kafka;
use service_kit::settings::KafkaSettings;
use service_kit::testing::{TestProcess, TestStores, eventually, free_address, random_seed};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};

/// Longer than an active writer without contact sends heartbeats: 15 s, plus a request to the brokers.
const UNTIL_SILENT: Duration = Duration::from_secs(23);
/// Silence after which a standby takes over. A writer must continue within this time after an outage.
const TAKEOVER_AFTER_MS: u64 = 6_000;

struct Network {
    is_open: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Network {
    async fn between(address: SocketAddr, broker: String) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let (is_open, open) = watch::channel(true);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, broker.clone(), open.clone()));
            }
        });
        Self { is_open, accepting }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Connections end when the network is interrupted, and new ones end immediately.
async fn carry(mut client: TcpStream, broker: String, mut open: watch::Receiver<bool>) {
    if !*open.borrow() {
        return;
    }
    let Ok(mut server) = TcpStream::connect(broker).await else { return };
    tokio::select! {
        _ = open.wait_for(|is_open| !is_open) => {}
        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
    }
}

/// Stores with a Kafka that can also be reached through a network that can be interrupted.
struct Cluster {
    world: WriterFixture,
    network: Network,
    through_network: String,
    _kafka: Vec<Kafka>,
    _folder: tempfile::TempDir,
}

impl Cluster {
    async fn start() -> Self {
        let (folder, address) = (tempfile::tempdir().unwrap(), free_address());
        let at = folder.path().to_owned();
        let kafka = spawn_blocking(move || Kafka::cluster_behind_proxies(&at, &[address.port()])).await.unwrap().unwrap();
        let network = Network::between(address, kafka[0].address()).await;
        let fresh = TestStores::fresh().await;
        let kafka_settings = KafkaSettings { kafka_brokers: kafka[0].internal_address(), ..fresh.kafka.clone() };
        service_kit::kafka::create_topics(&kafka_settings).await.unwrap();
        let app = Workers::on(TestStores { kafka: kafka_settings, ..fresh });
        let world = WriterFixture { app, records: Vec::new() };
        Self { world, network, through_network: address.to_string(), _kafka: kafka, _folder: folder }
    }

    fn writer_through_network(&self) -> TestProcess {
        self.writer([("KAFKA_BROKERS", self.through_network.clone())])
    }

    fn writer(&self, besides: impl IntoIterator<Item = (&'static str, String)>) -> TestProcess {
        let takeover = [("TELEMETRY_TAKEOVER_AFTER_MS", TAKEOVER_AFTER_MS.to_string())];
        self.world.writer_with(takeover.into_iter().chain(besides))
    }

    async fn put(&mut self) {
        let history = RandomRecords { records: 30, events_per_record: 2, padding: 10, ids: 30 };
        self.world.put(&history.records(random_seed())).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replaces_a_writer_that_lost_kafka() {
    let mut cluster = Cluster::start().await;
    cluster.put().await;
    let mut former = cluster.writer_through_network();
    cluster.world.is_stored().await;
    let standby = cluster.writer([]);
    cluster.network.is_open.send_replace(false);
    cluster.put().await;
    cluster.world.is_stored().await;
    eventually("the former writer stands by", || async { former.stderr().contains("another writer took over").then_some(()) })
        .await;
    assert!(!former.has_ended(), "{}", former.stderr());
    cluster.world.assert_equals_model().await;
    drop(standby);
}

#[tokio::test(flavor = "multi_thread")]
async fn does_not_take_over_while_kafka_is_unavailable() {
    let mut cluster = Cluster::start().await;
    cluster.put().await;
    let active = cluster.writer_through_network();
    cluster.world.is_stored().await;
    let mut standby = cluster.writer_through_network();
    eventually("the standby waits", || async { standby.stderr().contains("standing by").then_some(()) }).await;
    let epochs = "SELECT count() FROM writers";
    let before = cluster.world.count(epochs).await;
    cluster.network.is_open.send_replace(false);
    tokio::time::sleep(UNTIL_SILENT).await;
    let newest = "SELECT max(beat) FROM progress";
    let silent = cluster.world.count(newest).await;
    tokio::time::sleep(Duration::from_millis(TAKEOVER_AFTER_MS * 2)).await;
    assert_eq!(cluster.world.count(newest).await, silent, "rows are inserted during the outage");
    cluster.put().await;
    cluster.network.is_open.send_replace(true);
    cluster.world.is_stored().await;
    assert!(!standby.has_ended(), "{}", standby.stderr());
    assert_eq!(cluster.world.count(epochs).await, before, "{} {}", active.stderr(), standby.stderr());
    cluster.world.assert_equals_model().await;
}
