//! S9, against a separate process: how thousands of slow clients and hundreds of compression bombs affect other clients and memory.
//!
//! Latencies are printed, not asserted (`cargo test -p ingest-gateway overload -- --nocapture`).

use crate::encodings::{ENCODINGS, compress};
use crate::harness::{head, retrieval, with};
use crate::outage_harness::process_settings;
use schemas::identity::OrgType;
use serde_json::json;
use service_kit::process::raise_open_files;
use service_kit::testing::{Seed, TestProcess, TestStores, client, eventually, send_request};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const SLOW_SOCKETS: usize = 5_000;
/// Clients that never read. Each can occupy a few hundred kilobytes of buffers at both ends.
const SILENT_SOCKETS: usize = 1_000;
/// Files that this process needs besides the slow sockets.
const OTHER_FILES: u64 = 1_000;
/// The gateway's soft limit on open files, which it raises itself.
const USUAL_LIMIT: usize = 1_024;
/// Heads and bodies have a deadline of ten seconds; the rest is for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const BOMBS: usize = 100;
const MEMORY_BYTES: u64 = 256 * 1024 * 1024;

struct Besieged {
    process: TestProcess,
    url: String,
    key: String,
    client: reqwest::Client,
    _spill: TempDir,
}

impl Besieged {
    async fn start_for(sockets: usize) -> Self {
        let (may_open, needed) = (raise_open_files(), sockets as u64 + OTHER_FILES);
        assert!(
            may_open >= needed,
            "this test opens {needed} files and may open {may_open}: raise the hard limit (ulimit -H -n)"
        );
        Self::start().await
    }

    async fn start() -> Self {
        let (stores, spill) = (TestStores::with_topics().await, tempfile::tempdir().expect("a folder is made"));
        let key = Seed(&stores.pool).org("agent", OrgType::Agent).await.key;
        let (mut settings, url) = process_settings(&stores, &stores.kafka, spill.path());
        // All clients in this test have the same address.
        settings.push(("TELEMETRY_CONNECTIONS_PER_ADDRESS", "0".to_owned()));
        let usual = format!("ulimit -S -n {USUAL_LIMIT}");
        let mut process = TestProcess::service_after(&usual, &settings);
        process.wait_until_ok(&format!("{url}/health")).await;
        Self { process, url, key, client: client(), _spill: spill }
    }

    fn post(&self) -> reqwest::RequestBuilder {
        let request = self.client.post(format!("{}/events", self.url)).header("content-type", "application/json");
        request.header("x-api-key", &self.key)
    }

    /// Reports `count` events one after another and returns the sorted durations. Panics unless all are accepted.
    async fn report(&self, name: &str, count: usize) -> Vec<Duration> {
        let mut took = Vec::new();
        for n in 0..count {
            let event = with(retrieval("https://a.test/"), json!({"id": format!("{name}-{n}")}));
            let begun = Instant::now();
            let accepted = send_request(self.post().body(json!({"events": [event]}).to_string())).await;
            assert_eq!(accepted.status, 201, "{name} {n}: {}", accepted.body);
            took.push(begun.elapsed());
        }
        took.sort_unstable();
        took
    }
}

fn p99(sorted: &[Duration]) -> Duration {
    sorted[sorted.len() * 99 / 100]
}

/// The part of a request in which a slow client stops.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stops {
    InTheHead,
    InTheBody,
}

/// Opens a socket, sends part of a request, and stops.
async fn stop_halfway(address: String, key: String, stops: Stops) -> (Stops, TcpStream) {
    let mut stream = TcpStream::connect(address).await.expect("the gateway accepts connections");
    let text = match stops {
        Stops::InTheHead => "GET / HTTP/1.1\r\n".to_owned(),
        Stops::InTheBody => head("/events", &key, 1_000) + "{",
    };
    stream.write_all(text.as_bytes()).await.expect("the request is sent");
    (stops, stream)
}

#[tokio::test(flavor = "multi_thread")]
async fn s9_thousands_of_slow_sockets_do_not_block_others() {
    let besieged = Besieged::start_for(SLOW_SOCKETS).await;
    let before = besieged.report("before", 300).await;

    let address = besieged.url.trim_start_matches("http://").to_owned();
    let mut opening = JoinSet::new();
    for n in 0..SLOW_SOCKETS {
        let stops = if n % 2 == 0 { Stops::InTheHead } else { Stops::InTheBody };
        opening.spawn(stop_halfway(address.clone(), besieged.key.clone(), stops));
    }
    let opened = opening.join_all().await;
    let held = besieged.process.open_files();
    let during = besieged.report("during", 300).await;
    println!("p99 {:?} before and {:?} during {held} open files of the gateway", p99(&before), p99(&during));
    assert!(held > USUAL_LIMIT, "the gateway has only {held} open files: it did not raise its limit");

    let mut closing = JoinSet::new();
    for (stops, mut stream) in opened {
        closing.spawn(async move {
            let mut said = Vec::new();
            let closed = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut said)).await;
            assert!(closed.is_ok(), "a socket that stopped {stops:?} was not closed");
            (stops, String::from_utf8_lossy(&said).into_owned())
        });
    }
    for (stops, said) in closing.join_all().await {
        let is_fitting = match stops {
            Stops::InTheHead => said.is_empty() || said.starts_with("HTTP/1.1 408"),
            Stops::InTheBody => said.starts_with("HTTP/1.1 408"),
        };
        assert!(is_fitting, "unexpected response for {stops:?}: {said:.80}");
    }
    besieged.report("after", 20).await;
}

/// Opens a socket, requests far more than fits into all buffers, and never reads.
async fn ask_and_read_nothing(address: String) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("the gateway accepts connections");
    let asked = "GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n".repeat(500);
    stream.write_all(asked.as_bytes()).await.expect("the requests are sent");
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_clients_that_never_read_do_not_block_others() {
    let besieged = Besieged::start_for(SILENT_SOCKETS).await;
    let before = besieged.report("before", 300).await;
    let idle = besieged.process.open_files();
    let address = besieged.url.trim_start_matches("http://").to_owned();
    let opening: JoinSet<_> = (0..SILENT_SOCKETS).map(|_| ask_and_read_nothing(address.clone())).collect();
    let silent = opening.join_all().await;
    let during = besieged.report("during", 300).await;
    println!("p99 {:?} before and {:?} during", p99(&before), p99(&during));
    eventually("every silent client is disconnected", || async {
        (besieged.process.open_files() < idle + SILENT_SOCKETS / 10).then_some(())
    })
    .await;
    drop(silent);
    besieged.report("after", 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s9_rejects_compression_bombs_in_bounded_memory() {
    let besieged = Besieged::start().await;
    let spaces = vec![b' '; 200 * 1024 * 1024];
    for encoding in ENCODINGS {
        let bomb = compress(encoding, &spaces);
        assert!(bomb.len() * 900 < spaces.len(), "{encoding}: {} bytes are too many for a bomb", bomb.len());
        let sent = (0..BOMBS).map(|_| send_request(besieged.post().header("content-encoding", encoding).body(bomb.clone())));
        let statuses: Vec<u16> = futures::future::join_all(sent).await.iter().map(|answer| answer.status).collect();
        assert!(statuses.iter().all(|status| *status == 413), "{encoding}: {statuses:?}");
        let peak = besieged.process.peak_memory_bytes();
        println!("{encoding}: {BOMBS} bombs of {} bytes, at most {} MiB", bomb.len(), peak / 1024 / 1024);
        assert!(peak <= MEMORY_BYTES, "{encoding}: {peak} bytes");
    }
    besieged.report("after", 20).await;
}
