//! What requests of this surface say, before anything is looked up: members, texts, addresses, hosts.
//!
//! Must not look anything up.

pub(crate) mod bodies;
pub(crate) mod text_rules;
pub mod email_address;
pub(crate) mod ownable;
