//! A simulator of the writer protocol: writers, a network and a ClickHouse server in one thread, driven by a seed.
//!
//! Writers are paused at every wait, two or three run at a time, and are killed. Requests are delayed, repeated and
//! lost before or after they take effect. The server makes the partitions of an insert visible in any order, is
//! killed in the middle of one, and is restored from backups. After every change of what a read can see, [`checks`]
//! compares it with the model.
//!
//! To see that the simulator can find faults, `tests` breaks each [`Rule`] and expects a violation.

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

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A rule of the protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Rule {
            $($(#[$doc])* $name,)*
        }

        const RULES: &[Rule] = &[$(Rule::$name),*];
    };
}

rules! {
    /// Inserts fail unless their epoch is the highest.
    Fence,
    /// All claims of an epoch run under one query id.
    ClaimsExcludeEachOther,
    /// All inserts of an epoch run under one query id, for which a successor waits.
    InsertsHaveOneQueryId,
    /// A claimed epoch is larger than that of every stored row.
    ExceedsStoredVersions,
    /// `reports` is written before `events`.
    WritesReportsFirst,
    /// A writer starts at the offsets in `progress`, not at those in Kafka.
    StartsAtProgress,
    /// A writer reads the whole index before it merges.
    WaitsForIndex,
    /// Rows that other partitions depend on have a statement of their own.
    WritesMovesFirst,
    /// The first blocks of a writer cover the records of an interrupted one, and only the last of them is complete.
    CoversInterrupted,
    /// They start from the rows that an interrupted block wrote to `reports`.
    KnowsInterrupted,
    /// Each of them has all interrupted reports of its groups.
    KeepsGroupsWhole,
    /// Sending that a writer is alive doesn't say that its predecessor's block is complete.
    HeartbeatsSettleNothing,
    /// The row of `progress` of a block is numbered after the heartbeats that were sent while it was written.
    NumbersProgressLast,
    /// A repeated insert has the same bytes.
    RepeatsSameBytes,
    /// Tombstones are never removed.
    KeepsTombstones,
    /// Before partitions are dropped, events that have a part in one of them and another part elsewhere are deleted.
    DeletesDivided,
    /// A writer deletes expired months in a new epoch, before it reads the tables.
    DeletesBeforeItReads,
    /// It keeps the row of a report that another event names, too: an interrupted block has moved it.
    KeepsMovedReports,
    /// Reports that were accepted in expired months are skipped.
    SkipsExpired,
    /// A backup copies `progress` first, then `events`, then `reports`.
    BacksUpProgressFirst,
}

/// The rules that a schedule keeps: all of them, or all but one.
#[derive(Clone, Copy)]
struct Rules {
    broken: Option<Rule>,
}

impl Rules {
    fn keep(self, rule: Rule) -> bool {
        self.broken != Some(rule)
    }
}
