//! Tests without servers.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use local::ports::Ports;
use local::stack::{Entry, Record};
use local::{Checksums, Process, ServerKind, ServerPorts};

#[test]
fn skips_occupied_ports() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let held = holder.local_addr().unwrap().port();
    let chosen = Ports::default().choose(&[held]).unwrap();
    assert_ne!(chosen, held);
}

#[test]
fn prefers_the_first_free_port() {
    // Another process may take the free port before the test uses it.
    let chosen = (0..20).find_map(|_| {
        let free = Ports::default().choose(&[]).unwrap();
        let mut ports = Ports::default();
        (ports.choose(&[0, free]).unwrap() == free).then_some((ports, free))
    });
    let (mut ports, free) = chosen.expect("the preferred port was not chosen");
    assert_ne!(ports.choose(&[free]).unwrap(), free);
}

#[test]
fn does_not_return_a_port_twice_per_process() {
    let given: HashSet<u16> = (0..1_000).map(|_| Ports::default().choose(&[]).unwrap()).collect();
    assert_eq!(given.len(), 1_000);
}

#[test]
fn rejects_a_flipped_byte_with_both_digests() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("broker.jar");
    fs::write(&file, "abc").unwrap();
    let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let checksums = Checksums::from_list(format!("# a comment\nsha256 {known} kafka/broker.jar\n"));
    checksums.verify(&file, "kafka").unwrap();

    fs::write(&file, "abb").unwrap();
    let error = checksums.verify(&file, "kafka").unwrap_err().to_string();
    assert!(error.contains("kafka/broker.jar") && error.contains(known), "{error}");
    assert!(error.contains("found "), "{error}");

    let error = checksums.verify(&file, "postgres").unwrap_err().to_string();
    assert!(error.contains("no checksum for postgres/broker.jar"), "{error}");
}

#[test]
fn ignores_reused_process_ids() {
    let ours = Process::find(std::process::id()).unwrap();
    assert!(ours.is_alive());
    let earlier = Process { started: ours.started - 1, ..ours };
    assert!(!earlier.is_alive(), "the same id with another start time is another process");
}

#[test]
fn zombies_are_not_alive() {
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let process = Process::find(child.id()).unwrap();
    child.kill().unwrap();
    eventually(|| !process.is_alive());
    child.wait().unwrap();
}

#[test]
fn truncated_records_count_as_empty() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Process::find(std::process::id()).unwrap();
    let entry =
        |process| Entry { process, listen: ServerPorts { port: 9092, second_port: 1 }, data: "data".into(), password: None };
    let gone = Process { started: ours.started - 1, ..ours };
    let servers = BTreeMap::from([(ServerKind::Kafka, entry(Some(ours))), (ServerKind::Postgres, entry(Some(gone)))]);
    let record = Record { kept: true, servers };
    record.save(folder.path()).unwrap();
    assert_eq!(Record::load(folder.path()), record);
    assert!(record.running(ServerKind::Kafka).is_some());
    assert!(record.running(ServerKind::Postgres).is_none(), "its process has ended");
    assert!(record.running(ServerKind::ClickHouse).is_none(), "it was never started");

    let file = folder.path().join("stack.json");
    let whole = fs::read(&file).unwrap();
    for length in 0..whole.len() - 2 {
        fs::write(&file, &whole[..length]).unwrap();
        assert_eq!(Record::load(folder.path()), Record::default(), "truncated to {length} bytes");
    }
}

#[test]
fn tethered_processes_exit_with_their_parent() {
    for (word, should_live) in [(&b""[..], false), (&b"."[..], true)] {
        let mut tied = Command::new("sleep").arg("600").spawn().unwrap();
        let process = Process::find(tied.id()).unwrap();
        let mut helper = Command::new(env!("CARGO_BIN_EXE_local"))
            .args(["tether", "--pid", &process.pid.to_string(), "--started", &process.started.to_string()])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut helper.stdin.take().unwrap(), word).unwrap();
        assert!(helper.wait().unwrap().success());
        assert_eq!(process.is_alive(), should_live);
        // The process may have been killed already.
        let _ = tied.kill();
        tied.wait().unwrap();
    }
}

/// Waits until the condition is true, and fails after 30 s.
fn eventually(condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(30), "condition not true within 30 s");
        std::thread::sleep(Duration::from_millis(20));
    }
}
