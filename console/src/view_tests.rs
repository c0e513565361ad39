//! Tests of every page against a stub of the API.

mod addresses;
mod figures;
mod forms;
#[expect(dead_code, reason = "the tests of the whole use the rest")]
mod reader;
mod stub;
mod walk;
