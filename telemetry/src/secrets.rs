//! Generates the secrets for a deployment with docker-compose.yml: a password for each account, and the keys that encrypt secrets and sign
//! statements.
//! An existing file is never replaced, because data encrypted with its key could no longer be read.

use anyhow::{Context, bail};
use clap::Args;
use rand::distr::{Alphanumeric, SampleString};
use service_kit::secret_encryption::SecretsKey;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Passwords that docker-compose.yml requires.
const PASSWORDS: [&str; 13] = [
    "POSTGRES_PASSWORD",
    "POSTGRES_OWNER_PASSWORD",
    "POSTGRES_GATEWAY_PASSWORD",
    "POSTGRES_WORKER_PASSWORD",
    "POSTGRES_DELIVERER_PASSWORD",
    "POSTGRES_QUERY_PASSWORD",
    "POSTGRES_IDENTITY_PASSWORD",
    "CLICKHOUSE_PASSWORD",
    "CLICKHOUSE_WORKER_PASSWORD",
    "CLICKHOUSE_QUERY_PASSWORD",
    "CLICKHOUSE_GRAFANA_PASSWORD",
    "CLICKHOUSE_ANALYSTS_PASSWORD",
    "GRAFANA_PASSWORD",
];

const KEYS: [&str; 2] = ["TELEMETRY_SECRETS_KEY", "TELEMETRY_STATEMENT_KEYS"];

/// Only letters and digits, because the passwords are used in URLs. 32 characters have 190 bits.
const PASSWORD_CHARS: usize = 32;
/// Readable only by the owner.
const MODE: u32 = 0o600;

/// Arguments of `telemetry secrets`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Secrets {
    /// New file, readable only by its owner [default: standard output]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl Secrets {
    /// Writes the secrets.
    pub(crate) fn write(&self) -> anyhow::Result<()> {
        match &self.file {
            Some(file) => write_new(file, &text()),
            None => std::io::stdout().write_all(text().as_bytes()).context("failed to write to standard output"),
        }
    }
}

fn text() -> String {
    let passwords = PASSWORDS.map(|name| format!("{name}={}\n", Alphanumeric.sample_string(&mut rand::rng(), PASSWORD_CHARS)));
    let keys = KEYS.map(|name| format!("{name}={}\n", SecretsKey::generate().reveal()));
    passwords.concat() + &keys.concat()
}

fn write_new(file: &Path, text: &str) -> anyhow::Result<()> {
    let shown = file.display();
    let mut opened = match OpenOptions::new().write(true).create_new(true).mode(MODE).open(file) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{shown} already exists and was not replaced: data encrypted with its key can't be read with another one")
        }
        opened => opened.with_context(|| format!("failed to write {shown}"))?,
    };
    opened.write_all(text.as_bytes()).and_then(|()| opened.sync_all()).with_context(|| format!("failed to write {shown}"))
}
