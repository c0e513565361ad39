//! A webhook and its queue before and after PostgreSQL is lost: the lists are equal, and the restored secret still signs.

use crate::pipeline::Pipeline;
use crate::webhooks::{ReceivedRequests, accept, receiver};
use identity_api::domains::DomainSettings;
use identity_api::mail::MailSettings;
use identity_api::sign_in::SignInSettings;
use identity_api::webhooks::DeliveryLogSettings;
use schemas::identity::{OrgType, Scope};
use schemas::ids::OrgId;
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::http;
use service_kit::secret_encryption::{SecretsKey, SecretsSettings};
use service_kit::settings::WebhookSettings;
use service_kit::testing::{Seed, TestAuthority, TestReceiver, TestServer, client, eventually};
use stream_workers::deliver::{ClockOffset, ConcurrencySettings, DeliverSettings, deliver};
use tokio_util::sync::CancellationToken;

pub(crate) struct WebhookBackup {
    identity: TestServer,
    key: String,
    secret: String,
    /// Paths and their responses.
    reads: Vec<(String, String)>,
    deliverer: DeliverSettings,
    received: ReceivedRequests,
    _receiver: TestReceiver,
    _files: (tempfile::NamedTempFile, tempfile::TempDir),
}

impl WebhookBackup {
    /// Creates a webhook for `owner` and a delegation whose message waits for delivery. No deliverer is running yet.
    pub(crate) async fn create_for(pipeline: &Pipeline, owner: OrgId) -> Self {
        let authority = TestAuthority::new();
        let files = (tempfile::NamedTempFile::new().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(files.0.path(), &authority.pem).unwrap();
        let (receiver, letters) = receiver(&authority).await;
        let place = format!("localhost:{}", receiver.address.port());
        let webhooks = WebhookSettings {
            webhook_allow: place.parse().unwrap(),
            webhook_extra_ca: Some(files.0.path().to_owned()),
            dns_server: None,
        };
        let (secrets, postgres) =
            (SecretsSettings { secrets_key: Some(SecretsKey::generate()) }, pipeline.stores.postgres.clone());
        let settings = identity_api::Settings {
            postgres: postgres.clone(),
            secrets: secrets.clone(),
            webhooks: webhooks.clone(),
            mail: MailSettings { mail_dir: Some(files.1.path().to_owned()), ..MailSettings::default() },
            sign_in: SignInSettings::default().at(receiver.address),
            domains: DomainSettings::default(),
            delivery_log: DeliveryLogSettings::default(),
        };
        let identity = identity_api::State::connect(&settings, Clock::System).await.unwrap();
        let identity = TestServer::start(http::with_request_middleware(identity_api::routes(identity))).await;
        let scopes = [Scope::TelemetryRead, Scope::IdentityRead, Scope::IdentityWrite];
        let key = Seed(&pipeline.stores.pool).key(owner, OrgType::ContentOwner, &scopes).await;
        let deliverer = DeliverSettings { postgres, secrets, webhooks, pace: ConcurrencySettings::default() };
        let mut hooks = Self {
            identity,
            key,
            secret: String::new(),
            reads: vec![],
            deliverer,
            received: letters,
            _receiver: receiver,
            _files: files,
        };
        let wanted = json!({"url": format!("https://{place}/in"), "event_types": ["delegation.created"]});
        let created = hooks.create("/webhooks", &wanted).await;
        hooks.secret = created["secret"].as_str().unwrap().to_owned();
        let grantee = Seed(&pipeline.stores.pool).org("grantee", OrgType::Platform).await;
        hooks.create("/delegations", &json!({"grantee_org_id": grantee.id})).await;
        for path in ["/webhooks".to_owned(), format!("/webhooks/{}/deliveries", created["id"].as_str().unwrap())] {
            let read = hooks.read(&path).await.unwrap();
            hooks.reads.push((path, read));
        }
        assert!(hooks.reads[1].1.contains("pending"), "no pending delivery: {}", hooks.reads[1].1);
        hooks
    }

    /// Checks that the lists are equal and that the waiting message is delivered with a valid signature.
    pub(crate) async fn are_back(&self, pipeline: &Pipeline) {
        for (path, before) in &self.reads {
            let now = eventually("the list is readable", || self.read(path)).await;
            assert_eq!(now, *before, "{path}");
        }
        let (settings, stop) =
            (DeliverSettings { postgres: pipeline.stores.postgres.clone(), ..self.deliverer.clone() }, CancellationToken::new());
        let stopped = stop.clone();
        let delivering = tokio::spawn(async move { deliver(&settings, ClockOffset::default(), stopped).await });
        let letter = eventually("the message is delivered", || async { self.received.lock().unwrap().first().cloned() }).await;
        assert!(accept(&self.secret, &letter).is_ok(), "the restored secret does not sign");
        stop.cancel();
        delivering.await.unwrap().unwrap();
    }

    async fn create(&self, path: &str, body: &Value) -> Value {
        let request = client().post(self.at(path)).header("x-api-key", &self.key).header("content-type", "application/json");
        let answer = request.body(body.to_string()).send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert_eq!(status, 201, "{path}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    async fn read(&self, path: &str) -> Option<String> {
        let answer = client().get(self.at(path)).header("x-api-key", &self.key).send().await.ok()?;
        if answer.status() == 200 { answer.text().await.ok() } else { None }
    }

    fn at(&self, path: &str) -> String {
        format!("{}/api/v1/identity{path}", self.identity.url)
    }
}
