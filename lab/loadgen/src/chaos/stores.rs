//! The Kafka, ClickHouse and PostgreSQL servers for a chaos run, each behind a proxy. Shards query each other directly, as do the checks,
//! which must not be affected by faults.

use super::fault::Target;
use super::proxy::Proxy;
use crate::drive::lock;
use anyhow::Context as _;
use local::ports::Ports;
use local::stack::Endpoints;
use local::test_servers::{ClickHouse, Kafka, Postgres};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerAction {
    Kill,
    Terminate,
    Pause,
    Resume,
    Restart,
}

#[derive(Debug)]
enum Server {
    Kafka(Kafka),
    ClickHouse(ClickHouse),
    Postgres(Postgres),
}

#[derive(Debug)]
pub(super) struct Store {
    server: Arc<Mutex<Server>>,
    pub(super) proxy: Proxy,
    /// Locked while a fault stops the server.
    pub(super) held: tokio::sync::Mutex<()>,
    revived: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Stores {
    brokers: Vec<Store>,
    clickhouses: Vec<Store>,
    postgres: Store,
    /// Direct addresses, without the proxies.
    pub(super) direct: Endpoints,
    /// Addresses through the proxies, for the services.
    pub(super) proxied: Endpoints,
    pub(super) direct_shards: Vec<String>,
    pub(super) proxied_shards: Vec<String>,
}

macro_rules! each {
    ($server:expr, $inner:ident => $act:expr) => {
        match $server {
            Server::Kafka($inner) => $act,
            Server::ClickHouse($inner) => $act,
            Server::Postgres($inner) => $act,
        }
    };
}

impl Server {
    fn perform(&mut self, act: ServerAction) -> anyhow::Result<()> {
        match act {
            ServerAction::Kill => each!(self, server => server.kill_9()),
            ServerAction::Terminate => each!(self, server => server.terminate()),
            ServerAction::Pause => each!(self, server => server.pause()),
            ServerAction::Resume => each!(self, server => server.resume()),
            ServerAction::Restart => return each!(self, server => server.restart()),
        }
        Ok(())
    }

    fn url(&self) -> String {
        match self {
            Self::Kafka(server) => format!("kafka://{}", server.address()),
            Self::ClickHouse(server) => server.url(),
            Self::Postgres(server) => server.url(),
        }
    }
}

impl Store {
    async fn supervise(&self) {
        let _free = self.held.lock().await;
        let server = Arc::clone(&self.server);
        let has_ended = spawn_blocking(move || each!(&mut *lock(&server), server => server.has_ended())).await.unwrap_or(false);
        if has_ended && self.perform(ServerAction::Restart).await.is_ok() {
            self.revived.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn behind(port: u16, server: Server) -> anyhow::Result<Self> {
        let own = url::Url::parse(&server.url())?.port().context("a server has a port")?;
        let proxy = Proxy::start(port, own).await.context("failed to start the proxy")?;
        let (held, revived) = (tokio::sync::Mutex::default(), AtomicU64::new(0));
        Ok(Self { server: Arc::new(Mutex::new(server)), proxy, held, revived })
    }

    pub(super) async fn perform(&self, act: ServerAction) -> anyhow::Result<()> {
        let server = Arc::clone(&self.server);
        spawn_blocking(move || lock(&server).perform(act)).await?
    }
}

impl Stores {
    pub(super) async fn start(folder: &Path, brokers: usize, shards: usize) -> anyhow::Result<Self> {
        let mut ports = Ports::default();
        let mut proxies = |count: usize| (0..count).map(|_| ports.choose(&[])).collect::<anyhow::Result<Vec<u16>>>();
        let (kafka_ports, shard_ports, postgres_port) = (proxies(brokers)?, proxies(shards)?, proxies(1)?[0]);
        let (folder, advertised) = (folder.to_owned(), kafka_ports.clone());
        let (for_clickhouse, for_postgres) = (folder.clone(), folder.clone());
        let (kafkas, clickhouses, postgres) = tokio::try_join!(
            spawn_blocking(move || Kafka::cluster_behind_proxies(&folder, &advertised)),
            spawn_blocking(move || start_clickhouses(&for_clickhouse, shards)),
            spawn_blocking(move || Postgres::start(&for_postgres)),
        )?;
        let (kafkas, clickhouses, postgres) = (kafkas?, clickhouses?, postgres?);
        let direct_shards: Vec<String> = clickhouses.iter().map(ClickHouse::url).collect();
        let proxied_shards: Vec<String> =
            direct_shards.iter().zip(&shard_ports).map(|(url, port)| at_port(url, *port)).collect::<Result<_, _>>()?;
        let direct = Endpoints {
            kafka_brokers: kafkas.iter().map(Kafka::internal_address).collect::<Vec<_>>().join(","),
            clickhouse_url: direct_shards[0].clone(),
            database_url: postgres.url(),
        };
        let proxied = Endpoints {
            kafka_brokers: kafka_ports.iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(","),
            clickhouse_url: proxied_shards[0].clone(),
            database_url: at_port(&direct.database_url, postgres_port)?,
        };
        let (mut brokers, mut shards) = (Vec::new(), Vec::new());
        for (port, kafka) in kafka_ports.iter().zip(kafkas) {
            brokers.push(Store::behind(*port, Server::Kafka(kafka)).await?);
        }
        for (port, clickhouse) in shard_ports.iter().zip(clickhouses) {
            shards.push(Store::behind(*port, Server::ClickHouse(clickhouse)).await?);
        }
        let postgres = Store::behind(postgres_port, Server::Postgres(postgres)).await?;
        Ok(Self { brokers, clickhouses: shards, postgres, direct, proxied, direct_shards, proxied_shards })
    }

    /// Returns the target's store, or `None` if the target is a service.
    pub(super) fn store(&self, target: Target) -> Option<&Store> {
        match target {
            Target::Broker(number) => self.brokers.get(number),
            Target::ClickHouse(number) => self.clickhouses.get(number),
            Target::Postgres => Some(&self.postgres),
            Target::Gateway(_) | Target::Worker(_) | Target::Query(_) => None,
        }
    }

    /// Restarts servers that end unexpectedly. Never returns.
    pub(super) async fn supervise(&self) {
        loop {
            sleep(LOOK_EVERY).await;
            for (_, store) in self.all() {
                store.supervise().await;
            }
        }
    }

    /// Returns how often each server was restarted because it had ended unexpectedly.
    pub(super) fn revived(&self) -> BTreeMap<String, u64> {
        let revived = self.all().map(|(name, store)| (name, store.revived.load(Ordering::Relaxed)));
        revived.filter(|(_, times)| *times > 0).collect()
    }

    fn all(&self) -> impl Iterator<Item = (String, &Store)> {
        let brokers = (0..).map(Target::Broker).zip(&self.brokers);
        let shards = (0..).map(Target::ClickHouse).zip(&self.clickhouses);
        brokers.chain(shards).chain([(Target::Postgres, &self.postgres)]).map(|(target, store)| (target.to_string(), store))
    }

    pub(super) fn brokers(&self) -> impl Iterator<Item = &Store> {
        self.brokers.iter()
    }
}

fn start_clickhouses(folder: &Path, shards: usize) -> anyhow::Result<Vec<ClickHouse>> {
    if shards > 1 { ClickHouse::shards(folder, shards) } else { Ok(vec![ClickHouse::start(folder)?]) }
}

pub(super) fn at_port(url: &str, port: u16) -> anyhow::Result<String> {
    let mut url = url::Url::parse(url)?;
    url.set_port(Some(port)).map_err(|()| anyhow::anyhow!("failed to set the port of {url}"))?;
    Ok(url.as_str().trim_end_matches('/').to_owned())
}
