//! Tests of every page against a stub of the API.

mod addresses;
mod figures;
mod forms;
mod reader;
mod stub;
mod walk;
