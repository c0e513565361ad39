//! Arrows between the modules of a crate point one way, so that each can be read, and moved, without those above it.
//!
//! A module is taken with all that lies beneath it, and compared with those beside it: what a folder's own file and the files in
//! that folder share is their own affair. Re-exports are followed: `crate::Limits` is `limits`, whatever file says so.
//!
//! Must read the sources alone, so that nothing has to be built to know the answer.

mod graph;
mod resolve;
mod source;

use crate::documents_resolve::root;
use graph::circles;
use resolve::imports;
use source::{Modules, crate_roots};

const SERVICES: [&str; 4] = ["ingest-gateway", "stream-workers", "query-api", "identity-api"];

/// So many modules can be read at a glance.
const MOST_ROOT_MODULES: usize = 10;

#[test]
fn n4_no_service_has_more_than_ten_root_modules() {
    for service in SERVICES {
        let modules = Modules::read(&root().join(service).join("src/lib.rs"));
        let found: Vec<&str> = modules.roots().collect();
        assert!(found.len() <= MOST_ROOT_MODULES, "{service} has {} root modules: {found:?}", found.len());
    }
}

#[test]
fn n4_no_module_stands_in_an_import_circle() {
    let found = crate_roots(&root()).into_iter().filter_map(|(name, file)| {
        let circles = circles(&imports(&Modules::read(&file)));
        (!circles.is_empty()).then(|| format!("{name}: {circles:?}"))
    });
    let found: Vec<String> = found.collect();
    assert!(found.is_empty(), "modules that import each other:\n{}", found.join("\n"));
}

fn circles_in(text: &str) -> Vec<Vec<String>> {
    circles(&imports(&Modules::of_text(text)))
}

#[test]
fn a_circle_is_found_wherever_a_path_stands() {
    let one = "mod a { use crate::b::B; pub struct A; }";
    for other in [
        "mod b { pub struct B(super::a::A); }",
        "mod b { pub struct B; fn f() { println!(\"{:?}\", [crate::a::A]); } }",
        "mod b { use super::{a, c}; pub struct B; fn f() -> a::A { a::A } } mod c {}",
        "mod b { pub struct B; mod inner { use crate::A as Other; } } use a::A;",
        "mod b { pub struct B; mod inner { use crate::*; fn f(_: crate::A) {} } } pub use a::*;",
    ] {
        assert_eq!(circles_in(&format!("{one} {other}")), [["a", "b"]], "{other}");
    }
}
