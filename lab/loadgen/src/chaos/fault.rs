//! A fault: target, kind and duration.

use super::proxy::Mode;
use std::fmt;
use std::time::Duration;

/// Workers per shard, one of which is active.
pub(super) const WORKERS: usize = 2;

/// What a fault affects. Numbers start at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    Gateway(usize),
    /// One of the workers, ordered by shard.
    Worker(usize),
    Query(usize),
    /// One of the brokers, or the connection to it.
    Broker(usize),
    /// The ClickHouse server of a shard, or the connection to it.
    ClickHouse(usize),
    Postgres,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// SIGKILL, then a restart at the end of the fault.
    Kill,
    /// SIGSTOP, then SIGCONT at the end of the fault.
    Pause,
    /// SIGTERM, then a restart at the end of the fault.
    Terminate,
    /// Abort when a crash point is reached for the n-th time, then a restart at the end of the fault.
    CrashAt(&'static str, u64),
    /// Disturbs the connection to the target for the duration of the fault.
    Link(Mode),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Start of the fault, counted from the start of the load.
    pub at: Duration,
    pub target: Target,
    pub kind: FaultKind,
    pub lasts: Duration,
}

impl Target {
    /// Returns whether the target is a store behind a proxy.
    pub(super) fn is_store(self) -> bool {
        matches!(self, Self::Broker(_) | Self::ClickHouse(_) | Self::Postgres)
    }

    /// Returns the group of targets of which only one may be faulty at a time: all brokers, because the log needs a majority, and a shard's
    /// workers, because a standby takes over from the faulty one.
    pub(super) fn lane(self) -> Self {
        match self {
            Self::Broker(_) => Self::Broker(0),
            Self::Worker(number) => Self::Worker(number / WORKERS * WORKERS),
            other => other,
        }
    }

    pub(super) fn server_of_worker(self) -> Option<Self> {
        match self {
            Self::Worker(number) => Some(Self::ClickHouse(number / WORKERS)),
            _ => None,
        }
    }
}

impl FaultKind {
    /// Returns the kind's name in the report.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Kill => "kill -9",
            Self::Pause => "SIGSTOP",
            Self::Terminate => "SIGTERM",
            Self::CrashAt(..) => "crash point",
            Self::Link(mode) => mode.kind(),
        }
    }

    pub fn is_end(self) -> bool {
        matches!(self, Self::Kill | Self::Terminate | Self::CrashAt(..))
    }

    /// Returns whether the fault waits for a crash point to be reached.
    pub(super) fn is_crash(self) -> bool {
        matches!(self, Self::CrashAt(..))
    }

    /// Returns whether the crash point is reached only while the log is unavailable.
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
