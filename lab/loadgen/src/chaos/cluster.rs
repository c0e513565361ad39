//! The stack for a chaos run: stores behind proxies, gateways, workers for each shard, query processes, identity and tenants.

use super::fault::WORKERS;
use super::options::ChaosOptions;
use super::plan::{GATEWAYS, QUERIES};
use super::service_process::ServiceProcess;
use super::stores::Stores;
use crate::client::{Connection, Endpoint, Exchange};
use crate::tenants::{self, Tenant};
use crate::test_bed::{self, Addresses, FreshStores, LaunchConfig, ProcessSlot, Service};
use anyhow::Context as _;
use local::ports::Ports;
use schemas::shard::Shard;
use serde_json::json;
use service_kit::databases::{apply_clickhouse_ddl, create_distributed_tables, for_all_shards};
use service_kit::settings::ClickHouseSettings;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::task::AbortOnDropHandle;

/// Content owners, each with its own agent.
pub(super) const TENANTS: usize = 4;

const DELEGATION_DEADLINE: Duration = Duration::from_secs(10);
/// The cluster's name in each shard's configuration.
const CLUSTER: &str = "telemetry";

#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) folder: PathBuf,
    pub(super) stores: Arc<Stores>,
    pub(super) fresh: FreshStores,
    /// Configuration for running commands on each shard, without the proxies.
    pub(super) commands: Vec<LaunchConfig>,
    pub(super) tenants: Vec<Tenant>,
    /// The owner whose only data is a CDN log.
    pub(super) log_owner: Tenant,
    pub(super) gateways: Vec<Arc<ServiceProcess>>,
    pub(super) workers: Vec<Arc<ServiceProcess>>,
    pub(super) queries: Vec<Arc<ServiceProcess>>,
    identity: Arc<ServiceProcess>,
    supervisors: Vec<AbortOnDropHandle<()>>,
}

impl Cluster {
    pub(super) async fn start(options: &ChaosOptions) -> anyhow::Result<Self> {
        let root = test_bed::workspace_root();
        let binaries = test_bed::binaries(&root, options.binaries.as_deref(), super::FEATURES).await?;
        let name = test_bed::run_name();
        let folder = test_bed::folder_of_run(&root, &name)?;
        let shards = options.shards();
        let stores = Arc::new(Stores::start(&folder, options.brokers(), shards).await?);
        let fresh = FreshStores::create(stores.direct.clone(), &name).await?;
        let directly = of_each_shard(&fresh.addresses, &stores.direct_shards)?;
        prepare(&directly).await?;
        let tenants = tenants::seed(&fresh.pool, &name, TENANTS).await?;
        let of_logs = tenants::seed(&fresh.pool, &format!("{name}-log"), 1).await?.pop().context("one owner was requested")?;
        let proxied = of_each_shard(&through_proxies(&fresh.addresses, &stores, &name)?, &stores.proxied_shards)?;
        let launch = |addresses: &Addresses| launch(&binaries, &folder, addresses);
        let readers: Vec<_> = proxied.iter().map(|shard| Arc::new(launch(&reading_all(shard)))).collect();
        let writers: Vec<_> = proxied.iter().map(|shard| Arc::new(launch(shard))).collect();
        let mut ports = Ports::default();
        let mut post = |service: Service, number: usize, launch: &Arc<LaunchConfig>| {
            let slot = ProcessSlot::free(service, &format!("{}-{}", service.name(), number + 1), &mut ports);
            slot.map(|slot| ServiceProcess::new(slot, launch))
        };
        let identity = post(Service::Identity, 0, &writers[0])?;
        let queries = (0..QUERIES).map(|number| post(Service::Query, number, &readers[number % shards]));
        let queries = queries.collect::<Result<Vec<_>, _>>()?;
        let gateways = (0..GATEWAYS).map(|number| post(Service::Gateway, number, &writers[0])).collect::<Result<Vec<_>, _>>()?;
        let workers = (0..WORKERS * shards).map(|number| post(Service::Worker, number, &writers[number / WORKERS]));
        let workers = workers.collect::<Result<Vec<_>, _>>()?;
        let commands = directly.iter().map(launch).collect();
        let supervisors = Vec::new();
        let mut cluster = Self {
            folder,
            stores,
            fresh,
            commands,
            tenants,
            log_owner: of_logs,
            gateways,
            workers,
            queries,
            identity,
            supervisors,
        };
        for post in cluster.services() {
            post.open().await?;
        }
        cluster.delegate().await?;
        let mut supervisors: Vec<_> = cluster.services().map(|post| tokio::spawn(Arc::clone(post).supervise())).collect();
        let stores = Arc::clone(&cluster.stores);
        supervisors.push(tokio::spawn(async move { stores.supervise().await }));
        cluster.supervisors = supervisors.into_iter().map(AbortOnDropHandle::new).collect();
        Ok(cluster)
    }

    async fn delegate(&self) -> anyhow::Result<()> {
        let mut identity = Connection::new(Endpoint::parse(&self.identity.slot.url())?, DELEGATION_DEADLINE);
        for tenant in &self.tenants {
            let grantee = tenant.network.context("tenants of a run have a network")?;
            let body = json!({ "grantee_org_id": grantee }).to_string();
            match identity.post("/api/v1/identity/delegations", &tenant.owner_key, body.into()).await {
                Exchange::Responded(answer) if answer.status == 201 => {}
                other => anyhow::bail!("{} could not create a delegation: {other:?}", tenant.name),
            }
        }
        Ok(())
    }

    /// Returns each shard's ClickHouse settings, without the proxies.
    pub(super) fn tables(&self) -> impl Iterator<Item = &ClickHouseSettings> {
        self.commands.iter().map(|shard| &shard.stores.clickhouse)
    }

    pub(super) fn services(&self) -> impl Iterator<Item = &Arc<ServiceProcess>> {
        [&self.identity].into_iter().chain(&self.queries).chain(&self.gateways).chain(&self.workers)
    }

    /// Returns the lines in the services' logs that contain `words`.
    pub(super) fn log_lines_with(&self, words: &str) -> Vec<String> {
        let mut found = Vec::new();
        for post in self.services() {
            let said = std::fs::read(post.slot.log(&self.folder)).unwrap_or_default();
            let said = String::from_utf8_lossy(&said);
            found.extend(said.lines().filter(|line| line.contains(words)).map(|line| format!("{}: {line}", post.slot.name)));
        }
        found
    }

    pub(super) async fn close(&self) {
        for post in self.services() {
            post.close().await;
        }
    }

    /// Deletes the stack. Keeps the logs if `keep` is set.
    pub(super) async fn delete(self, keep: bool) -> anyhow::Result<()> {
        let Self { folder, stores, supervisors, .. } = self;
        for supervisor in supervisors {
            supervisor.abort();
            // Awaiting the aborted task releases its reference to the stores.
            let _ = supervisor.await;
        }
        drop(stores);
        if keep {
            eprintln!("logs and history are in {}", folder.display());
            return test_bed::keep(&folder).context("failed to keep the run's folder");
        }
        std::fs::remove_dir_all(&folder).context("failed to delete the run's folder")
    }
}

fn through_proxies(direct: &Addresses, stores: &Stores, name: &str) -> anyhow::Result<Addresses> {
    let mut proxied = direct.clone();
    let mut database = url::Url::parse(&stores.proxied.database_url)?;
    database.set_path(name);
    proxied.kafka.kafka_brokers = stores.proxied.kafka_brokers.clone();
    proxied.clickhouse.clickhouse_url = stores.proxied.clickhouse_url.clone();
    proxied.postgres.database_url = database.into();
    Ok(proxied)
}

fn launch(binaries: &Path, folder: &Path, stores: &Addresses) -> LaunchConfig {
    let (binaries, folder, stores) = (binaries.to_owned(), folder.to_owned(), stores.clone());
    LaunchConfig { binaries, folder, stores }
}

/// Returns each shard's addresses: the same stores, with the shard's own ClickHouse server.
fn of_each_shard(stores: &Addresses, servers: &[String]) -> anyhow::Result<Vec<Addresses>> {
    let of = |(place, server): (usize, &String)| -> anyhow::Result<Addresses> {
        let shard = format!("{}/{}", place + 1, servers.len()).parse::<Shard>().map_err(anyhow::Error::msg)?;
        let clickhouse = ClickHouseSettings { clickhouse_url: server.clone(), ..stores.clickhouse.clone() };
        Ok(Addresses { clickhouse, shard, ..stores.clone() })
    };
    servers.iter().enumerate().map(of).collect()
}

/// Returns the addresses for processes that read all shards through this server.
fn reading_all(stores: &Addresses) -> Addresses {
    let clickhouse = &stores.clickhouse;
    let clickhouse = if stores.shard.is_only() { clickhouse.clone() } else { for_all_shards(clickhouse) };
    Addresses { clickhouse, ..stores.clone() }
}

/// Creates the tables of each shard and, if there are several shards, the distributed tables.
async fn prepare(shards: &[Addresses]) -> anyhow::Result<()> {
    for Addresses { clickhouse, .. } in shards.iter().filter(|stores| !stores.shard.is_only()) {
        apply_clickhouse_ddl(clickhouse).await?;
        create_distributed_tables(clickhouse, CLUSTER).await?;
    }
    Ok(())
}
