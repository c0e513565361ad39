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
use std::collections::BTreeMap;

/// How many modules of each crate stand in a circle. A number here may only fall; a crate that is not listed has none.
const KNOWN: &[(&str, usize)] = &[];

/// How many modules stand in the root of each service. A number here may only fall; ten are enough to be read at a glance.
const ROOT_MODULES: [(&str, usize); 4] = [("ingest-gateway", 10), ("stream-workers", 10), ("query-api", 9), ("identity-api", 10)];

#[test]
fn n4_no_service_has_more_root_modules_than_are_known() {
    for (service, allowed) in ROOT_MODULES {
        let modules = Modules::read(&root().join(service).join("src/lib.rs"));
        let found: Vec<&str> = modules.roots().collect();
        assert!(found.len() <= allowed, "{service} has {} root modules, {allowed} are known: {found:?}", found.len());
    }
}

#[test]
fn n4_no_crate_has_more_modules_in_import_circles_than_are_known() {
    let known: BTreeMap<&str, usize> = KNOWN.iter().copied().collect();
    let roots = crate_roots(&root());
    let mut wrong = Vec::new();
    for (name, file) in &roots {
        let circles = circles(&imports(&Modules::read(file)));
        let found: usize = circles.iter().map(Vec::len).sum();
        let allowed = known.get(name.as_str()).copied().unwrap_or(0);
        if found > allowed {
            wrong.push(format!("{name}: {found} modules stand in circles, {allowed} are known: {circles:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let gone: Vec<&&str> = known.keys().filter(|name| roots.iter().all(|(root, _)| root != **name)).collect();
    assert!(gone.is_empty(), "there is no crate {gone:?}");
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

#[test]
fn arrows_that_point_one_way_and_what_only_tests_compile_are_no_circle() {
    for text in [
        "mod a { use crate::b::B; } mod b { pub struct B; }",
        "mod a { use crate::b::B; } mod b { pub struct B; #[cfg(test)] mod tests { use crate::a::A; } }",
        "mod a { use crate::b::B; } mod b { use crate::c::C; } mod c { use other::a::A; }",
        "mod a { use crate::b::B; mod inner { use super::B; } } mod b { pub struct B; }",
    ] {
        assert_eq!(circles_in(text), Vec::<Vec<String>>::new(), "{text}");
    }
    let nested = "mod o { mod a { use super::b::B; pub struct A; } mod b { use super::a::A; pub struct B; } }";
    assert_eq!(circles_in(nested), [["o::a", "o::b"]]);
}
