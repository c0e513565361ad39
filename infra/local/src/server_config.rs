//! The configuration of a server in a folder. `server` starts it.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::fetch;
use crate::password::Password;
use crate::private_files;
use crate::process_account::ProcessAccount;
use crate::server_kind::{ServerKind, ServerPorts};
use crate::test_accounts::{ClickHouseUsers, ScramListener};
use crate::workspace::create_open_folder;

/// A Kafka broker in a cluster, or behind a proxy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Broker {
    /// The broker's number, starting at 1.
    pub(crate) number: usize,
    /// Advertised port, which belongs to the proxy.
    pub(crate) advertised: u16,
    /// Port for direct connections between brokers, without a proxy.
    pub(crate) internal: u16,
    /// Controller ports of all brokers, by number.
    pub(crate) controllers: Vec<u16>,
}

/// A server in a folder, with everything needed to run it.
#[derive(Clone, Debug)]
pub(crate) struct ServerConfig {
    pub(crate) kind: ServerKind,
    pub(crate) home: PathBuf,
    pub(crate) data: PathBuf,
    pub(crate) listen: ServerPorts,
    pub(crate) software: PathBuf,
    /// The binary that can run ClickHouse.
    pub(crate) launcher: PathBuf,
    pub(crate) account: Option<ProcessAccount>,
    /// Set for brokers of a cluster or behind a proxy.
    pub(crate) broker: Option<Broker>,
    /// Set for a Kafka server with a SCRAM listener.
    pub(crate) scram_listener: Option<ScramListener>,
    /// Additional ClickHouse accounts.
    pub(crate) users: Option<ClickHouseUsers>,
    /// Native ports of all shards in this ClickHouse server's cluster; empty without a cluster.
    pub(crate) shards: Vec<u16>,
    /// Password for PostgreSQL or ClickHouse. Without one, the server accepts every connection.
    pub(crate) password: Option<Password>,
    /// Whether the server runs for a single test, without settings that only pay off in long runs.
    pub(crate) is_short_lived: bool,
    /// File to which Kafka writes its loaded classes when it stops.
    pub(crate) class_archive: Option<PathBuf>,
}

impl ServerConfig {
    pub(crate) fn new(kind: ServerKind, home: &Path, listen: ServerPorts, launcher: &Path) -> Result<Self> {
        // PostgreSQL may run as another account, which needs access to its data.
        if kind == ServerKind::Postgres {
            create_open_folder(home)?;
        } else {
            private_files::create_folder(home)?;
        }
        let account = (kind == ServerKind::Postgres).then(ProcessAccount::for_postgres).transpose()?;
        let data_home = account.map_or_else(|| Ok(home.to_path_buf()), |account| account.accessible_folder(home))?;
        Ok(Self {
            kind,
            home: home.to_path_buf(),
            data: data_home.join("data"),
            listen,
            software: fetch::software(kind)?,
            launcher: launcher.to_path_buf(),
            account,
            broker: None,
            scram_listener: None,
            users: None,
            shards: Vec::new(),
            password: None,
            is_short_lived: false,
            class_archive: None,
        })
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.home.join("server.log")
    }
}
