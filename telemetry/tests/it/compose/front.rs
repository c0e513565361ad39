//! The nginx of docker-compose.yml, with the container's configuration. Only addresses differ, so DNS isn't resolved again.

use super::compose_file::{self, Service, read};
use super::{free_address, secrets};
use service_kit::testing::{TestProcess, client, eventually};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

/// A running nginx; killed when dropped.
pub(super) struct Front {
    address: SocketAddr,
    process: TestProcess,
}

impl Front {
    /// Starts nginx for these services, which must already run.
    pub(super) async fn start(folder: &Path, address: SocketAddr, services: &BTreeMap<String, Service>) -> Self {
        let folder = folder.join("front");
        std::fs::create_dir(&folder).expect("a folder is created");
        write_configuration(&folder, address, services);
        let program = tokio::task::spawn_blocking(local::test_programs::nginx).await.expect("fetching does not panic");
        let program = program.unwrap_or_else(|error| panic!("{error:#}"));
        let file = folder.join("nginx.conf").display().to_string();
        let process = TestProcess::start(&program, &["-e", "stderr", "-c", &file, "-g", "daemon off;"], &[] as &[(&str, &str)]);
        let front = Self { address, process };
        // Sends the same request as the container's health check.
        eventually("nginx answers", async || (front.try_get("/health", "").await?.0 == 200).then_some(())).await;
        front
    }

    /// Returns the status, and the content type and body separated by a line break.
    pub(super) async fn get(&self, path: &str, key: &str) -> (u16, String) {
        self.try_get(path, key).await.unwrap_or_else(|| panic!("{path}: no answer; nginx said {}", self.process.stderr()))
    }

    async fn try_get(&self, path: &str, key: &str) -> Option<(u16, String)> {
        send(client().get(self.url(path)).header("x-api-key", key)).await
    }

    pub(super) async fn post(&self, path: &str, key: &str, body: String) -> (u16, String) {
        let request = client().post(self.url(path)).header("x-api-key", key).header("content-type", "application/json");
        send(request.body(body)).await.unwrap_or_else(|| panic!("{path}: no answer; nginx said {}", self.process.stderr()))
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

async fn send(request: reqwest::RequestBuilder) -> Option<(u16, String)> {
    let answer = request.send().await.ok()?;
    let kind = answer.headers().get("content-type").map(|kind| kind.to_str().unwrap_or_default().to_owned());
    Some((answer.status().as_u16(), format!("{}\n{}", kind.unwrap_or_default(), answer.text().await.ok()?)))
}

/// Writes `infra/front/nginx.conf` and `addresses.conf` with this test's addresses and directory.
fn write_configuration(folder: &Path, address: SocketAddr, services: &BTreeMap<String, Service>) {
    let replaced = |text: String, from: &str, to: &str| {
        assert_eq!(text.matches(from).count(), 1, "{from} must occur once");
        text.replace(from, to)
    };
    let front = read("infra/front/nginx.conf").replace(" /tmp/", &format!(" {}/", folder.display()));
    let front = replaced(front, "listen 8080;", &format!("listen {address};"));
    let mut addresses = read("infra/front/addresses.conf");
    for (service, port) in [("ingest-gateway", 8081), ("query-api", 8082), ("identity-api", 8083), ("console", 8086)] {
        let alias = format!("front.{service}");
        let named = services.values().filter(|service| service.aliases.contains(&alias));
        let here: Vec<String> = named.map(|service| format!("server {};", service.environment["TELEMETRY_LISTEN"])).collect();
        addresses = replaced(addresses, &format!("server {alias}:{port} resolve;"), &here.join(" "));
    }
    for (name, text) in [("nginx.conf", front), ("addresses.conf", addresses)] {
        std::fs::write(folder.join(name), text).expect("the file is written");
    }
}

/// Returns the services of docker-compose.yml, all with this address.
fn services_at(address: SocketAddr) -> BTreeMap<String, Service> {
    let env = BTreeMap::from_iter(secrets::required_settings().into_iter().map(|name| (name, "x".to_owned())));
    let mut services = compose_file::ours(compose_file::all(), &env);
    for service in services.values_mut() {
        service.environment.insert("TELEMETRY_LISTEN".to_owned(), address.to_string());
    }
    services
}

#[tokio::test(flavor = "multi_thread")]
async fn f54_limits_connections_per_address() {
    const SHARE: usize = 256;
    // One service accepts connections and never responds; the console isn't running.
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("it listens");
    let mut services = services_at(silent.local_addr().expect("the listener has an address"));
    let console = services.get_mut("console").expect("the console is a service");
    console.environment.insert("TELEMETRY_LISTEN".to_owned(), "127.0.0.1:1".to_owned());
    let folder = tempfile::tempdir().expect("a folder is created");
    let front = Front::start(folder.path(), free_address(), &services).await;
    let status = async |from: [u8; 4]| {
        let client = reqwest::Client::builder().local_address(IpAddr::from(from)).build().expect("the client is built");
        client.get(front.url("/")).send().await.expect("the front responds")
    };
    let head = "POST /events HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{";
    let mut slow = Vec::new();
    for _ in 0..SHARE {
        let mut stream = TcpStream::connect(front.address).await.expect("the front accepts the connection");
        stream.write_all(head.as_bytes()).await.expect("the front reads the request");
        slow.push(stream);
    }
    let refused = eventually("the address reaches its limit", async || {
        let response = status([127, 0, 0, 1]).await;
        (response.status() == 429).then_some(response)
    })
    .await;
    assert_eq!(refused.headers()["content-type"], "application/problem+json");
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(status([127, 0, 0, 9]).await.status(), 502, "a request from another address reaches the console, which is down");
    drop(slow);
    eventually("closed connections free their slots", async || (status([127, 0, 0, 1]).await.status() == 502).then_some(()))
        .await;
}
