//! Addresses of the servers, as the three settings of the services.

use std::io::Write as _;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::{Entry, Record};
use crate::environment::ExternalServers;
use crate::password::{OWNER, Password};
use crate::server_kind::{ServerKind, TELEMETRY};
use crate::workspace::Workspace;

/// Addresses of the stack, in the form that the services read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Endpoints {
    pub kafka_brokers: String,
    pub clickhouse_url: String,
    pub database_url: String,
}

impl Endpoints {
    /// Returns the servers named in the environment, or else the running servers of this clone.
    pub fn of_running_stack() -> Result<Self> {
        let record = Record::load(&Workspace::find()?.state());
        Self::assemble(&ExternalServers::from_environment(), &record)
    }

    pub(super) fn assemble(given: &ExternalServers, record: &Record) -> Result<Self> {
        let address = |kind: ServerKind, given: &Option<String>| {
            let running = || record.running(kind).map(|entry| address_of(kind, entry));
            given.clone().or_else(running).with_context(|| {
                format!("{} is not running: run `cargo local start`, or run the tests with `cargo verify`", kind.title())
            })
        };
        Ok(Self {
            kafka_brokers: address(ServerKind::Kafka, &given.kafka_brokers)?,
            clickhouse_url: address(ServerKind::ClickHouse, &given.clickhouse_url)?,
            database_url: address(ServerKind::Postgres, &given.database_url)?,
        })
    }

    /// Writes the addresses as shell assignments, atomically, readable only by the owner.
    pub(super) fn write(&self, state: &Path) -> Result<()> {
        let place = Self::file(state);
        let mut draft = tempfile::NamedTempFile::new_in(state).context("cannot write into .local")?;
        for (kind, address) in [ServerKind::Kafka, ServerKind::ClickHouse, ServerKind::Postgres].into_iter().zip(self.addresses())
        {
            writeln!(draft, "{}='{address}'", kind.setting())?;
        }
        draft.into_temp_path().persist(&place).context("cannot move the settings into place")
    }

    /// Returns the path of the file with the shell assignments.
    pub(crate) fn file(state: &Path) -> PathBuf {
        state.join("servers.env")
    }

    fn addresses(&self) -> [&str; 3] {
        [&self.kafka_brokers, &self.clickhouse_url, &self.database_url]
    }

    /// Returns the addresses for `cargo up`, which uses PostgreSQL as the owner of the tables instead of the administrator.
    #[must_use]
    pub(crate) fn with_owner_accounts(self, given: &ExternalServers) -> Self {
        let administrators =
            self.database_url.strip_prefix(&format!("postgres://{TELEMETRY}:")).and_then(|rest| rest.split_once('@'));
        let owners = administrators.map(|(password, place)| {
            let password = Password::from(password).for_owner();
            format!("postgres://{OWNER}:{}@{place}", password.reveal())
        });
        let database_url = given.database_url.clone().or(owners).unwrap_or_else(|| self.database_url.clone());
        Self { database_url, ..self }
    }

    /// Adds the addresses to a command's environment.
    pub fn apply(&self, command: &mut Command) {
        command.env(ServerKind::Kafka.setting(), &self.kafka_brokers);
        command.env(ServerKind::ClickHouse.setting(), &self.clickhouse_url);
        command.env(ServerKind::Postgres.setting(), &self.database_url);
    }
}

/// Returns the address of a server that we run, with its password.
fn address_of(kind: ServerKind, entry: &Entry) -> String {
    let port = entry.listen.port;
    let Some(password) = entry.password.as_ref().map(Password::reveal) else { return managed_address(kind, port) };
    match kind {
        ServerKind::Kafka => managed_address(kind, port),
        ServerKind::Postgres => format!("postgres://{TELEMETRY}:{password}@127.0.0.1:{port}/{TELEMETRY}"),
        ServerKind::ClickHouse => format!("http://{TELEMETRY}:{password}@127.0.0.1:{port}"),
    }
}

/// Returns the address of a server that we run, without its password.
pub(crate) fn managed_address(kind: ServerKind, port: u16) -> String {
    match kind {
        ServerKind::Kafka => format!("127.0.0.1:{port}"),
        ServerKind::Postgres => format!("postgres://{TELEMETRY}@127.0.0.1:{port}/{TELEMETRY}"),
        ServerKind::ClickHouse => format!("http://127.0.0.1:{port}"),
    }
}

/// Returns the address of a server in the environment.
pub(crate) fn external_address(given: &ExternalServers, kind: ServerKind) -> Option<&str> {
    match kind {
        ServerKind::Kafka => given.kafka_brokers.as_deref(),
        ServerKind::Postgres => given.database_url.as_deref(),
        ServerKind::ClickHouse => given.clickhouse_url.as_deref(),
    }
}

/// Checks that a server in the environment responds. The error names the setting to correct.
pub(crate) fn check_external(kind: ServerKind, address: &str) -> Result<()> {
    let usual_port = if address.starts_with("https://") { 443 } else { kind.default_port() };
    let answers = address.split(',').any(|one| {
        let places = host_and_port(one, usual_port).to_socket_addrs();
        places.into_iter().flatten().any(|place| TcpStream::connect_timeout(&place, Duration::from_secs(3)).is_ok())
    });
    if !answers {
        let hosts: Vec<String> = address.split(',').map(|one| host_and_port(one, usual_port)).collect();
        bail!(
            "{} is set, but no server responds at {}: correct it, or unset it to use the local {}",
            kind.setting(),
            hosts.join(", "),
            kind.title()
        );
    }
    Ok(())
}

/// Returns `host:port` of a URL or address, without its credentials.
fn host_and_port(address: &str, usual_port: u16) -> String {
    let rest = address.trim().split_once("://").map_or(address.trim(), |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if has_port { host.to_owned() } else { format!("{host}:{usual_port}") }
}

#[cfg(test)]
mod tests {
    use super::{Endpoints, ExternalServers, Password, Record, host_and_port};

    #[test]
    fn environment_takes_precedence_and_errors_name_the_fix() {
        let mut given =
            ExternalServers { kafka_brokers: Some("k:1".into()), clickhouse_url: Some("http://c".into()), database_url: None };
        let error = Endpoints::assemble(&given, &Record::default()).unwrap_err().to_string();
        assert_eq!(error, "PostgreSQL is not running: run `cargo local start`, or run the tests with `cargo verify`");
        given.database_url = Some("postgres://p".into());
        assert_eq!(Endpoints::assemble(&given, &Record::default()).unwrap().kafka_brokers, "k:1");
    }

    #[test]
    fn cargo_up_uses_the_owners_account() {
        let none = ExternalServers::default;
        let with = |database_url: String| Endpoints { kafka_brokers: String::new(), clickhouse_url: String::new(), database_url };
        let root = Password::generate().unwrap();
        let address =
            |user: &str, password: &Password| format!("postgres://{user}:{}@127.0.0.1:5432/telemetry", password.reveal());
        let owners = with(address("telemetry", &root)).with_owner_accounts(&none()).database_url;
        assert_eq!(owners, address("telemetry_owner", &root.for_owner()));
        let shared = Password::from("0123456789abcdef");
        let owners = with(address("telemetry", &shared)).with_owner_accounts(&none()).database_url;
        assert_eq!(owners, address("telemetry_owner", &shared), "stack of an earlier build");
        let given = ExternalServers { database_url: Some("postgres://own".into()), ..none() };
        assert_eq!(with(address("telemetry", &root)).with_owner_accounts(&given).database_url, "postgres://own");
    }

    #[test]
    fn reduces_addresses_to_host_and_port() {
        for (address, expected) in [
            ("broker", "broker:1"),
            ("broker:9092", "broker:9092"),
            ("http://[::1]:8123/?x=y", "[::1]:8123"),
            ("https://click.example/db", "click.example:1"),
            ("postgres://me:p%40ss@db:5433/telemetry", "db:5433"),
        ] {
            assert_eq!(host_and_port(address, 1), expected);
        }
    }
}
