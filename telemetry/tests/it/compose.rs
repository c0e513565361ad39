//! Tests docker-compose.yml, with and without docker-compose.scaled.yml, without using Docker: each of our services starts with exactly its
//! command line, settings and health check, on real servers with the accounts that the containers create. Only addresses differ, because
//! container names don't resolve here.

mod compose_file;
mod front;
mod stores;
mod tls;

use crate::secrets;
use crate::subcommands::{PROGRAM, run_to_exit};
use compose_file::Service;
use front::Front;
use serde_json::{Value, json};
use service_kit::testing::{TestProcess, eventually, free_address};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use stores::Stores;

/// Services in the order in which they run.
const ONE_SHOT: [&str; 2] = ["migrate", "prepare"];

/// Path that returns the person of a session, and 401 for API keys.
const SIGNED_IN: &str = "/api/v1/identity/auth/session";

/// The compose services on this machine.
struct Deployment {
    services: BTreeMap<String, Service>,
    running: BTreeMap<String, TestProcess>,
    front: Front,
    _stores: Stores,
    folder: tempfile::TempDir,
}

impl Deployment {
    async fn start(services: BTreeMap<String, Value>) -> Self {
        let env = secrets::read(&run_to_exit(&["secrets"], &[]).await.1);
        let folder = tempfile::tempdir().expect("a folder is created");
        let stores = Stores::start(folder.path(), &env).await;
        let mut services = compose_file::ours(services, &env);
        let front = free_address();
        let elsewhere = [("mail:1025", free_address().to_string()), ("front:8080", front.to_string())];
        let mut addresses: Vec<_> = stores.addresses().into_iter().chain(elsewhere).collect();
        // All three names lead to one broker. Chaos runs test a real cluster.
        let broker = addresses.iter().find(|(name, _)| *name == "kafka:9092").expect("kafka has an address").1.clone();
        addresses.extend(["kafka-2:9092", "kafka-3:9092"].map(|name| (name, broker.clone())));
        for service in services.values_mut() {
            service.adapt_to_this_machine(&addresses, folder.path());
        }
        let front = Front::start(folder.path(), front, &services).await;
        let mut deployment = Self { services, running: BTreeMap::new(), front, _stores: stores, folder };
        for service in ONE_SHOT {
            deployment.run(service).await;
        }
        deployment.serve().await;
        deployment
    }

    async fn run(&self, name: &str) {
        let service = &self.services[name];
        assert!(service.health_check.is_none(), "{name} is a one-shot service");
        let (code, _, said) = service.run_to_exit(&service.words()).await;
        assert_eq!(code, Some(0), "{name}: {said}");
    }

    async fn serve(&mut self) {
        let names: Vec<String> = self.services.keys().filter(|name| !ONE_SHOT.contains(&name.as_str())).cloned().collect();
        for name in names {
            self.start_one(&name).await;
        }
    }

    /// Starts a service and waits until its health check succeeds.
    async fn start_one(&mut self, name: &str) {
        let service = &self.services[name];
        let check = service.health_check.clone().unwrap_or_else(|| panic!("{name} has no health check"));
        let check: Vec<&str> = check.iter().map(String::as_str).collect();
        assert_eq!(service.run_to_exit(&check).await.0, Some(1), "the health check of {name} must fail before it starts");
        let mut process = TestProcess::start(Path::new(PROGRAM), &service.words(), &service.settings());
        eventually(&format!("{name} is healthy"), async || (service.run_to_exit(&check).await.0 == Some(0)).then_some(())).await;
        assert!(!process.has_ended(), "{name}: {}", process.stderr());
        self.running.insert(name.to_owned(), process);
    }

    async fn stop_one(&mut self, name: &str) {
        let mut process = self.running.remove(name).unwrap_or_else(|| panic!("{name} does not run"));
        assert_eq!(process.terminate().await, Some(0), "{name}: {}", process.stderr());
    }

    /// `docker compose exec identity-api telemetry identity-api admin …`
    async fn admin(&self, words: &str) -> Value {
        let typed: Vec<&str> = ["identity-api", "admin", "-o", "json"].into_iter().chain(words.split(' ')).collect();
        let (code, printed, said) = self.services["identity-api"].run_to_exit(&typed).await;
        assert_eq!(code, Some(0), "{words}: {said}");
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{words}: {printed}: {error}"))
    }

    /// Stops all services with SIGTERM, as compose does.
    async fn stop(self) {
        for (name, mut process) in self.running {
            assert_eq!(process.terminate().await, Some(0), "{name}: {}", process.stderr());
        }
    }
}

impl Service {
    /// Adapts the service to this machine: other hosts, free ports, and a test directory for its files.
    fn adapt_to_this_machine(&mut self, addresses: &[(&str, String)], folder: &Path) {
        for (name, value) in &mut self.environment {
            for (container, here) in addresses {
                *value = value.replace(container, here);
            }
            if name == "TELEMETRY_TRUSTED_PROXIES" {
                *value = "127.0.0.0/8".to_owned(); // address of the front
            }
            if name.ends_with("_LISTEN") {
                assert!(value.starts_with("0.0.0.0:"), "{}: {name}={value} is not reachable from other containers", self.name);
                *value = free_address().to_string();
            }
        }
        if self.name == "analysts" {
            // Replace a volume that ClickHouse mounts too.
            self.environment.insert("TELEMETRY_ANALYST_USERS".to_owned(), folder.join("analysts.xml").display().to_string());
        }
        if self.name.starts_with("ingest-gateway") {
            // In the container, the working directory is a volume.
            let spill = folder.join(format!("{}.spill", self.name));
            self.environment.insert("TELEMETRY_SPILL_DIR".to_owned(), spill.display().to_string());
        }
    }

    fn words(&self) -> Vec<&str> {
        self.command.iter().map(String::as_str).collect()
    }

    fn settings(&self) -> Vec<(&str, &str)> {
        self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// Runs the program in this service's environment until it exits.
    async fn run_to_exit(&self, words: &[&str]) -> (Option<i32>, String, String) {
        run_to_exit(words, &self.settings()).await
    }
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_else(|| panic!("{member} of {value}"))
}

/// Creates the first operator, organization and key with the three commands in `docs/operating/compose.md`; returns the key.
async fn first_key(deployment: &Deployment) -> String {
    const TYPED: &str = "docker compose exec identity-api telemetry identity-api admin ";
    let page = compose_file::read("docs/operating/compose.md");
    let lines: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix(TYPED)).collect();
    let [operator, organization, key] = lines[..] else { panic!("three lines: {lines:?}") };
    deployment.admin(operator).await;
    let id = text(&deployment.admin(organization).await, "id").to_owned();
    let domains = deployment.admin(&format!("domain list --organization {id}")).await;
    deployment.admin(&format!("domain verify {}", text(&domains[0], "id"))).await;
    text(&deployment.admin(&key.replace("ORGANIZATION_ID", &id)).await, "key").to_owned()
}

/// Asserts that each path reaches its service, and that nothing else is exposed.
async fn assert_routes_of_the_front(front: &Front, key: &str) {
    let html = "text/html; charset=utf-8";
    for (path, status, begins) in [
        ("/", 200, html),
        ("/sign-in", 200, html),
        ("/assets/console.css", 200, "text/css"),
        ("/resolve?url=https://www.example.com/hello", 200, "application/json"),
        ("/ctx/unknown", 403, "application/problem+json"),
        ("/agent/summary", 403, "application/problem+json"),
        (SIGNED_IN, 401, "application/problem+json"),
        ("/ingest-gateway/openapi.json", 200, "application/json"),
        ("/query-api/openapi.json", 200, "application/json"),
        ("/identity-api/openapi.json", 200, "application/json"),
        ("/metrics", 404, "text/html\n"),
        ("/ready", 404, "text/html\n"),
    ] {
        let (answered, said) = front.get(path, key).await;
        assert!(answered == status && said.starts_with(begins), "{path}: {answered} {said}");
    }
}

fn event(url: &str, more: &str) -> String {
    json!({"events": [{"type": "content_retrieved", "timestamp": "2026-11-01T10:00:00Z", "source_role": "edge", "content_url": url,
        "content_telemetry_id": "6a0d7c52-51a0-4c0b-9d35-1f3f1f0a7d11", "data": {"note": more}}]})
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn compose_services_process_an_event() {
    let mut deployment = Deployment::start(compose_file::all()).await;
    let key = first_key(&deployment).await;
    let (front, url) = (&deployment.front, "https://www.example.com/hello");
    // More than nginx's default limit.
    let (status, said) = front.post("/events", &key, event(url, &"x".repeat(2_000_000))).await;
    assert!(said.starts_with("application/problem+json"), "nginx itself must not respond: {status} {said}");
    let (status, said) = front.post("/events", &key, event(url, "")).await;
    assert_eq!(status, 201, "{said}");
    let page = "/content-owners/events?since=2026-11-01&until=2026-11-01";
    eventually("the event is readable", async || {
        let (status, said) = front.get(page, &key).await;
        assert_eq!(status, 200, "{said}");
        said.contains(url).then_some(())
    })
    .await;
    assert_routes_of_the_front(front, &key).await;
    let (_, manifest) = front.get("/.well-known/content-telemetry.json", &key).await;
    assert!(manifest.contains("publicKey"), "the service can't sign statements: {manifest}");
    let profiles = deployment.folder.path().join("no-profiles").display().to_string();
    let settings = [("TELEMETRY_CONFIG", profiles.as_str()), ("TELEMETRY_KEY", &key)];
    let (code, told, said) = run_to_exit(&["doctor", "--url", &front.url("")], &settings).await;
    assert!(code == Some(0) && told.lines().any(|line| line.starts_with("skipped") && line.contains("ready")), "{told} {said}");
    let (code, settled, said) = deployment.services["stream-workers"].run_to_exit(&["stream-workers", "processed"]).await;
    assert!(code == Some(0) && settled.contains("STORED EVENTS"), "{settled} {said}");
    let (code, _, said) = deployment.services["prepare"].run_to_exit(&["stream-workers", "rebuild"]).await;
    assert!(code == Some(1) && said.contains("rebuild into an empty database"), "a database in use must not be rebuilt: {said}");
    // A restarted service is reached again, and one that is down doesn't affect the others.
    deployment.stop_one("identity-api").await;
    assert_eq!(deployment.front.get(SIGNED_IN, &key).await.0, 502);
    assert_eq!(deployment.front.get(page, &key).await.0, 200);
    deployment.start_one("identity-api").await;
    eventually("identity-api is reachable", async || (deployment.front.get(SIGNED_IN, &key).await.0 == 401).then_some(())).await;
    deployment.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scaled_services_work_with_one_instance_of_each_down() {
    let mut deployment = Deployment::start(compose_file::scaled()).await;
    let key = first_key(&deployment).await;
    for number in ["", "-2"] {
        let away = ["ingest-gateway", "query-api", "identity-api", "console"].map(|service| format!("{service}{number}"));
        for name in &away {
            deployment.stop_one(name).await;
        }
        let front = &deployment.front;
        if number == "-2" {
            // nginx still skips the previous servers for ten seconds.
            for path in ["/events", "/content-owners/summary", SIGNED_IN, "/sign-in"] {
                eventually("the other process responds", async || (front.get(path, &key).await.0 != 502).then_some(())).await;
            }
        }
        for _ in 0..5 {
            let (status, said) = front.post("/events", &key, event("https://www.example.com/hello", "")).await;
            assert_eq!(status, 201, "without {away:?}: {said}");
            for (path, status) in [("/content-owners/summary", 200), (SIGNED_IN, 401), ("/sign-in", 200)] {
                let (answered, said) = front.get(path, &key).await;
                assert_eq!(answered, status, "{path} without {away:?}: {said}");
            }
        }
        for name in &away {
            deployment.start_one(name).await;
        }
    }
    deployment.stop().await;
}

#[test]
fn scaled_brokers_form_a_cluster_of_three() {
    let (services, mut seen) = (compose_file::scaled(), BTreeSet::new());
    for (name, number) in [("kafka", "1"), ("kafka-2", "2"), ("kafka-3", "3")] {
        let environment = &services[name]["environment"];
        let text = |setting: &str| environment[setting].as_str().map_or_else(|| environment[setting].to_string(), str::to_owned);
        assert_eq!(text("KAFKA_NODE_ID"), number);
        assert_eq!(text("KAFKA_ADVERTISED_LISTENERS"), format!("PLAINTEXT://{name}:9092"));
        assert_eq!(text("KAFKA_CONTROLLER_QUORUM_VOTERS"), "1@kafka:9093,2@kafka-2:9093,3@kafka-3:9093");
        assert!(text("KAFKA_LISTENERS").ends_with("CONTROLLER://0.0.0.0:9093"), "other brokers must reach its controller");
        assert_eq!(text("KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR"), "3");
        assert!(seen.insert(services[name]["volumes"].to_string()), "{name} shares a volume with another broker");
    }
    let spills = ["ingest-gateway", "ingest-gateway-2"].map(|name| services[name]["volumes"].to_string());
    assert_ne!(spills[0], spills[1], "each gateway needs its own spill");
}

#[test]
fn nginx_uses_the_services_ports() {
    let env = BTreeMap::from_iter(secrets::required_settings().into_iter().map(|name| (name, "x".to_owned())));
    let services = compose_file::ours(compose_file::scaled(), &env);
    let front = compose_file::read("infra/front/addresses.conf");
    let upstreams: Vec<&str> =
        front.lines().filter_map(|line| line.trim().strip_prefix("upstream ")?.split("server ").nth(1)).collect();
    assert_eq!(upstreams.len(), 4, "{upstreams:?}");
    for upstream in upstreams {
        let server = upstream.split(';').next().and_then(|server| server.strip_suffix(" resolve"));
        let (host, port) = server.and_then(|server| server.split_once(':')).expect("a host and a port with `resolve`");
        let named: Vec<&Service> =
            services.values().filter(|service| service.aliases.iter().any(|alias| alias == host)).collect();
        assert_eq!(named.len(), 2, "{host}");
        for service in named {
            assert!(host.ends_with(service.name.trim_end_matches("-2")), "{host} is {}", service.name);
            assert_eq!(service.environment["TELEMETRY_LISTEN"], format!("0.0.0.0:{port}"), "{host}");
        }
    }
}

/// Returns a service's named volumes (`name:path` or `name:path:ro`). Paths on the host start with a dot.
fn named_volumes(service: &Value) -> impl Iterator<Item = &str> {
    let mounts = service["volumes"].as_array().into_iter().flatten().map(|mount| mount.as_str().expect("a short-form mount"));
    mounts.filter(|mount| !mount.starts_with('.')).map(|mount| mount.split(':').next().unwrap_or_default())
}

#[test]
fn dependencies_and_volumes_are_declared() {
    for (files, services) in [
        (&["docker-compose.yml"][..], compose_file::all()),
        (&["docker-compose.yml", "docker-compose.scaled.yml"], compose_file::scaled()),
    ] {
        for (name, service) in &services {
            for (awaited, how) in service["depends_on"].as_object().into_iter().flatten() {
                let other = services.get(awaited).unwrap_or_else(|| panic!("{name} waits for {awaited}, which doesn't exist"));
                let ends = ONE_SHOT.contains(&awaited.as_str());
                let condition = if ends { "service_completed_successfully" } else { "service_healthy" };
                assert_eq!(how["condition"], condition, "{name} waits for {awaited}");
                assert_eq!(other["healthcheck"].is_null(), ends, "{awaited}");
            }
        }
        let evidence = named_volumes(&services["query-api"]).any(|volume| volume == "evidence-files");
        assert!(evidence, "query-api can't close months without a writable folder");
        let mounted: BTreeSet<String> = services.values().flat_map(named_volumes).map(str::to_owned).collect();
        assert_eq!(mounted, compose_file::volumes(files), "{files:?}");
    }
}

#[test]
fn services_have_restart_policy_memory_limit_and_bounded_log() {
    for (name, service) in compose_file::scaled() {
        let is_one_shot = ONE_SHOT.contains(&name.as_str());
        assert_eq!(service["restart"], if is_one_shot { "no" } else { "unless-stopped" }, "{name}");
        assert!(service["mem_limit"].is_string(), "{name} has no memory limit");
        assert!(service["logging"]["options"]["max-size"].is_string(), "{name}: its log grows without limit");
        assert_eq!(service["healthcheck"].is_null(), is_one_shot, "{name}");
    }
}
