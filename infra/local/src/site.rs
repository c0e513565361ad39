//! One server in one folder: everything that is needed to run it. How it comes up is `server`'s.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::access::{Guard, Users};
use crate::account::Account;
use crate::fetch;
use crate::kind::{Kind, Listen};
use crate::password::Password;
use crate::private_files;
use crate::workspace::create_open_folder;

/// One Kafka of several, or one behind a proxy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Broker {
    /// From 1.
    pub(crate) number: usize,
    /// The port clients are told to come back to: that of the proxy.
    pub(crate) advertised: u16,
    /// Where the brokers talk to each other, with no proxy between.
    pub(crate) internal: u16,
    /// The controllers' ports of all brokers, by number.
    pub(crate) controllers: Vec<u16>,
}

/// One server in one folder: everything needed to run it.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) kind: Kind,
    pub(crate) home: PathBuf,
    pub(crate) data: PathBuf,
    pub(crate) listen: Listen,
    pub(crate) software: PathBuf,
    /// The binary that can become ClickHouse.
    pub(crate) launcher: PathBuf,
    pub(crate) account: Option<Account>,
    /// What sets a broker apart from the single one of the stack.
    pub(crate) broker: Option<Broker>,
    /// What a guarded listener of Kafka needs.
    pub(crate) guard: Option<Guard>,
    /// Accounts of ClickHouse besides its own.
    pub(crate) users: Option<Users>,
    /// Native ports of all shards of which this ClickHouse is one; empty if it is alone.
    pub(crate) shards: Vec<u16>,
    /// What PostgreSQL and ClickHouse ask of everybody; without one they let everybody in.
    pub(crate) password: Option<Password>,
    /// Of one test, for seconds: what pays only in a long life is left out.
    pub(crate) is_short_lived: bool,
    /// Where Kafka, once it is asked to stop, leaves the classes that it has loaded.
    pub(crate) class_archive: Option<PathBuf>,
}

impl Site {
    pub(crate) fn new(kind: Kind, home: &Path, listen: Listen, launcher: &Path) -> Result<Self> {
        // PostgreSQL may run as another account, which has to get to its data.
        if kind == Kind::Postgres {
            create_open_folder(home)?;
        } else {
            private_files::create_folder(home)?;
        }
        let account = (kind == Kind::Postgres).then(Account::for_postgres).transpose()?;
        let data_home = account.map_or_else(|| Ok(home.to_path_buf()), |account| account.reachable(home))?;
        Ok(Self {
            kind,
            home: home.to_path_buf(),
            data: data_home.join("data"),
            listen,
            software: fetch::software(kind)?,
            launcher: launcher.to_path_buf(),
            account,
            broker: None,
            guard: None,
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
