//! Tests every page against a stub of the API.

mod links_and_downloads;
mod figures;
mod forms;
mod reader;
mod stub;
mod all_links;
