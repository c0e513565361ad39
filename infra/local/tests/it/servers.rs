//! Private servers, with the real releases.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use local::test_servers::{ClickHouse, Kafka};

#[test]
fn brokers_share_a_class_data_archive() {
    install_launcher();
    let folder = tempfile::tempdir().unwrap();
    let kafka = Kafka::start(folder.path()).unwrap();
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", kafka.pid())).unwrap();
    // Java itself also has an archive with its own classes.
    assert!(maps.contains("/kafka-classes-"), "the archive is not mapped into memory: {maps}");
}

/// Collects the files and folders below `folder` that other users can access.
fn accessible_to_others(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Ok(metadata) = path.symlink_metadata() else { continue }; // The server may delete its files meanwhile.
        if !metadata.is_symlink() && metadata.permissions().mode() & 0o077 != 0 {
            found.push(format!("{:o} {}", metadata.permissions().mode() & 0o777, path.display()));
        }
        if metadata.is_dir() {
            accessible_to_others(&path, found);
        }
    }
}

#[test]
fn a19_server_files_are_private() {
    install_launcher();
    rustix::process::umask(rustix::fs::Mode::empty());
    let folder = tempfile::tempdir().unwrap();
    let users = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/clickhouse/analysts.xml");
    let environment = [("CLICKHOUSE_ANALYSTS_PASSWORD", "of-this-test")];
    let clickhouse = ClickHouse::with_users(folder.path(), &users, &environment).unwrap();
    let address = clickhouse.url().trim_start_matches("http://").to_owned();
    let long = Duration::from_secs(120);
    query(&address, "CREATE TABLE telemetry.t (n UInt8) ENGINE = MergeTree ORDER BY n", long).unwrap();
    query(&address, "INSERT INTO telemetry.t VALUES (1), (2)", long).unwrap();
    let kafka = Kafka::start(folder.path()).unwrap();
    let mut found = Vec::new();
    accessible_to_others(folder.path(), &mut found);
    assert!(found.is_empty(), "{found:#?}");
    let count = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(count, 2, "a server's folder was not checked");
    drop((clickhouse, kafka));
}

/// Installs the binary under test as the launcher and replaces the one from an earlier run.
fn install_launcher() {
    let status = Command::new(env!("CARGO_BIN_EXE_local")).arg("install-launcher").status().expect("failed to run the binary");
    assert!(status.success());
}

/// Runs a statement over HTTP 1.0, in which closing the connection ends the response.
fn query(address: &str, statement: &str, limit: Duration) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(limit))?;
    write!(stream, "POST / HTTP/1.0\r\nContent-Length: {}\r\n\r\n{statement}", statement.len())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    assert!(answer.contains(" 200 "), "{answer}");
    Ok(answer)
}
