//! Webhooks of P12: a deliverer, a receiver for all tenants, and the time until the first attempt of a delivery arrives.

use crate::client::{Exchange, HttpResponse};
use crate::drive::lock;
use crate::tenants::Tenant;
use anyhow::Context as _;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rcgen::CertifiedKey;
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use schemas::webhook::signature::header::DELIVERY_ID;
use service_kit::databases;
use service_kit::secret_encryption::{SecretsKey, SecretsSettings};
use service_kit::settings::{PostgresSettings, WebhookSettings};
use sqlx::PgPool;
use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stream_workers::deliver::{ClockOffset, ConcurrencySettings, DeliverSettings, deliver};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

/// Deliveries without an arrived attempt.
type Expected = Arc<Mutex<HashMap<Uuid, oneshot::Sender<()>>>>;

pub(super) struct Webhooks {
    pool: PgPool,
    /// Endpoints by the domain of their tenant.
    endpoints: HashMap<String, Uuid>,
    expected: Expected,
    _stop: DropGuard,
}

impl Webhooks {
    /// Starts a deliverer and a receiver, and creates an endpoint for each tenant.
    /// `folder` stores the receiver's certificate.
    pub(super) async fn start(postgres: &PostgresSettings, tenants: &[Tenant], folder: &Path) -> anyhow::Result<Self> {
        let (pool, expected, stop) = (databases::postgres(postgres)?, Expected::default(), CancellationToken::new());
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let secrets = SecretsSettings { secrets_key: Some(SecretsKey::generate()) };
        let mut endpoints = HashMap::new();
        for tenant in tenants {
            let id = Uuid::now_v7();
            sqlx::query(
                "INSERT INTO webhook_endpoints (id, organization_id, url, event_types, secret_sealed, created_at) \
                 VALUES ($1, $2, $3, '{invite.claimed}', $4, now())",
            )
            .bind(id)
            .bind(tenant.owner.context("the tenant has no owner")?.0)
            .bind(format!("https://{address}/"))
            .bind(secrets.sealer()?.seal("a secret that nothing verifies", id.as_bytes())?)
            .execute(&pool)
            .await?;
            endpoints.insert(tenant.domain.clone(), id);
        }
        let certificate = folder.join("webhook-receiver.pem");
        let acceptor = acceptor(&address, &certificate)?;
        tokio::spawn(stop.clone().run_until_cancelled_owned(receive(listener, acceptor, Arc::clone(&expected))));
        let webhook_allow = address.to_string().parse().map_err(|error| anyhow::anyhow!("{address}: {error}"))?;
        let webhooks = WebhookSettings { webhook_allow, webhook_extra_ca: Some(certificate), dns_server: None };
        let settings = DeliverSettings { postgres: postgres.clone(), secrets, webhooks, pace: ConcurrencySettings::default() };
        let stopped = stop.clone();
        tokio::spawn(async move {
            if let Err(error) = deliver(&settings, ClockOffset::default(), stopped).await {
                eprintln!("webhooks are not delivered: {error:#}");
            }
        });
        Ok(Self { pool, endpoints, expected, _stop: stop.drop_guard() })
    }

    /// Creates a delivery to the tenant's endpoint, and waits until its first attempt arrives.
    pub(super) async fn deliver(&self, tenant: &Tenant, deadline: Duration) -> Exchange {
        let (id, (arrived, arrival)) = (Uuid::now_v7(), oneshot::channel());
        lock(&self.expected).insert(id, arrived);
        let created = sqlx::query(
            "INSERT INTO webhook_deliveries (id, endpoint_id, organization_id, event_type, body, created_at) \
             SELECT $1, id, organization_id, 'invite.claimed', '{}', now() FROM webhook_endpoints WHERE id = $2",
        )
        .bind(id)
        .bind(self.endpoints.get(&tenant.domain))
        .execute(&self.pool)
        .await;
        match created {
            Ok(created) if created.rows_affected() == 1 => {}
            _ => return Exchange::NeverSent("failed to create a delivery"),
        }
        match timeout(deadline, arrival).await {
            Ok(Ok(())) => {
                Exchange::Responded(HttpResponse { status: 200, has_retry_after: false, total: None, body: Bytes::new() })
            }
            _ => Exchange::Lost("no attempt arrived"),
        }
    }
}

/// Creates a certificate for the address, and stores it for the deliverer to trust.
fn acceptor(address: &SocketAddr, file: &Path) -> anyhow::Result<TlsAcceptor> {
    let CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed([address.ip().to_string()])?;
    std::fs::write(file, cert.pem())?;
    let private = PrivatePkcs8KeyDer::from(signing_key.serialize_der()).into();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(TlsAcceptor::from(Arc::new(server.with_no_client_auth().with_single_cert(vec![cert.der().clone()], private)?)))
}

async fn receive(listener: TcpListener, acceptor: TlsAcceptor, expected: Expected) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, expected) = (acceptor.clone(), Arc::clone(&expected));
        let respond = service_fn(move |request: Request<Incoming>| {
            let id = request.headers().get(DELIVERY_ID).and_then(|id| Uuid::try_parse_ascii(id.as_bytes()).ok());
            if let Some(arrived) = id.and_then(|id| lock(&expected).remove(&id)) {
                // The sender may have stopped waiting.
                let _ = arrived.send(());
            }
            std::future::ready(Ok::<_, Infallible>(Response::new(String::new())))
        });
        tokio::spawn(async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                // The deliverer closes the connection after its response.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), respond).await;
            }
        });
    }
}
