//! The only module of this crate that reads the environment.

use std::path::PathBuf;

/// The user's own servers, from the same settings that the services use. They are used unchanged.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExternalServers {
    pub kafka_brokers: Option<String>,
    pub clickhouse_url: Option<String>,
    pub database_url: Option<String>,
}

impl ExternalServers {
    /// Reads the environment. Empty values count as missing.
    #[must_use]
    pub(crate) fn from_environment() -> Self {
        Self { kafka_brokers: read("KAFKA_BROKERS"), clickhouse_url: read("CLICKHOUSE_URL"), database_url: read("DATABASE_URL") }
    }
}

/// Returns `XDG_CACHE_HOME`, or else `~/.cache`.
pub(crate) fn user_cache() -> Option<PathBuf> {
    let home = || read("HOME").map(|home| PathBuf::from(home).join(".cache"));
    read("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)
}

/// Returns the package that cargo is running or testing, if cargo started this process.
pub(crate) fn running_package() -> Option<PathBuf> {
    read("CARGO_MANIFEST_DIR").map(PathBuf::from)
}

/// Returns the folder that OpenSSL's crate needs on systems without pkg-config: `OPENSSL_DIR`, or else Homebrew's folder.
pub(crate) fn openssl_folder() -> Option<PathBuf> {
    let of_homebrew =
        || ["/opt/homebrew/opt/openssl@3", "/usr/local/opt/openssl@3"].into_iter().map(PathBuf::from).find(|path| path.is_dir());
    read("OPENSSL_DIR").map(PathBuf::from).or_else(of_homebrew)
}

/// Returns the folders in the search path.
pub(crate) fn search_path() -> Vec<PathBuf> {
    read("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default()
}

/// Returns the cargo that started this process, so that child processes use the same toolchain.
pub(crate) fn cargo() -> String {
    read("CARGO").unwrap_or_else(|| "cargo".to_owned())
}

/// Returns the variables that cargo sets for the running package. If another cargo inherited them, it might rebuild.
pub(crate) fn running_package_variables() -> Vec<String> {
    let prefixes = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.filter(|name| prefixes.iter().any(|prefix| name.starts_with(prefix))).collect()
}

/// Returns whether the environment variable has a value.
pub(crate) fn has(name: &str) -> bool {
    read(name).is_some()
}

#[expect(clippy::disallowed_methods, reason = "this file is the one place that reads the environment")]
fn read(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
