//! A record of a block that cannot become rows: what it was, and why.

use rdkafka::message::OwnedHeaders;

/// How the reason begins of a record that must not be looked into again: whoever did, died.
pub(crate) const QUARANTINED: &str = "quarantined";

/// One record on its way to the topic of rejected records (`dead_letters`).
#[derive(Clone, Debug)]
pub(crate) struct DeadLetter {
    pub(crate) payload: Vec<u8>,
    /// As the gateway wrote them.
    pub(crate) headers: OwnedHeaders,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    /// `topic/partition/offset`.
    pub(crate) origin: String,
    pub(crate) reason: String,
    /// How many events it seems to hold.
    pub(crate) events: usize,
}
