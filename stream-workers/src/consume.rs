//! Reads records of the log into blocks.

mod block;
mod new_dead_letter;
mod lag;
pub(crate) mod topic_reader;
pub mod partition_stats;

pub(crate) use block::{Block, NamedSession, Offsets, Unresolved, named_buckets};
pub(crate) use lag::Lag;
pub(crate) use new_dead_letter::{DeadLetter, QUARANTINED};

pub(crate) type Origin = (i32, i64);
