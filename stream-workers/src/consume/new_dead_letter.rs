//! Dead letters of a block.

use rdkafka::message::OwnedHeaders;

/// Prefix of the reason if the record must not be decoded again, because processes crashed while decoding it.
pub(crate) const QUARANTINED: &str = "quarantined";

/// A record to send to the topic of rejected records (`dead_letters`).
#[derive(Clone, Debug)]
pub(crate) struct DeadLetter {
    pub(crate) payload: Vec<u8>,
    pub(crate) headers: OwnedHeaders,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    /// `topic/partition/offset`.
    pub(crate) origin: String,
    pub(crate) reason: String,
    pub(crate) events: usize,
}
