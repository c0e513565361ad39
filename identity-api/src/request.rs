//! Parses requests before any lookup: members, strings, addresses, hosts.

pub(crate) mod bodies;
pub(crate) mod request_slot;
pub(crate) mod text_rules;
pub mod email_address;
pub(crate) mod ownable_host;
