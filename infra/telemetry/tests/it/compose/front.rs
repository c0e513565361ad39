//! The front of docker-compose.yml: a real nginx with the file that the container is given. Only addresses are others, and DNS is
//! not asked again for those.

use super::file::{Service, read};
use service_kit::testing::{TestProcess, client, eventually};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

/// Around that file, what the image's own configuration has and a test needs.
const IMAGE: &str = "daemon off; pid FOLDER/nginx.pid; error_log /dev/stderr; events { worker_connections 1024; } http {
    client_body_temp_path FOLDER/client; proxy_temp_path FOLDER/proxy; fastcgi_temp_path FOLDER/fastcgi;
    uwsgi_temp_path FOLDER/uwsgi; scgi_temp_path FOLDER/scgi; include FOLDER/default.conf; }";

/// A running nginx; killed when dropped.
pub(super) struct Front {
    address: SocketAddr,
    process: TestProcess,
}

impl Front {
    /// Starts it before these services, as they have been settled here.
    pub(super) async fn start(folder: &Path, address: SocketAddr, services: &BTreeMap<String, Service>) -> Self {
        let folder = folder.join("front");
        std::fs::create_dir(&folder).expect("a folder is made");
        std::fs::write(folder.join("default.conf"), settled(address, services)).expect("it is written");
        let around = IMAGE.replace("FOLDER", &folder.display().to_string());
        std::fs::write(folder.join("nginx.conf"), around).expect("it is written");
        let program = tokio::task::spawn_blocking(local::nginx::program).await.expect("fetching does not panic");
        let program = program.unwrap_or_else(|error| panic!("{error:#}"));
        let file = folder.join("nginx.conf").display().to_string();
        let process = TestProcess::start(&program, &["-e", "stderr", "-c", &file], &[] as &[(&str, &str)]);
        let front = Self { address, process };
        // What the health check of the container asks.
        eventually("nginx answers", async || (front.try_get("/health", "").await?.0 == 200).then_some(())).await;
        front
    }

    /// The status of an answer; its kind, a line break and its body.
    pub(super) async fn get(&self, path: &str, key: &str) -> (u16, String) {
        self.try_get(path, key).await.unwrap_or_else(|| panic!("{path}: no answer; nginx said {}", self.process.stderr()))
    }

    async fn try_get(&self, path: &str, key: &str) -> Option<(u16, String)> {
        told(client().get(self.url(path)).header("x-api-key", key)).await
    }

    pub(super) async fn post(&self, path: &str, key: &str, body: String) -> (u16, String) {
        let request = client().post(self.url(path)).header("x-api-key", key).header("content-type", "application/json");
        told(request.body(body)).await.unwrap_or_else(|| panic!("{path}: no answer; nginx said {}", self.process.stderr()))
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

async fn told(request: reqwest::RequestBuilder) -> Option<(u16, String)> {
    let answer = request.send().await.ok()?;
    let kind = answer.headers().get("content-type").map(|kind| kind.to_str().unwrap_or_default().to_owned());
    Some((answer.status().as_u16(), format!("{}\n{}", kind.unwrap_or_default(), answer.text().await.ok()?)))
}

/// `infra/front/nginx.conf` with the addresses of this machine.
fn settled(address: SocketAddr, services: &BTreeMap<String, Service>) -> String {
    let mut settled = read("infra/front/nginx.conf");
    let mut replace = |from: &str, to: &str| {
        assert_eq!(settled.matches(from).count(), 1, "{from} stands in nginx.conf once");
        settled = settled.replace(from, to);
    };
    replace("listen 8080;", &format!("listen {address};"));
    for (service, port) in [("ingest-gateway", 8081), ("query-api", 8082), ("identity-api", 8083), ("console", 8086)] {
        let alias = format!("front.{service}");
        let named = services.values().filter(|service| service.aliases.contains(&alias));
        let here: Vec<String> = named.map(|service| format!("server {};", service.environment["TELEMETRY_LISTEN"])).collect();
        replace(&format!("server {alias}:{port} resolve;"), &here.join(" "));
    }
    settled
}
