//! K4: runs every example in the OpenAPI document in one sequence and validates each response.
//!
//! Ids and secrets in the examples are consistent across the document. Once an example's response has returned the real id for `0195…10`,
//! later requests use the real id.

use crate::contract::{Contract, Operation, Parameter};
use crate::demo::{Demo, DemoApp, wait_for_events};
use crate::forged_provider::{ForgedProvider, SECRET};
use crate::openapi::check_items;
use identity_api::api_keys::create_key_as_system;
use reqwest::header::{HeaderMap, HeaderName};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Url};
use schemas::identity::{OrgType, Scope};
use schemas::instant;
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::testing::{DnsRecord, TestDns, eventually};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Operation ids and the caller of each: a variable in `demo.env`, or `PARTNER_KEY` or `COLLEAGUE_SESSION` once they exist.
#[rustfmt::skip]
const EXAMPLES: &[(&str, &str)] = &[
    ("get_health", ""), ("get_ready", ""), ("get_openapi", ""), ("resolve_domain", ""),
    ("start_session", "AGENT_KEY"), ("report_events", "AGENT_KEY"), ("create_click_token", "AGENT_KEY"),
    ("end_session", "AGENT_KEY"), ("upload_session", "AGENT_KEY"), ("get_summary", "OWNER_KEY"),
    ("list_events", "OWNER_KEY"), ("get_event", "OWNER_KEY"), ("export_documents", "OWNER_KEY"), ("list_urls", "OWNER_KEY"), ("list_corroboration", "OWNER_KEY"), ("list_reconciliation", "OWNER_KEY"), ("list_funnels", "OWNER_KEY"),
    ("get_series", "OWNER_KEY"), ("list_crawlers", "OWNER_KEY"), ("get_coverage", "OWNER_KEY"),
    ("create_statement", "OWNER_KEY"), ("list_statements", "OWNER_SESSION"), ("get_statement", "OWNER_KEY"),
    ("get_statement_evidence", "OWNER_KEY"), ("get_service_manifest", ""),
    ("list_disallowed_fetches", "OWNER_KEY"),
    ("get_agent_summary", "AGENT_KEY"), ("get_agent_series", "AGENT_KEY"),
    ("send_log_lines", "NETWORK_KEY"), ("get_fastly_challenge", ""),
    ("list_agent_events", "AGENT_KEY"), ("get_click_manifest", "NETWORK_KEY"), ("get_session_document", "AGENT_KEY"),
    ("create_api_key", "OWNER_KEY"), ("list_api_keys", "OWNER_SESSION"), ("update_api_key", "OWNER_KEY"), ("revoke_api_key", "OWNER_KEY"),
    ("list_analysts", "OWNER_SESSION"), ("revoke_analyst", "OWNER_KEY"),
    ("create_webhook", "OWNER_KEY"), ("list_webhooks", "OWNER_KEY"), ("get_webhook", "OWNER_KEY"),
    ("create_delegation_request", "NETWORK_KEY"), ("list_delegation_requests", "OWNER_KEY"),
    ("approve_delegation_request", "OWNER_SESSION"), ("list_delegations", "OWNER_KEY"), ("revoke_delegation", "OWNER_KEY"),
    ("create_delegation", "OWNER_KEY"), ("create_delegation_requests", "NETWORK_KEY"),
    ("deny_delegation_request", "OTHER_OWNER_KEY"),
    ("create_domain", "OWNER_KEY"), ("list_domains", "OWNER_KEY"), ("verify_domain", "OWNER_KEY"), ("delete_domain", "OWNER_KEY"),
    ("create_drain", "OWNER_KEY"), ("list_drains", "OWNER_SESSION"), ("get_drain", "OWNER_KEY"), ("get_drain_health", "OWNER_KEY"),
    ("rotate_drain_key", "OWNER_KEY"),
    ("delete_drain", "OWNER_KEY"),
    ("create_manifest", "OWNER_KEY"), ("list_manifests", "OWNER_SESSION"), ("get_manifest", "OWNER_KEY"), ("refresh_manifest", "OWNER_KEY"),
    ("delete_manifest", "OWNER_KEY"),
    ("update_reconciliation_alert", "OWNER_KEY"), ("get_reconciliation_alert", "OWNER_KEY"), ("update_settings", "OWNER_KEY"), ("get_settings", "OWNER_KEY"),
    ("create_saved_view", "OWNER_SESSION"), ("list_saved_views", "OWNER_KEY"), ("delete_saved_view", "OWNER_KEY"),
    ("list_all_webhooks", "OPERATOR_SESSION"), ("get_any_webhook", "OPERATOR_SESSION"), ("list_any_webhook_deliveries", "OPERATOR_SESSION"),
    ("list_webhook_deliveries", "OWNER_KEY"), ("redeliver_webhook_delivery", "OWNER_KEY"), ("test_webhook", "OWNER_SESSION"),
    ("rotate_webhook_secret", "OWNER_KEY"), ("update_webhook", "OWNER_KEY"), ("delete_webhook", "OWNER_KEY"),
    ("list_audit_entries", "OWNER_SESSION"), ("list_rejected_reports", "AGENT_SESSION"),
    ("create_organization", "USER_SESSION"), ("list_organizations", "USER_SESSION"), ("get_organization", "USER_SESSION"),
    ("invite_member", "USER_SESSION"), ("list_invites", "USER_SESSION"), ("delete_invite", "USER_SESSION"),
    ("invite_member", "USER_SESSION"), ("send_magic_link", ""), ("get_sign_in_page", ""), ("verify_magic_link", ""), ("claim_invite", "COLLEAGUE_SESSION"),
    ("get_user_session", "COLLEAGUE_SESSION"), ("delete_user_session", "COLLEAGUE_SESSION"),
    ("list_members", "USER_SESSION"), ("update_member", "USER_SESSION"), ("delete_member", "USER_SESSION"),
    ("create_platform_access_request", "USER_SESSION"), ("list_platform_access_requests", "USER_SESSION"),
    ("list_access_requests", "OPERATOR_SESSION"), ("approve_access_request", "OPERATOR_SESSION"),
    ("create_agent_access_request", "USER_SESSION"), ("list_agent_access_requests", "USER_SESSION"), ("reject_access_request", "OPERATOR_SESSION"),
    ("list_all_organizations", "OPERATOR_SESSION"), ("list_usage", "OPERATOR_SESSION"), ("list_dead_letters", "OPERATOR_SESSION"), ("retry_dead_letter", "OPERATOR_SESSION"),
    ("provision_organization", "PARTNER_KEY"), ("attest_domain", "PARTNER_KEY"), ("invite_first_owner", "PARTNER_KEY"),
    // The invited person signs in through a provider; `follow` acts as the provider.
    ("list_oidc_providers", ""), ("start_oidc", ""), ("finish_oidc", ""),
];
/// The organizations in the examples, and the variables in `demo.env` with their real ids.
const ORGANIZATIONS: [(&str, &str); 4] = [
    ("0195f3a0-0000-7000-8000-000000000001", "OWNER_ORG_ID"),
    ("0195f3a0-0000-7000-8000-000000000002", "OTHER_OWNER_ORG_ID"),
    ("0195f3a0-0000-7000-8000-000000000003", "AGENT_ORG_ID"),
    ("0195f3a0-0000-7000-8000-000000000004", "NETWORK_ORG_ID"),
];

/// Media types of lists in addition to JSON.
const LISTS: [&str; 2] = ["text/csv", "application/x-ndjson"];

/// Prefix of the ids in examples.
const EXAMPLE_ID: &str = "0195f3a0-";
const EXAMPLE_TOKEN: &str = "ctx_0000000000000000000000000000000000000000000";

struct ExampleRun {
    demo: DemoApp,
    /// This client doesn't follow redirects.
    client: Client,
    /// The sign-in provider that the examples name.
    provider: ForgedProvider,
    /// Cookie for the sign-in at the provider.
    cookie: Option<String>,
    contract: Contract,
    /// Real values, by their placeholder in the examples.
    real: BTreeMap<String, String>,
    credentials: BTreeMap<String, String>,
    /// TXT record of `_content-telemetry.example.net`.
    published: Arc<Mutex<Option<String>>>,
    _dns: TestDns,
}

impl ExampleRun {
    async fn begin() -> Self {
        let published = Arc::new(Mutex::new(None));
        let text = Arc::clone(&published);
        let is_asked = |name: &str| name.trim_end_matches('.') == "_content-telemetry.example.net";
        let answers =
            move |name: &str| text.lock().unwrap().clone().filter(|_| is_asked(name)).map(DnsRecord::Text).into_iter().collect();
        let dns = TestDns::start(answers).await;
        let provider = ForgedProvider::start().await;
        let known = json!([{"id": "example", "issuer": provider.issuer(), "client_id": "telemetry", "client_secret": SECRET}]);
        let demo = Demo::start_with(&[
            ("TELEMETRY_DNS_SERVER", dns.address.to_string()),
            ("TELEMETRY_OIDC_PROVIDERS", known.to_string()),
            ("TELEMETRY_OIDC_ALLOW", provider.host().to_owned()),
        ])
        .await;
        let client = Client::builder().redirect(Policy::none()).no_proxy().timeout(Duration::from_secs(30)).build().unwrap();
        let contract = Contract::parse(&demo.get("", "/openapi.json").await.body).unwrap_or_else(|error| panic!("{error:#}"));
        let real = ORGANIZATIONS.map(|(example, name)| (example.to_owned(), demo.env(name).to_owned())).into();
        let credentials = demo.env.clone();
        Self { demo, client, provider, cookie: None, contract, real, credentials, published, _dns: dns }
    }

    /// Replaces placeholders with real values.
    fn fill(&self, text: &str) -> String {
        self.real.iter().fold(text.to_owned(), |text, (example, real)| text.replace(example, real))
    }

    /// Runs an operation's example.
    async fn execute(&mut self, id: &str, who: &str) {
        self.prepare(id).await;
        let operation = self.contract.operation(id).unwrap_or_else(|| panic!("{id} is not in the document"));
        let response = self.request(operation, who).send().await.unwrap();
        let content_type = text_of(response.headers(), "content-type");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = response.bytes().await.unwrap();
        let (&success, documented) = operation.responses.range(200..400).next().unwrap();
        assert_eq!(status, success, "{id}: {}", String::from_utf8_lossy(&body));
        let checked = operation.check(status, &content_type, &body);
        assert_eq!(checked, Ok(()), "{id}: {}", String::from_utf8_lossy(&body));
        let misformatted = serde_json::from_slice(&body).map_or_else(
            |_| instant::find_misformatted(&String::from_utf8_lossy(&body)).map(str::to_owned),
            |answer| instant::find_misformatted(&without_statement_times(answer).to_string()).map(str::to_owned),
        );
        assert_eq!(misformatted, None, "{id}: a timestamp in another format");
        assert_eq!(operation.check_headers(status, headers.keys().map(HeaderName::as_str)), Ok(()), "{id}");
        let (mut learnt, answer) = (BTreeMap::new(), serde_json::from_slice(&body).unwrap_or(Value::Null));
        let is_list = documented.example().is_some();
        for (media, example) in documented.examples().filter(|(media, _)| is_list && LISTS.contains(media)) {
            self.execute_as(operation, who, media, example, &answer).await;
        }
        if let (Some(example), false) = (documented.example(), answer.is_null()) {
            if operation.method != "GET" {
                learn(example, &answer, &mut learnt);
            }
            self.note(id, &answer);
            self.real.extend(learnt);
        }
        self.follow(id, &headers);
    }

    /// Requests a list in another media type, and compares it with the JSON response.
    async fn execute_as(&self, operation: &Operation, who: &str, media: &str, example: Option<&Value>, page: &Value) {
        let response = self.request(operation, who).header("accept", media).send().await.unwrap();
        let at = format!("{} as {media}", operation.id);
        let (status, content_type) = (response.status().as_u16(), text_of(response.headers(), "content-type"));
        assert!((status, content_type.starts_with(media)) == (200, true), "{at}: {status} {content_type}");
        assert_eq!(operation.check_headers(status, response.headers().keys().map(HeaderName::as_str)), Ok(()));
        assert_eq!(text_of(response.headers(), "x-total-count"), page["total"].to_string(), "{at}");
        let body = response.text().await.unwrap();
        assert_eq!(operation.check(status, &content_type, body.as_bytes()), Ok(()), "{at}: {body}");
        let example = example.and_then(Value::as_str).unwrap();
        assert_ne!(page["items"], json!([]), "{at}: the list is empty");
        check_items(media, &body, page, &at);
        assert_eq!(instant::find_misformatted(&body), None, "{at}: a timestamp in another format");
        let columns = |text: &str| text.lines().next().filter(|_| media == "text/csv").map(str::to_owned);
        assert_eq!(columns(&body), columns(example), "{at}");
    }

    fn request(&self, operation: &Operation, who: &str) -> RequestBuilder {
        let method = operation.method.parse().unwrap();
        let mut request = self.client.request(method, self.demo.url(&self.target(operation)));
        if let Some(body) = &operation.body {
            request = request.header("content-type", "application/json").body(self.fill(&body.example.to_string()));
        }
        if let Some(cookie) = self.cookie.as_ref().filter(|_| operation.id == "finish_oidc") {
            request = request.header("cookie", cookie);
        }
        match self.credentials.get(who) {
            Some(key) if who.ends_with("_KEY") => request.header("x-api-key", key),
            Some(session) => request.bearer_auth(session),
            None => request,
        }
    }

    /// Follows the redirect to the provider and signs the person in there.
    fn follow(&mut self, id: &str, headers: &HeaderMap) {
        if id != "start_oidc" {
            return;
        }
        let to: Url = text_of(headers, "location").parse().unwrap();
        assert!(to.as_str().starts_with(self.provider.issuer()), "{to}");
        let asked = |name: &str| to.query_pairs().find(|(known, _)| known == name).unwrap().1.into_owned();
        let now = Clock::System.now();
        self.provider.will_say(&self.provider.good("colleague", "colleague@example.net", &asked("nonce"), now), now);
        self.real.insert("from-the-start".to_owned(), asked("state"));
        self.cookie = text_of(headers, "set-cookie").split(';').next().map(str::to_owned);
    }

    fn target(&self, operation: &Operation) -> String {
        let text = |parameter: &Parameter| parameter.example.as_ref().and_then(Value::as_str).map(|text| self.fill(text));
        let (mut path, mut query) = (operation.path.clone(), Vec::new());
        for parameter in &operation.parameters {
            let Some(value) = text(parameter) else { continue };
            match parameter.place.as_str() {
                "path" => path = path.replace(&format!("{{{}}}", parameter.name), &value),
                "query" => query.push(format!("{}={value}", parameter.name)),
                _ => {}
            }
        }
        format!("{path}?{}", query.join("&"))
    }

    /// Does what an example needs besides HTTP: processed events, an email, or an operator's command.
    async fn prepare(&mut self, id: &str) {
        match id {
            // Two events, plus one in the uploaded session, so that reads return data.
            "get_summary" => wait_for_events(&self.demo, 3).await,
            // A fetch by a bot, reported by the owner's edge.
            "list_crawlers" => self.report_a_crawler("/a", "/content-owners/crawlers").await,
            // The robots.txt of the demo's domain disallows this path.
            "list_disallowed_fetches" => self.report_a_crawler("/prices/a", "/content-owners/robots").await,
            // An event that a network reports with the click token.
            "list_agent_events" => self.report_a_click().await,
            // Closing a month for the first time returns 201.
            "create_statement" => {
                let (owner, october) = (self.demo.env("OWNER_KEY"), json!({"period": "2026-10"}));
                assert_eq!(self.demo.post(owner, "/content-owners/statements", &october).await.status, 201);
            }
            "get_sign_in_page" => self.open_mail("verify_magic_link", "/auth/magic-link/verify").await,
            "claim_invite" => self.open_mail("claim_invite", "/invites/claim").await,
            "get_click_manifest" => {
                let settings = self.demo.url("/api/v1/identity/settings");
                let change = self.demo.client.patch(settings).bearer_auth(self.demo.env("AGENT_SESSION"));
                let body = r#"{"share_sessions_via_click_tokens":true}"#;
                let changed =
                    service_kit::testing::send_request(change.header("content-type", "application/json").body(body)).await;
                assert_eq!(changed.status, 200, "{}", changed.body);
            }
            "list_analysts" => {
                let account = "INSERT INTO analyst_accounts (organization_id, login, name, password_hash, created_by_kind, created_at) \
                     VALUES ($1, 'telemetry_analyst_0000000000a0', 'Figures', sha256(''), 'system', now()) RETURNING id::text";
                let owner: uuid::Uuid = self.demo.env("OWNER_ORG_ID").parse().unwrap();
                let id = sqlx::query_scalar(account).bind(owner).fetch_one(&self.demo.stores.pool).await.unwrap();
                self.real.insert("0195f3a0-0000-7000-8000-0000000000a0".to_owned(), id);
            }
            // A dead letter that the worker would only see on the topic.
            "list_dead_letters" => {
                let letter = "INSERT INTO dead_letters (id, origin, reason, rejected_at, bytes) \
                     VALUES ('0195f3a0-0000-7000-8000-000000000090', 'telemetry.v1/3/1042', 'not a record', now(), 1834)";
                sqlx::query(letter).execute(&self.demo.stores.pool).await.unwrap();
            }
            "provision_organization" => {
                let trust = "UPDATE organizations SET is_trusted_partner = true WHERE name = 'Demo Network'";
                assert_eq!(sqlx::query(trust).execute(&self.demo.stores.pool).await.unwrap().rows_affected(), 1);
                let (org, scopes) = (self.demo.env("NETWORK_ORG_ID").parse().unwrap(), [Scope::PartnerProvision]);
                let pool = &self.demo.stores.pool;
                let created =
                    create_key_as_system(pool, org, OrgType::Platform, "partner", &scopes, Clock::System.now()).await.unwrap();
                self.credentials.insert("PARTNER_KEY".to_owned(), created.reveal().to_owned());
            }
            _ => {}
        }
    }

    /// Reports a bot's fetch of a page, and waits until a list has an item for it.
    async fn report_a_crawler(&self, page: &str, list: &str) {
        let report = json!({"events": [{"type": "content_retrieved", "timestamp": "2026-11-01T10:00:00Z", "source_role": "edge",
            "content_url": format!("https://www.example.com{page}"), "data": {"user_agent": "GPTBot/1.2", "response_status": 200}}]});
        let key = self.demo.env("OWNER_KEY");
        assert_eq!(self.demo.report(key, &report).await.status, 201);
        eventually("the crawler is counted", || async {
            let read = self.demo.get(key, list).await;
            (read.body["total"] == 1).then_some(())
        })
        .await;
    }

    async fn report_a_click(&self) {
        let token = &self.real[EXAMPLE_TOKEN];
        let report = json!({"events": [{"type": "checkout_completed", "timestamp": "2026-11-01T09:00:00Z", "source_role": "index",
            "ctx_token": token, "data": {"value_amount": 4999, "currency": "EUR"}}]});
        assert_eq!(self.demo.report(self.demo.env("NETWORK_KEY"), &report).await.status, 201);
        eventually("the agent sees the click", || async {
            let read = self.demo.get(self.demo.env("AGENT_KEY"), "/agent/events?reported_by=other").await;
            (read.body["total"] == 1).then_some(())
        })
        .await;
    }

    /// Uses the token in the newest email with this path instead of the example's token.
    async fn open_mail(&mut self, id: &str, path: &str) {
        let folder = self.demo.folder().join("mail");
        let token = eventually("the email arrives", || async {
            let mut files: Vec<_> = std::fs::read_dir(&folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
            files.sort();
            let mails = files.iter().rev().filter_map(|file| std::fs::read_to_string(file).ok());
            let mail = mails.map(|mail| mail.replace("=\r\n", "").replace("=3D", "=")).find(|mail| mail.contains(path))?;
            words(&mail)
                .find(|word| word.len() >= 43 && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
                .map(str::to_owned)
        })
        .await;
        let example = self.contract.operation(id).unwrap().body.as_ref().unwrap().example["token"].as_str().unwrap().to_owned();
        self.real.insert(example, token);
    }

    fn note(&mut self, id: &str, answer: &Value) {
        if id == "verify_magic_link" {
            self.credentials.insert("COLLEAGUE_SESSION".to_owned(), answer["session_id"].as_str().unwrap().to_owned());
        }
        if id == "create_click_token" {
            self.real.insert(EXAMPLE_TOKEN.to_owned(), answer["token"].as_str().unwrap().to_owned());
        }
        if id == "list_webhook_deliveries" {
            // The oldest delivery, which is about the delegation approved above.
            let delivery = answer.as_array().unwrap().last().unwrap()["id"].as_str().unwrap();
            self.real.insert("0195f3a0-0000-7000-8000-000000000051".to_owned(), delivery.to_owned());
        }
        if id == "create_domain" {
            *self.published.lock().unwrap() = Some(format!("svc-verify={}", answer["verification_token"].as_str().unwrap()));
        }
    }
}

fn text_of(headers: &HeaderMap, name: &str) -> String {
    headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || "\"<>?=&#".contains(c))
}

/// Removes the time from statements at any depth. A statement is a signed file with its own canonical form, whose only time has whole
/// seconds (docs/api/statements.md).
fn without_statement_times(mut value: Value) -> Value {
    match &mut value {
        Value::Object(members) => {
            if members.get("document_type").is_some_and(|kind| kind == "statement") {
                members.remove("closed");
            }
            members.values_mut().for_each(|member| *member = without_statement_times(member.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = without_statement_times(item.take())),
        _ => {}
    }
    value
}

/// Records the real ids that correspond to the example's. Lists may contain more items than the example.
fn learn(example: &Value, answer: &Value, learnt: &mut BTreeMap<String, String>) {
    let (Value::Object(example), Value::Object(answer)) = (example, answer) else { return };
    for (name, shown) in example {
        let Some(real) = answer.get(name) else { continue };
        match (shown, real) {
            (Value::String(shown), Value::String(real)) if shown.starts_with(EXAMPLE_ID) => {
                learnt.insert(shown.clone(), real.clone());
            }
            (Value::Object(_), _) => learn(shown, real, learnt),
            (Value::Array(shown), Value::Array(real)) => {
                shown.iter().zip(real).for_each(|(shown, real)| learn(shown, real, learnt));
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn k4_examples_work_as_documented() {
    let mut story = ExampleRun::begin().await;
    let described: BTreeSet<_> = story.contract.operations.iter().map(|operation| operation.id.as_str()).collect();
    let told: BTreeSet<_> = EXAMPLES.iter().map(|(id, _)| *id).collect();
    assert_eq!(described, told, "every operation must be in EXAMPLES");
    for (id, who) in EXAMPLES {
        story.execute(id, who).await;
    }
}
