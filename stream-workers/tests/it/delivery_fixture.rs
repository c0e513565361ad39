//! Helpers for delivery tests: an outbox with endpoints and messages, and deliverers.

use crate::test_app::RunningTask;
use chrono::{DateTime, Utc};
use schemas::identity::OrgType;
use schemas::ids::{DeliveryId, InviteId, OrgId};
use schemas::secrets::PlainWebhookSecret;
use schemas::webhook::{Data, Envelope, EventType, InviteData};
use service_kit::clock::Clock;
use service_kit::roles::Role;
use service_kit::secret_encryption::{Sealer, SecretsKey, SecretsSettings};
use service_kit::settings::WebhookSettings;
use service_kit::testing::{
    DnsRecord, Seed, TestAuthority, TestDns, TestProcess, TestReceiver, TestStores, eventually, free_address,
};
use sqlx::PgPool;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use stream_workers::deliver::{ClockOffset, ConcurrencySettings, DeliverSettings, deliver};
use tempfile::NamedTempFile;
use uuid::Uuid;

/// Every receiver's host. Receivers differ by port.
pub(crate) const HOST: &str = "hooks.test";

pub(crate) struct DeliveryFixture {
    pub(crate) stores: TestStores,
    pub(crate) pool: PgPool,
    pub(crate) authority: TestAuthority,
    key: SecretsKey,
    sealer: Sealer,
    dns: TestDns,
    host: Arc<Mutex<IpAddr>>,
    pem: NamedTempFile,
    ports: Mutex<Vec<u16>>,
}

#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) id: Uuid,
    pub(crate) org: OrgId,
    pub(crate) secret: String,
}

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct DeliveryState {
    pub(crate) status: String,
    pub(crate) attempts: i32,
    pub(crate) due_at: DateTime<Utc>,
    pub(crate) lease: Option<Uuid>,
    pub(crate) last_attempt_at: Option<DateTime<Utc>>,
    pub(crate) last_outcome: Option<String>,
    pub(crate) last_status_code: Option<i32>,
    pub(crate) last_duration_ms: Option<i64>,
}

impl DeliveryFixture {
    pub(crate) async fn new() -> Self {
        Self::on(TestStores::unprepared().await).await
    }

    pub(crate) async fn on(stores: TestStores) -> Self {
        let (authority, key) = (TestAuthority::new(), SecretsKey::generate());
        let sealer = SecretsSettings { secrets_key: Some(key.clone()) }.sealer().unwrap();
        let host: Arc<Mutex<IpAddr>> = Arc::new(Mutex::new(Ipv4Addr::LOCALHOST.into()));
        let pointed = Arc::clone(&host);
        let dns = TestDns::start(move |_| vec![DnsRecord::Address(*pointed.lock().unwrap())]).await;
        let pem = NamedTempFile::new().unwrap();
        std::fs::write(pem.path(), &authority.pem).unwrap();
        Self { pool: stores.pool.clone(), stores, authority, key, sealer, dns, host, pem, ports: Mutex::default() }
    }

    /// Allows deliverers started later to call a receiver.
    pub(crate) fn open_port(&self, receiver: &TestReceiver) {
        self.open(receiver.address);
    }

    /// Returns a receiver that accepts connections and never responds.
    pub(crate) async fn hanging(&self) -> TestReceiver {
        let receiver = TestReceiver::silent().await;
        self.open_port(&receiver);
        receiver
    }

    pub(crate) fn open(&self, address: SocketAddr) {
        self.ports.lock().unwrap().push(address.port());
    }

    /// Changes the address to which all names resolve.
    pub(crate) fn resolve_to(&self, address: &str) {
        *self.host.lock().unwrap() = address.parse().unwrap();
    }

    pub(crate) async fn org(&self) -> OrgId {
        Seed(&self.pool).org("receiver", OrgType::Platform).await.id
    }

    pub(crate) async fn endpoint(&self, receiver: &TestReceiver) -> Endpoint {
        self.endpoint_of(self.org().await, receiver).await
    }

    pub(crate) async fn endpoint_of(&self, org: OrgId, receiver: &TestReceiver) -> Endpoint {
        self.endpoint_on(org, receiver.address).await
    }

    /// Creates an endpoint at an address, whether or not something listens there.
    pub(crate) async fn endpoint_on(&self, org: OrgId, address: SocketAddr) -> Endpoint {
        self.endpoint_at(org, &format!("https://{HOST}:{}/in?x=1", address.port())).await
    }

    pub(crate) async fn endpoint_at(&self, org: OrgId, url: &str) -> Endpoint {
        let (id, secret) = (Uuid::now_v7(), PlainWebhookSecret::generate());
        sqlx::query(
            "INSERT INTO webhook_endpoints (id, organization_id, url, event_types, secret_sealed, created_at) \
             VALUES ($1, $2, $3, '{invite.claimed}', $4, now())",
        )
        .bind(id)
        .bind(org.0)
        .bind(url)
        .bind(self.sealer.seal(secret.reveal(), id.as_bytes()).unwrap())
        .execute(&self.pool)
        .await
        .unwrap();
        Endpoint { id, org, secret: secret.reveal().to_owned() }
    }

    pub(crate) async fn enqueue(&self, to: &Endpoint) -> Uuid {
        self.enqueue_in(&self.pool, to).await
    }

    pub(crate) async fn enqueue_all(&self, to: &Endpoint, count: usize) -> Vec<Uuid> {
        let mut ids = Vec::new();
        for _ in 0..count {
            ids.push(self.enqueue(to).await);
        }
        ids
    }

    /// Like [`post`](Self::post), as part of a transaction.
    pub(crate) async fn enqueue_in(&self, store: impl sqlx::PgExecutor<'_>, to: &Endpoint) -> Uuid {
        let id = DeliveryId(Uuid::now_v7());
        let created_at = Clock::System.now();
        let invite = InviteData {
            id: InviteId(Uuid::now_v7()),
            organization_id: to.org,
            email: "é@a.test".to_owned(),
            claimed_at: created_at,
        };
        let envelope = Envelope { id, kind: EventType::InviteClaimed, created_at, data: Data::Invite(invite) };
        sqlx::query(
            "INSERT INTO webhook_deliveries (id, endpoint_id, organization_id, event_type, body, created_at) \
             VALUES ($1, $2, $3, 'invite.claimed', $4, $5)",
        )
        .bind(id.0)
        .bind(to.id)
        .bind(to.org.0)
        .bind(serde_json::to_string(&envelope).unwrap())
        .bind(created_at)
        .execute(store)
        .await
        .unwrap();
        id.0
    }

    /// Disables an endpoint as identity-api does when the endpoint is deleted. Returns the database's time afterwards.
    pub(crate) async fn disable(&self, endpoint: &Endpoint) -> DateTime<Utc> {
        sqlx::query("UPDATE webhook_endpoints SET disabled_at = now() WHERE id = $1")
            .bind(endpoint.id)
            .execute(&self.pool)
            .await
            .unwrap();
        sqlx::query_scalar("SELECT clock_timestamp()").fetch_one(&self.pool).await.unwrap()
    }

    /// Rotates a secret as identity-api does. Returns the new secret.
    pub(crate) async fn rotate(&self, endpoint: &Endpoint) -> String {
        let secret = PlainWebhookSecret::generate();
        sqlx::query("UPDATE webhook_endpoints SET secret_sealed = $2 WHERE id = $1")
            .bind(endpoint.id)
            .bind(self.sealer.seal(secret.reveal(), endpoint.id.as_bytes()).unwrap())
            .execute(&self.pool)
            .await
            .unwrap();
        secret.reveal().to_owned()
    }

    pub(crate) async fn delivery_state(&self, delivery: Uuid) -> DeliveryState {
        sqlx::query_as("SELECT * FROM webhook_queue WHERE delivery_id = $1").bind(delivery).fetch_one(&self.pool).await.unwrap()
    }

    /// Waits until a delivery's state matches `is_there`.
    pub(crate) async fn wait_for_state(
        &self,
        what: &str,
        delivery: Uuid,
        is_there: impl Fn(&DeliveryState) -> bool,
    ) -> DeliveryState {
        eventually(what, || async { Some(self.delivery_state(delivery).await).filter(&is_there) }).await
    }

    pub(crate) async fn wait_until_delivered(&self, deliveries: &[Uuid]) {
        eventually("each is delivered", || async {
            let count: i64 =
                sqlx::query_scalar("SELECT count(*) FROM webhook_queue WHERE delivery_id = ANY($1) AND status = 'delivered'")
                    .bind(deliveries)
                    .fetch_one(&self.pool)
                    .await
                    .ok()?;
            (usize::try_from(count).unwrap() == deliveries.len()).then_some(())
        })
        .await;
    }

    /// Returns the number of deliveries whose last attempt timed out.
    pub(crate) async fn given_up(&self) -> i64 {
        let given_up = "SELECT count(*) FROM webhook_queue WHERE last_outcome = 'timeout'";
        sqlx::query_scalar(given_up).fetch_one(&self.pool).await.unwrap()
    }

    fn allow(&self) -> String {
        let ports = self.ports.lock().unwrap();
        ports.iter().map(|port| format!("{HOST}:{port}")).collect::<Vec<_>>().join(",")
    }

    pub(crate) fn settings(&self) -> DeliverSettings {
        let webhooks = WebhookSettings {
            webhook_allow: self.allow().parse().unwrap(),
            webhook_extra_ca: Some(self.pem.path().to_owned()),
            dns_server: Some(self.dns.address),
        };
        let secrets = SecretsSettings { secrets_key: Some(self.key.clone()) };
        DeliverSettings {
            postgres: self.stores.signed_in_as(Role::Deliverer).postgres,
            secrets,
            webhooks,
            pace: ConcurrencySettings::default(),
        }
    }

    pub(crate) fn deliverer(&self) -> RunningTask {
        self.deliverer_ahead(&ClockOffset::default())
    }

    /// Starts a deliverer whose clock is ahead by the offset that the test sets.
    pub(crate) fn deliverer_ahead(&self, ahead: &ClockOffset) -> RunningTask {
        delivering(self.settings(), ahead.clone())
    }

    pub(crate) fn deliverer_with(&self, change: impl FnOnce(&mut DeliverSettings)) -> RunningTask {
        let mut settings = self.settings();
        change(&mut settings);
        delivering(settings, ClockOffset::default())
    }

    /// Starts the real binary with the shortest lease, and waits until it responds.
    pub(crate) async fn process(&self) -> TestProcess {
        self.process_with(&[]).await
    }

    /// Like [`process`](Self::process), with additional settings.
    pub(crate) async fn process_with(&self, others: &[(&'static str, String)]) -> TestProcess {
        let (listen, metrics) = (free_address().to_string(), free_address().to_string());
        let settings = [
            ("TELEMETRY_LISTEN", listen.clone()),
            ("TELEMETRY_METRICS_LISTEN", metrics),
            ("TELEMETRY_DELIVERY_LEASE", "11".to_owned()),
            ("TELEMETRY_SECRETS_KEY", self.key.reveal().to_owned()),
            ("TELEMETRY_DNS_SERVER", self.dns.address.to_string()),
            ("WEBHOOK_ALLOW", self.allow()),
            ("WEBHOOK_EXTRA_CA", self.pem.path().display().to_string()),
            ("DATABASE_URL", self.stores.signed_in_as(Role::Deliverer).postgres.database_url),
        ];
        let settings: Vec<_> = settings.into_iter().chain(others.iter().cloned()).collect();
        let mut process = TestProcess::service(&["deliver"], &settings);
        process.wait_until_ok(&format!("http://{listen}/ready")).await;
        process
    }
}

pub(crate) fn delivering(settings: DeliverSettings, ahead: ClockOffset) -> RunningTask {
    RunningTask::until_stopped(|stop| async move { deliver(&settings, ahead, stop).await })
}
