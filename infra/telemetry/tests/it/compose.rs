//! docker-compose.yml without Docker: each service of ours is started with exactly its command line, settings and health check, on
//! real servers with the accounts that the containers make. Only addresses are others: no host here has the names of containers.

mod file;
mod stores;

use crate::secrets;
use crate::subcommands::{PROGRAM, ended};
use file::Service;
use serde_json::{Value, json};
use service_kit::testing::{TestProcess, client, eventually, free_address};
use std::collections::BTreeMap;
use std::path::Path;
use stores::Stores;

/// In the order in which what they wait for is there.
const ONE_SHOT: [&str; 2] = ["migrate", "prepare"];

/// The services of compose on this machine.
struct Deployment {
    services: BTreeMap<String, Service>,
    running: BTreeMap<String, TestProcess>,
    _stores: Stores,
    _folder: tempfile::TempDir,
}

impl Deployment {
    async fn start() -> Self {
        let env = secrets::read(&ended(&["secrets"], &[]).await.1);
        let folder = tempfile::tempdir().expect("a folder is made");
        let stores = Stores::start(folder.path(), &env).await;
        let mut services = file::ours(&env);
        let elsewhere = ["mail:1025", "front:8080"].map(|name| (name, free_address().to_string()));
        let addresses: Vec<_> = stores.addresses().into_iter().chain(elsewhere).collect();
        for service in services.values_mut() {
            service.settle(&addresses, folder.path());
        }
        let mut deployment = Self { services, running: BTreeMap::new(), _stores: stores, _folder: folder };
        for service in ONE_SHOT {
            deployment.run(service).await;
        }
        deployment.serve().await;
        deployment
    }

    /// Runs a service that does one thing and leaves.
    async fn run(&self, name: &str) {
        let service = &self.services[name];
        assert!(service.health_check.is_none(), "{name} leaves");
        let (code, _, said) = service.ended(&service.words()).await;
        assert_eq!(code, Some(0), "{name}: {said}");
    }

    /// Starts the others, each until its own health check says that it is up.
    async fn serve(&mut self) {
        for (name, service) in self.services.iter().filter(|(name, _)| !ONE_SHOT.contains(&name.as_str())) {
            let check = service.health_check.clone().unwrap_or_else(|| panic!("{name} has no health check"));
            let check: Vec<&str> = check.iter().map(String::as_str).collect();
            assert_eq!(service.ended(&check).await.0, Some(1), "{name} is not up yet, and its health check says so");
            let mut process = TestProcess::start(Path::new(PROGRAM), &service.words(), &service.settings());
            eventually(&format!("{name} is healthy"), async || (service.ended(&check).await.0 == Some(0)).then_some(())).await;
            assert!(!process.has_ended(), "{name}: {}", process.stderr());
            self.running.insert(name.clone(), process);
        }
    }

    /// `docker compose exec identity-api telemetry identity-api admin …`
    async fn admin(&self, words: &str) -> Value {
        let typed: Vec<&str> = ["identity-api", "admin", "-o", "json"].into_iter().chain(words.split(' ')).collect();
        let (code, printed, said) = self.services["identity-api"].ended(&typed).await;
        assert_eq!(code, Some(0), "{words}: {said}");
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{words}: {printed}: {error}"))
    }

    fn url(&self, service: &str, path: &str) -> String {
        format!("http://{}{path}", self.services[service].environment["TELEMETRY_LISTEN"])
    }

    /// Asks each to stop, as compose does.
    async fn stop(self) {
        for (name, mut process) in self.running {
            assert_eq!(process.terminate().await, Some(0), "{name}: {}", process.stderr());
        }
    }
}

impl Service {
    /// The same on this machine: other hosts, free ports, and a folder of the test's for what it keeps where it runs.
    fn settle(&mut self, addresses: &[(&str, String)], folder: &Path) {
        for (name, value) in &mut self.environment {
            for (container, here) in addresses {
                *value = value.replace(container, here);
            }
            if name.ends_with("_LISTEN") {
                assert!(value.starts_with("0.0.0.0:"), "{}: {name}={value} is reached by no other container", self.name);
                *value = free_address().to_string();
            }
        }
        if self.name == "analysts" {
            // A volume that ClickHouse has too.
            self.environment.insert("TELEMETRY_ANALYST_USERS".to_owned(), folder.join("analysts.xml").display().to_string());
        }
        if self.name == "ingest-gateway" {
            // The container's working folder is a volume.
            self.environment.insert("TELEMETRY_SPILL_DIR".to_owned(), folder.join("spill").display().to_string());
        }
    }

    fn words(&self) -> Vec<&str> {
        self.command.iter().map(String::as_str).collect()
    }

    fn settings(&self) -> Vec<(&str, &str)> {
        self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// The program in this service's environment, until it ends.
    async fn ended(&self, words: &[&str]) -> (Option<i32>, String, String) {
        ended(words, &self.settings()).await
    }
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_else(|| panic!("{member} of {value}"))
}

/// The first operator, organisation and key, as `docs/operating/compose.md` makes them; the key.
async fn first_key(deployment: &Deployment) -> String {
    deployment.admin("operator add me@example.net").await;
    let create = "organization create --name Mine --type content_owner --domain example.com --owner me@example.net";
    let organization = text(&deployment.admin(create).await, "id").to_owned();
    let domains = deployment.admin(&format!("domain list --organization {organization}")).await;
    deployment.admin(&format!("domain verify {}", text(&domains[0], "id"))).await;
    let mint = format!("key mint --organization {organization} --scope telemetry:read --scope telemetry:write");
    text(&deployment.admin(&mint).await, "key").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_compose_starts_is_healthy_takes_an_event_shows_it_and_stops_when_asked() {
    let deployment = Deployment::start().await;
    let key = first_key(&deployment).await;
    let event = json!({"events": [{"type": "content_retrieved", "timestamp": "2026-11-01T10:00:00Z", "source_role": "edge",
        "content_url": "https://www.example.com/hello", "content_telemetry_id": "6a0d7c52-51a0-4c0b-9d35-1f3f1f0a7d11"}]});
    let request = client().post(deployment.url("ingest-gateway", "/events")).header("x-api-key", &key);
    let taken = request.header("content-type", "application/json").body(event.to_string()).send().await.expect("it answers");
    assert_eq!(taken.status(), 201, "{}", taken.text().await.unwrap_or_default());
    let page = deployment.url("query-api", "/content-owners/events?from=2026-11-01T00:00:00Z&to=2026-11-02T00:00:00Z");
    eventually("the event is read out", async || {
        let answer = client().get(&page).header("x-api-key", &key).send().await.ok()?;
        assert_eq!(answer.status(), 200);
        answer.text().await.ok()?.contains("https://www.example.com/hello").then_some(())
    })
    .await;
    deployment.stop().await;
}

#[test]
fn the_front_of_compose_leads_to_the_ports_on_which_services_listen() {
    let env = BTreeMap::from_iter(secrets::asked_for().into_iter().map(|name| (name, "x".to_owned())));
    let services = file::ours(&env);
    let front = file::read("infra/front/nginx.conf");
    let upstreams: Vec<&str> = front.lines().filter_map(|line| line.strip_prefix("upstream ")?.split("server ").nth(1)).collect();
    assert_eq!(upstreams.len(), 4, "{upstreams:?}");
    for upstream in upstreams {
        let (host, port) = upstream.split(';').next().and_then(|server| server.split_once(':')).expect("a host and a port");
        assert_eq!(services[host].environment["TELEMETRY_LISTEN"], format!("0.0.0.0:{port}"), "{host}");
    }
}

#[test]
fn every_service_of_compose_has_a_restart_policy_a_limit_of_memory_and_a_bounded_log() {
    for (name, service) in file::all() {
        let is_one_shot = ONE_SHOT.contains(&name.as_str());
        assert_eq!(service["restart"], if is_one_shot { "no" } else { "unless-stopped" }, "{name}");
        assert!(service["mem_limit"].is_string(), "{name} has no limit of memory");
        assert!(service["logging"]["options"]["max-size"].is_string(), "{name}: its log grows for ever");
        assert_eq!(service["healthcheck"].is_null(), is_one_shot, "{name}");
    }
}
