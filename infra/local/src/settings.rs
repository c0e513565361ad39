//! The one place of this crate that reads the environment.

use std::path::PathBuf;

/// Servers the user already has, named by the same settings the services read. Each one given is used as it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    pub kafka_brokers: Option<String>,
    pub clickhouse_url: Option<String>,
    pub database_url: Option<String>,
}

impl Given {
    /// What the environment names; an empty value counts as not given.
    #[must_use]
    pub(crate) fn from_environment() -> Self {
        Self { kafka_brokers: read("KAFKA_BROKERS"), clickhouse_url: read("CLICKHOUSE_URL"), database_url: read("DATABASE_URL") }
    }
}

/// `XDG_CACHE_HOME`, else `~/.cache`.
pub(crate) fn user_cache() -> Option<PathBuf> {
    let home = || read("HOME").map(|home| PathBuf::from(home).join(".cache"));
    read("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)
}

/// The package cargo runs or tests right now, if it is cargo that runs us.
pub(crate) fn running_package() -> Option<PathBuf> {
    read("CARGO_MANIFEST_DIR").map(PathBuf::from)
}

/// Where OpenSSL is, as its crate looks for it where pkg-config does not know: `OPENSSL_DIR`, else Homebrew's folder.
pub(crate) fn openssl_folder() -> Option<PathBuf> {
    let of_homebrew =
        || ["/opt/homebrew/opt/openssl@3", "/usr/local/opt/openssl@3"].into_iter().map(PathBuf::from).find(|path| path.is_dir());
    read("OPENSSL_DIR").map(PathBuf::from).or_else(of_homebrew)
}

/// The folders that are searched for programs.
pub(crate) fn search_path() -> Vec<PathBuf> {
    read("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default()
}

/// The cargo that runs us, so that a chosen toolchain stays chosen.
pub(crate) fn cargo() -> String {
    read("CARGO").unwrap_or_else(|| "cargo".to_owned())
}

/// What cargo has set for the package it runs: not meant for another cargo, which might rebuild because of it.
pub(crate) fn of_the_running_package() -> Vec<String> {
    let prefixes = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.filter(|name| prefixes.iter().any(|prefix| name.starts_with(prefix))).collect()
}

/// Whether the environment sets it.
pub(crate) fn has(name: &str) -> bool {
    read(name).is_some()
}

#[expect(clippy::disallowed_methods, reason = "this file is the one place that reads the environment")]
fn read(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
