//! From the checked events of a request to one record that the log has.

pub(crate) mod batch;
mod own_hosts;
pub(crate) mod normalise;
mod crawler;
mod conversation;
pub(crate) mod normalised;
pub(crate) mod accept;
