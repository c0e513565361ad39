//! The modules of a crate don't import each other in cycles.
//!
//! Modules are compared with their siblings, including submodules. Imports between a module and its own submodules are not
//! checked. Re-exports are resolved: `crate::Limits` belongs to `limits`, whichever file imports it.
//!
//! The test only parses the sources and needs no build.

mod graph;
mod resolve;
mod source;

use crate::documents_resolve::root;
use graph::cycles;
use resolve::imports;
use source::{Modules, crate_roots};

const SERVICES: [&str; 4] = ["ingest-gateway", "stream-workers", "query-api", "identity-api"];

/// Maximum number of root modules per service.
const MOST_ROOT_MODULES: usize = 10;

#[test]
fn n4_services_have_at_most_ten_root_modules() {
    for service in SERVICES {
        let modules = Modules::read(&root().join(service).join("src/lib.rs"));
        let found: Vec<&str> = modules.roots().collect();
        assert!(found.len() <= MOST_ROOT_MODULES, "{service} has {} root modules: {found:?}", found.len());
    }
}

#[test]
fn n4_modules_have_no_import_cycles() {
    let found = crate_roots(&root()).into_iter().filter_map(|(name, file)| {
        let circles = cycles(&imports(&Modules::read(&file)));
        (!circles.is_empty()).then(|| format!("{name}: {circles:?}"))
    });
    let found: Vec<String> = found.collect();
    assert!(found.is_empty(), "modules that import each other:\n{}", found.join("\n"));
}

fn cycles_in(text: &str) -> Vec<Vec<String>> {
    cycles(&imports(&Modules::parse_text(text)))
}

#[test]
fn finds_cycles_in_any_position() {
    let one = "mod a { use crate::b::B; pub struct A; }";
    for other in [
        "mod b { pub struct B(super::a::A); }",
        "mod b { pub struct B; fn f() { println!(\"{:?}\", [crate::a::A]); } }",
        "mod b { use super::{a, c}; pub struct B; fn f() -> a::A { a::A } } mod c {}",
        "mod b { pub struct B; mod inner { use crate::A as Other; } } use a::A;",
        "mod b { pub struct B; mod inner { use crate::*; fn f(_: crate::A) {} } } pub use a::*;",
    ] {
        assert_eq!(cycles_in(&format!("{one} {other}")), [["a", "b"]], "{other}");
    }
}
