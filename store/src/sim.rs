//! A simulator of the writer protocol: writers, a network and a ClickHouse server in one thread, driven by a seed.
//!
//! Writers are paused at every wait, two or three run at a time, and are killed. Requests are delayed, repeated and
//! lost before or after they take effect. The server makes the partitions of an insert visible in any order, is
//! killed in the middle of one, and is restored from backups. After every change of what a read can see, [`checks`]
//! compares it with the model.
//!
//! To see that the simulator can find faults, `tests` breaks each of the [`Rules`] and expects a violation.

mod log;
mod blocks;
mod server;
mod writer;
mod takeover;
mod checks;
mod backup;
mod schedule;
mod faults;
mod tests;

/// The rules of the protocol; each can be broken.
#[derive(Clone, Copy, Debug)]
struct Rules {
    /// Inserts fail unless their epoch is the highest.
    has_fence: bool,
    /// All claims of an epoch run under one query id.
    claims_exclude_each_other: bool,
    /// All inserts of an epoch run under one query id, for which a successor waits.
    inserts_have_one_query_id: bool,
    /// A claimed epoch is larger than that of every stored row.
    exceeds_stored_versions: bool,
    /// `reports` is written before `events`.
    writes_reports_first: bool,
    /// A writer starts at the offsets in `progress`, not at those in Kafka.
    starts_at_progress: bool,
    /// A writer reads the whole index before it merges.
    waits_for_index: bool,
    /// Rows that other partitions depend on have a statement of their own.
    writes_moves_first: bool,
    /// The first blocks of a writer cover the records of an interrupted one, and only the last of them is complete.
    covers_interrupted: bool,
    /// They start from the rows that an interrupted block wrote to `reports`.
    knows_interrupted: bool,
    /// Each of them has all interrupted reports of its groups.
    keeps_groups_whole: bool,
    /// Sending that a writer is alive doesn't say that its predecessor's block is complete.
    heartbeats_settle_nothing: bool,
    /// The row of `progress` of a block is numbered after the heartbeats that were sent while it was written.
    numbers_progress_last: bool,
    /// A repeated insert has the same bytes.
    repeats_same_bytes: bool,
    /// Tombstones are never removed.
    keeps_tombstones: bool,
    /// Before partitions are dropped, events that have a part in one of them and another part elsewhere are deleted.
    deletes_divided: bool,
    /// A writer deletes expired months in a new epoch, before it reads the tables.
    deletes_before_it_reads: bool,
    /// It keeps the row of a report that another event names, too: an interrupted block has moved it.
    keeps_moved_reports: bool,
    /// Reports that were accepted in expired months are skipped.
    skips_expired: bool,
    /// A backup copies `progress` first, then `events`, then `reports`.
    backs_up_progress_first: bool,
}

/// The protocol as it is proposed.
const PROPOSED: Rules = Rules {
    has_fence: true,
    claims_exclude_each_other: true,
    inserts_have_one_query_id: true,
    exceeds_stored_versions: true,
    writes_reports_first: true,
    starts_at_progress: true,
    waits_for_index: true,
    writes_moves_first: true,
    covers_interrupted: true,
    knows_interrupted: true,
    keeps_groups_whole: true,
    heartbeats_settle_nothing: true,
    numbers_progress_last: true,
    repeats_same_bytes: true,
    keeps_tombstones: true,
    deletes_divided: true,
    deletes_before_it_reads: true,
    keeps_moved_reports: true,
    skips_expired: true,
    backs_up_progress_first: true,
};
