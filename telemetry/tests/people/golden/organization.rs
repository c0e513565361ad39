//! Golden output of the commands for keys, domains, drains, delegations and webhooks.

use super::transcript::{Transcript, was_used};
use crate::terminal::Terminal;
use crate::test_service::Service;
use crate::webhook_listener::WebhookListener;
use crate::webhook_proxy::WebhookProxy;
use service_kit::testing::{DnsRecord, TestDns, eventually};
use std::sync::{Arc, Mutex};

/// Starts a DNS server with records that can be set later.
async fn dns() -> (TestDns, Arc<Mutex<Vec<String>>>) {
    let texts = Arc::new(Mutex::new(Vec::new()));
    let said = Arc::clone(&texts);
    let dns = TestDns::start(move |name| {
        if name.starts_with("_content-telemetry.") {
            return said.lock().unwrap().iter().cloned().map(DnsRecord::Text).collect();
        }
        if name == "localhost" { vec![DnsRecord::Address([127, 0, 0, 1].into())] } else { Vec::new() }
    })
    .await;
    (dns, texts)
}

#[tokio::test(flavor = "multi_thread")]
async fn organization_commands_match_golden_output() {
    let (proxy, (dns, texts)) = (WebhookProxy::start().await, dns().await);
    let dns_server = ("TELEMETRY_DNS_SERVER", dns.address.to_string());
    let settings: Vec<_> = proxy.settings().into_iter().chain([dns_server]).collect();
    let service = Service::start_with(&settings).await;
    let (owner, network) = (service.terminal("OWNER_KEY"), service.terminal("NETWORK_KEY"));
    keys(&owner).await;
    analysts(&service, &owner).await;
    manifests(&owner);
    domains(&owner, &texts);
    drains(&owner);
    delegations(&service, &owner, &network);
    organization_settings(&owner, &network);
    webhooks(&owner, &proxy).await;
    audit_trail(&owner).await;
}

async fn keys(owner: &Terminal) {
    let mut key = Transcript::new("key");
    was_used(owner, "demo").await;
    key.run(owner, &["key", "create", "nightly export", "--scope", "telemetry:read"]);
    key.run(owner, &["key", "create", "ci", "-o", "json"]);
    key.run_in_both_formats(owner, &["key", "list"]);
    key.run_in_both_formats(owner, &["key", "show", "ci"]);
    key.run_in_both_formats(owner, &["key", "change", "ci", "--require-signature", "true"]);
    key.run(owner, &["key", "delete", "ci"]);
    key.run(owner, &["key", "delete", "ci", "--yes"]);
    key.run(owner, &["key", "delete", "nightly export", "--yes", "-o", "json"]);
    key.check();
}

async fn analysts(service: &Service, owner: &Terminal) {
    service.record_analyst_maintenance().await;
    for name in ["Figures", "Board"] {
        let create =
            ["identity-api", "admin", "analyst", "create", "--organization", service.value("OWNER_ORG_ID"), "--name", name];
        service.operators_terminal().run(&create).ok();
    }
    let mut analyst = Transcript::new("analyst");
    analyst.run_in_both_formats(owner, &["analyst", "list"]);
    analyst.run(owner, &["analyst", "delete", "Board"]);
    analyst.run(owner, &["analyst", "delete", "Board", "--yes"]);
    analyst.run(owner, &["analyst", "delete", "Figures", "--yes", "-o", "json"]);
    analyst.check();
}

fn manifests(owner: &Terminal) {
    let mut manifest = Transcript::new("manifest");
    let [one, other] = ["https://example.com/keys.json", "https://www.example.com/keys.json"];
    manifest.run(owner, &["manifest", "create", one]);
    manifest.run(owner, &["manifest", "create", other, "-o", "json"]);
    manifest.run(owner, &["manifest", "create", "https://newspaper.example/keys.json"]);
    manifest.run_in_both_formats(owner, &["manifest", "list"]);
    manifest.run_in_both_formats(owner, &["manifest", "show", one]);
    manifest.run_in_both_formats(owner, &["manifest", "refresh", one]);
    manifest.run(owner, &["manifest", "delete", one, "--yes"]);
    manifest.run(owner, &["manifest", "delete", other, "--yes", "-o", "json"]);
    manifest.check();
}

fn domains(owner: &Terminal, texts: &Mutex<Vec<String>>) {
    let mut domain = Transcript::new("domain");
    domain.run(owner, &["domain", "create", "www.newspaper.example"]);
    domain.run(owner, &["domain", "create", "magazine.example", "-o", "json"]);
    domain.run_in_both_formats(owner, &["domain", "list"]);
    domain.run_in_both_formats(owner, &["domain", "show", "newspaper.example"]);
    domain.run(owner, &["domain", "verify", "newspaper.example"]);
    for (host, form) in [("newspaper.example", "table"), ("magazine.example", "json")] {
        let shown = owner.run(&["domain", "show", host, "-o", "json"]).json();
        let token = shown["verification_token"].as_str().unwrap();
        *texts.lock().unwrap() = vec![format!("svc-verify={token}")];
        domain.run(owner, &["domain", "verify", host, "-o", form]);
    }
    domain.run(owner, &["domain", "delete", "newspaper.example", "--yes"]);
    domain.run(owner, &["domain", "delete", "magazine.example", "--yes", "-o", "json"]);
    domain.check();
}

fn drains(owner: &Terminal) {
    let mut drain = Transcript::new("drain");
    drain.run(owner, &["drain", "create", "edge", "--provider", "cloudflare", "--host", "www.example.com"]);
    drain.run(owner, &["drain", "create", "origin", "--provider", "combined", "--sampling", "0.5", "-o", "json"]);
    drain.run_in_both_formats(owner, &["drain", "list"]);
    drain.run_in_both_formats(owner, &["drain", "show", "edge"]);
    drain.run_in_both_formats(owner, &["drain", "health", "edge"]);
    drain.run(owner, &["drain", "rotate", "edge"]);
    drain.run(owner, &["drain", "rotate", "origin", "-o", "json"]);
    drain.run(owner, &["drain", "delete", "edge", "--yes"]);
    drain.run(owner, &["drain", "delete", "origin", "--yes", "-o", "json"]);
    drain.check();
}

fn delegations(service: &Service, owner: &Terminal, network: &Terminal) {
    let mut delegation = Transcript::new("delegation");
    delegation.run(network, &["delegation", "request", "example.com"]);
    delegation.run(network, &["delegation", "request", "example.org", "-o", "json"]);
    delegation.run_in_both_formats(owner, &["delegation", "requests"]);
    delegation.run(owner, &["delegation", "approve", "Demo Network"]);
    delegation.run(&service.terminal("OTHER_OWNER_KEY"), &["delegation", "approve", "Demo Network", "-o", "json"]);
    let (agent, other) = (service.value("AGENT_ORG_ID"), service.value("OTHER_OWNER_ORG_ID"));
    delegation.run(owner, &["delegation", "create", "--to", agent]);
    delegation.run(network, &["delegation", "create", "--to", other]);
    delegation.run_in_both_formats(owner, &["delegation", "list"]);
    delegation.run_in_both_formats(owner, &["delegation", "show", "Demo Network"]);
    delegation.run(owner, &["delegation", "delete", "Demo Network", "--yes"]);
    delegation.run(network, &["delegation", "request", "example.com", "-o", "json"]);
    delegation.run(owner, &["delegation", "deny", "Demo Network"]);
    delegation.run(owner, &["delegation", "create", "--to", service.value("NETWORK_ORG_ID"), "-o", "json"]);
    delegation.run(owner, &["delegation", "delete", "Demo Network", "--yes", "-o", "json"]);
    delegation.check();
}

fn organization_settings(owner: &Terminal, network: &Terminal) {
    let mut settings = Transcript::new("settings");
    settings.run_in_both_formats(owner, &["settings", "show"]);
    settings.run_in_both_formats(owner, &["settings", "set", "--visible-in-click-token-lookups", "true"]);
    settings.run(network, &["settings", "set", "--visible-in-click-token-lookups", "true"]);
    settings.run(owner, &["settings", "set"]);
    settings.check();
}

async fn webhooks(owner: &Terminal, proxy: &WebhookProxy) {
    let mut webhook = Transcript::new("webhook");
    let (one, other) = (proxy.url("/one"), proxy.url("/other"));
    webhook.run(owner, &["webhook", "create", &one, "--event", "delegation.created", "-o", "json"]);
    let made = webhook.run(owner, &["webhook", "create", &other]);
    webhook.run_in_both_formats(owner, &["webhook", "list"]);
    webhook.run_in_both_formats(owner, &["webhook", "show", &one]);
    webhook.run(owner, &["webhook", "send-test", &one, "--wait"]);
    webhook.run(owner, &["webhook", "send-test", &one, "--wait", "-o", "json"]);
    eventually("both are delivered", || async { (proxy.deliveries().len() == 2).then_some(()) }).await;
    webhook.run_in_both_formats(owner, &["webhook", "deliveries", &one]);
    let secret = made.stdout.lines().find_map(|line| line.strip_prefix("Secret ")).unwrap().trim();
    // Use another endpoint, because each may have five tests and redeliveries per minute.
    listen(&mut webhook, owner, proxy, &other, secret).await;
    proxy.respond_directly();
    let sent = owner.run(&["webhook", "deliveries", &one, "-o", "json"]).json();
    let delivery = sent[0]["id"].as_str().unwrap();
    webhook.run_in_both_formats(owner, &["webhook", "pause", &one]);
    webhook.run(owner, &["webhook", "redeliver", &one, delivery]);
    webhook.run_in_both_formats(owner, &["webhook", "resume", &one]);
    webhook.run_in_both_formats(owner, &["webhook", "redeliver", &one, delivery]);
    webhook.run_in_both_formats(owner, &["webhook", "rotate-secret", &one]);
    webhook.run(owner, &["webhook", "delete", &one, "--yes"]);
    webhook.run(owner, &["webhook", "delete", &other, "--yes", "-o", "json"]);
    webhook.check();
}

/// Receives a delivery in each format with a new receiver.
async fn listen(kept: &mut Transcript, owner: &Terminal, proxy: &WebhookProxy, endpoint: &str, secret: &str) {
    owner.file("secret", secret);
    for form in ["table", "json"] {
        let words = ["webhook", "listen", "--secret-file", "secret", "--listen", "127.0.0.1:0", "--count", "1", "-o", form];
        let receiver = WebhookListener::start(owner, &words);
        proxy.forward_to(&receiver.address);
        owner.run(&["webhook", "send-test", endpoint, "--wait"]).ok();
        let said = tokio::task::spawn_blocking(move || receiver.wait()).await.unwrap();
        kept.add(&words, "", &said, &said.stdout);
    }
}

async fn audit_trail(owner: &Terminal) {
    let mut audit = Transcript::new("audit");
    audit.run_in_both_formats(owner, &["audit", "list", "--limit", "3"]);
    audit.run(owner, &["audit", "list", "--action", "settings.changed"]);
    owner.run_with_input(&["events", "send", "-"], "{}");
    eventually("the rejection is counted", || async {
        let refused = owner.run(&["audit", "refused", "-o", "json"]).json();
        refused.as_array().is_some_and(|rows| !rows.is_empty()).then_some(())
    })
    .await;
    audit.run_in_both_formats(owner, &["audit", "refused"]);
    audit.check();
}
