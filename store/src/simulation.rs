//! Simulates the writer protocol: writers, a network and a ClickHouse server in one thread, driven by a seed.
//!
//! Two or three writers run at a time. They are paused at every wait, and killed. Requests are delayed, repeated, and lost before or after
//! they take effect. The server makes an insert's partitions visible in any order, is killed in the middle of one, and is restored from
//! backups. After every visible change, [`checks`] compares the tables with the model.
//!
//! The tests break each [`Rule`] and expect a violation, to verify that the simulator finds faults.

mod simulated_log;
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
    /// All claims run under one query id.
    ClaimsExcludeEachOther,
    /// All inserts of an epoch run under one query id, and a successor waits until it is free.
    InsertsHaveOneQueryId,
    /// A claimed epoch is larger than that of every stored row.
    ExceedsStoredVersions,
    WritesReportsFirst,
    /// A writer starts at the offsets in `progress`, not at those in Kafka.
    StartsAtProgress,
    /// A writer reads the whole index before it merges.
    WaitsForIndex,
    /// Rows that other partitions depend on have their own statement.
    WritesMovesFirst,
    /// A writer's first blocks cover an interrupted block's records, and only the last of them is complete.
    CoversInterrupted,
    /// The first blocks start from the rows that an interrupted block wrote to `reports`.
    KnowsInterrupted,
    /// Each of the first blocks contains all interrupted reports in its groups.
    KeepsGroupsWhole,
    /// A heartbeat doesn't mark the predecessor's block as complete.
    HeartbeatsSettleNothing,
    /// A block's row of `progress` has a larger number than the heartbeats that were sent while the block was written.
    NumbersProgressLast,
    RepeatsSameBytes,
    KeepsTombstones,
    /// Before partitions are dropped, events with parts both inside and outside of them are deleted.
    DeletesDivided,
    /// A writer deletes expired months in a new epoch, before it reads the tables.
    DeletesBeforeItReads,
    /// A deletion keeps a report's row if another event refers to it too, because an interrupted block has moved the report.
    KeepsMovedReports,
    /// Reports accepted in expired months are skipped.
    SkipsExpired,
    /// A backup copies `progress` first, then `events`, then `reports`.
    BacksUpProgressFirst,
}

/// The rules that a schedule follows: all, or all but one.
#[derive(Clone, Copy)]
struct Rules {
    broken: Option<Rule>,
}

impl Rules {
    fn is_followed(self, rule: Rule) -> bool {
        self.broken != Some(rule)
    }
}
