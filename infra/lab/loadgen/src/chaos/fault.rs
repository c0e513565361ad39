//! What can go wrong: whom it strikes, how, and for how long.

use super::proxy::Mode;
use std::fmt;
use std::time::Duration;

/// Workers of each shard, one of which is active.
pub(super) const WORKERS: usize = 2;

/// Whom a fault strikes. Numbers count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// One of the gateways.
    Gateway(usize),
    /// One of the workers: first those of the first shard.
    Worker(usize),
    /// The process that answers reads.
    Query(usize),
    /// One of the brokers, or the way to it.
    Broker(usize),
    /// The server of a shard, or the way to it.
    ClickHouse(usize),
    /// The store of state, or the way to it.
    Postgres,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// SIGKILL, and a start after the time of the fault.
    Kill,
    /// SIGSTOP, and SIGCONT after the time of the fault.
    Pause,
    /// SIGTERM, and a start after the time of the fault.
    Terminate,
    /// Death at a point of the code, at this pass of it; a start after the time of the fault.
    CrashAt(&'static str, u64),
    /// The way to it is disturbed for the time of the fault.
    Link(Mode),
}

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// From the begin of the load on.
    pub at: Duration,
    pub target: Target,
    pub kind: FaultKind,
    /// How long, at least.
    pub lasts: Duration,
}

impl Target {
    /// Whether it is a store that runs behind a proxy.
    pub(super) fn is_store(self) -> bool {
        matches!(self, Self::Broker(_) | Self::ClickHouse(_) | Self::Postgres)
    }

    /// What must not be struck twice at a time. Of several brokers one at a time: without a majority nothing is promised. Of the
    /// workers of a shard too: a standby takes over from the one that is struck.
    pub(super) fn lane(self) -> Self {
        match self {
            Self::Broker(_) => Self::Broker(0),
            Self::Worker(number) => Self::Worker(number / WORKERS * WORKERS),
            other => other,
        }
    }

    /// The server to which a worker writes.
    pub(super) fn server_of_worker(self) -> Option<Self> {
        match self {
            Self::Worker(number) => Some(Self::ClickHouse(number / WORKERS)),
            _ => None,
        }
    }
}

impl FaultKind {
    /// As the report sums them up.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Kill => "kill -9",
            Self::Pause => "SIGSTOP",
            Self::Terminate => "SIGTERM",
            Self::CrashAt(..) => "crash point",
            Self::Link(mode) => mode.kind(),
        }
    }

    /// Whether it ends a process.
    pub fn is_end(self) -> bool {
        matches!(self, Self::Kill | Self::Terminate | Self::CrashAt(..))
    }

    /// Whether it waits for a point of the code to be come to.
    pub(super) fn is_crash(self) -> bool {
        matches!(self, Self::CrashAt(..))
    }

    /// A crash point that is passed only while the log is away.
    pub(super) fn needs_spill(self) -> bool {
        matches!(self, Self::CrashAt(point, _) if point.starts_with("spill") || point.starts_with("drain"))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gateway(number) => write!(f, "gateway {}", number + 1),
            Self::Worker(number) => write!(f, "worker {}", number + 1),
            Self::Query(number) => write!(f, "query {}", number + 1),
            Self::Broker(number) => write!(f, "broker {}", number + 1),
            Self::ClickHouse(number) => write!(f, "clickhouse {}", number + 1),
            Self::Postgres => f.write_str("postgres"),
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CrashAt(point, pass) => write!(f, "dies at {point}:1/{pass}"),
            Self::Link(mode) => write!(f, "{mode}"),
            other => f.write_str(other.kind()),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, lasts) = (self.at.as_secs_f64(), self.lasts.as_secs_f64());
        write!(f, "{at:8.2} s  {:<12} {} for {lasts:.2} s", self.target.to_string(), self.kind)
    }
}
