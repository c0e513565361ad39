//! Writers' epochs, and the row versions derived from them.

use rand::RngExt as _;

/// Number of version bits for the block number.
const BLOCK_BITS: u32 = 40;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Epoch {
    pub(super) number: u64,
    /// Query id of all inserts in the epoch.
    pub(super) slot: String,
}

pub(super) fn version(epoch: u64, block: u64) -> u64 {
    epoch << BLOCK_BITS | block
}

pub(super) fn epoch_of(version: u64) -> u64 {
    version >> BLOCK_BITS
}

/// Returns an epoch's largest beat. A writer that stops inserts it into `progress`, so standbys take over immediately.
pub(super) fn released(epoch: u64) -> u64 {
    version(epoch + 1, 0) - 1
}

/// Returns an unguessable query id.
pub(super) fn random_slot() -> String {
    format!("{:032x}", rand::rng().random::<u128>())
}
