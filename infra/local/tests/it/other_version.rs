//! `cargo up` on data that another version of the code wrote.

use std::collections::BTreeMap;
use std::fs;

use local::stack::{Entry, Record};
use local::{Kind, Listen};

use crate::fake_clone::FakeClone;

const FAILS: &str = "echo 'Missing columns' >&2; exit 1";
const STARTS: &str = "touch .local/demo.env; exit 1";

/// Whether `cargo up` names another version when its service does this.
fn is_foreign(clone: &FakeClone, service: &str) -> bool {
    let (is_done, said) = clone.run(&["up"], &format!("[ \"$1\" = build ] && exit\n{service}"));
    let is_foreign = said.contains("another version of the code wrote the data") && said.contains("`cargo local wipe`");
    assert!(!is_done && is_foreign != said.contains("The service stopped by itself"), "{said}");
    is_foreign
}

#[test]
fn names_wipe_if_another_version_wrote_the_data() {
    let clone = FakeClone::new();
    assert!(!is_foreign(&clone, FAILS), "there is no data");
    let server = Entry { process: None, listen: Listen::default(), data: clone.path().join("data"), password: None };
    let record = Record { kept: false, servers: BTreeMap::from([(Kind::ClickHouse, server)]) };
    record.save(&clone.path().join(".local")).unwrap();
    assert!(is_foreign(&clone, FAILS), "no version was noted");
    assert!(!is_foreign(&clone, STARTS), "it started on this data");
    assert!(!is_foreign(&clone, FAILS), "the version is the noted one");
    fs::write(clone.path().join("store/clickhouse/events.sql"), "CREATE TABLE events").unwrap();
    assert!(is_foreign(&clone, FAILS), "the statements changed");
    assert!(!is_foreign(&clone, STARTS));
    assert!(!is_foreign(&clone, FAILS));
}
