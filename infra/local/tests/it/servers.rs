//! Private servers against the real releases: killed, paused and brought back with their data.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use local::private::{ClickHouse, Kafka, Postgres};

#[test]
fn kafka_comes_back_on_its_port_after_kill_9() {
    install_launcher();
    let folder = tempfile::tempdir().unwrap();
    let mut kafka = Kafka::start(folder.path()).unwrap();
    let address = kafka.address();
    kafka.kill_9();
    assert!(TcpStream::connect(&address).is_err(), "a killed server still listens");
    kafka.restart().unwrap();
    assert_eq!(kafka.address(), address);
    TcpStream::connect(&address).unwrap();
    drop(kafka);
    assert!(TcpStream::connect(&address).is_err(), "a dropped server still listens");
}

#[test]
fn a_broker_starts_with_the_classes_that_another_has_left() {
    install_launcher();
    let folder = tempfile::tempdir().unwrap();
    let kafka = Kafka::start(folder.path()).unwrap();
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", kafka.pid())).unwrap();
    // Java has an archive of its own classes besides.
    assert!(maps.contains("/kafka-classes-"), "they are mapped into its memory: {maps}");
}

#[test]
fn postgres_comes_back_on_its_port_after_kill_9() {
    install_launcher();
    let folder = tempfile::tempdir().unwrap();
    let mut postgres = Postgres::start(folder.path()).unwrap();
    let url = postgres.url();
    let address = url.split(['@', '/']).nth(3).unwrap().to_owned();
    postgres.kill_9();
    assert!(TcpStream::connect(&address).is_err(), "a killed server still listens");
    postgres.restart().unwrap();
    assert_eq!(postgres.url(), url);
    TcpStream::connect(&address).unwrap();
    drop(postgres);
    assert!(TcpStream::connect(&address).is_err(), "a dropped server still listens");
}

#[test]
fn clickhouse_keeps_its_rows_through_pause_and_kill_9() {
    install_launcher();
    let folder = tempfile::tempdir().unwrap();
    let mut clickhouse = ClickHouse::start(folder.path()).unwrap();
    let address = clickhouse.url().trim_start_matches("http://").to_owned();
    let long = Duration::from_secs(120);
    ask(&address, "CREATE TABLE telemetry.t (n UInt8) ENGINE = MergeTree ORDER BY n", long).unwrap();
    ask(&address, "INSERT INTO telemetry.t VALUES (1), (2)", long).unwrap();

    clickhouse.pause();
    ask(&address, "SELECT 1", Duration::from_millis(300)).unwrap_err();
    clickhouse.resume();
    ask(&address, "SELECT 1", long).unwrap();

    clickhouse.kill_9();
    ask(&address, "SELECT 1", long).unwrap_err();
    clickhouse.restart().unwrap();
    assert!(ask(&address, "SELECT sum(n) FROM telemetry.t", long).unwrap().ends_with("\r\n3\n"));
}

/// Every file and folder below one that others may do something with.
fn open_to_others(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Ok(metadata) = path.symlink_metadata() else { continue }; // a server deletes files of its own
        if !metadata.is_symlink() && metadata.permissions().mode() & 0o077 != 0 {
            found.push(format!("{:o} {}", metadata.permissions().mode() & 0o777, path.display()));
        }
        if metadata.is_dir() {
            open_to_others(&path, found);
        }
    }
}

#[test]
fn a19_files_of_servers_are_their_owners_alone() {
    install_launcher();
    rustix::process::umask(rustix::fs::Mode::empty());
    let folder = tempfile::tempdir().unwrap();
    let users = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/clickhouse/analysts.xml");
    let environment = [("CLICKHOUSE_ANALYSTS_PASSWORD", "of-this-test")];
    let clickhouse = ClickHouse::with_users(folder.path(), &users, &environment).unwrap();
    let address = clickhouse.url().trim_start_matches("http://").to_owned();
    let long = Duration::from_secs(120);
    ask(&address, "CREATE TABLE telemetry.t (n UInt8) ENGINE = MergeTree ORDER BY n", long).unwrap();
    ask(&address, "INSERT INTO telemetry.t VALUES (1), (2)", long).unwrap();
    let kafka = Kafka::start(folder.path()).unwrap();
    let mut found = Vec::new();
    open_to_others(folder.path(), &mut found);
    assert!(found.is_empty(), "{found:#?}");
    let count = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(count, 2, "a folder of each server was looked at");
    drop((clickhouse, kafka));
}

/// Servers are launched from the binary under test, not from one that an earlier run has left.
fn install_launcher() {
    let status = Command::new(env!("CARGO_BIN_EXE_local")).arg("install-launcher").status().expect("the binary under test runs");
    assert!(status.success());
}

/// One statement over HTTP 1.0, so that the answer ends with the connection.
fn ask(address: &str, statement: &str, limit: Duration) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(limit))?;
    write!(stream, "POST / HTTP/1.0\r\nContent-Length: {}\r\n\r\n{statement}", statement.len())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    assert!(answer.contains(" 200 "), "{answer}");
    Ok(answer)
}

#[test]
fn prometheus_is_fetched_once_and_both_of_its_programs_run() {
    for program in local::programs::prometheus().unwrap() {
        let output = Command::new(program).arg("--version").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains(", version "), "{said}");
    }
}
