//! `cargo up` when another version of the code has written the data.

use std::collections::BTreeMap;
use std::fs;

use local::stack::{Entry, Record};
use local::{ServerKind, ServerPorts};

use crate::fake_clone::FakeClone;

const FAILS: &str = "echo 'Missing columns' >&2; exit 1";
const STARTS: &str = "touch .local/demo.env; exit 1";

/// Returns whether `cargo up` reports another version with this script as the service.
fn is_foreign(clone: &FakeClone, service: &str) -> bool {
    let (is_done, said) = clone.run(&["up"], &format!("[ \"$1\" = build ] && exit\n{service}"));
    let is_foreign = said.contains("another version of the code wrote the data") && said.contains("`cargo local wipe`");
    assert!(!is_done && is_foreign != said.contains("The service stopped unexpectedly"), "{said}");
    is_foreign
}

#[test]
fn suggests_wipe_for_another_versions_data() {
    let clone = FakeClone::new();
    assert!(!is_foreign(&clone, FAILS), "without data");
    let server = Entry { process: None, listen: ServerPorts::default(), data: clone.path().join("data"), password: None };
    let record = Record { kept: false, servers: BTreeMap::from([(ServerKind::ClickHouse, server)]) };
    record.save(&clone.path().join(".local")).unwrap();
    assert!(is_foreign(&clone, FAILS), "without a recorded version");
    assert!(!is_foreign(&clone, STARTS), "the service started with this data");
    assert!(!is_foreign(&clone, FAILS), "with the recorded version");
    fs::write(clone.path().join("store/clickhouse/events.sql"), "CREATE TABLE events").unwrap();
    assert!(is_foreign(&clone, FAILS), "the statements changed");
    assert!(!is_foreign(&clone, STARTS));
    assert!(!is_foreign(&clone, FAILS));
}
