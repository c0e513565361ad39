//! Metric definitions. Each crate lists its metrics in a table with name, unit, help and labels.

use metrics::{Label, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct MetricLabel {
    pub label: &'static str,
    /// The possible values, as shown in the documentation.
    pub description: &'static str,
    /// All values, if known in advance; empty for route templates and status codes.
    pub values: &'static [&'static str],
}

#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Follows the Prometheus conventions: base unit, then `_total` for counters.
    pub name: &'static str,
    pub kind: Kind,
    /// `seconds`, `bytes`, or the counted things.
    pub unit: &'static str,
    pub help: &'static str,
    pub labels: &'static [MetricLabel],
}

impl Metric {
    pub const fn counter(name: &'static str, unit: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Counter, unit, help, labels: &[] }
    }

    pub const fn gauge(name: &'static str, unit: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Gauge, unit, help, labels: &[] }
    }

    pub const fn duration(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Histogram, unit: "seconds", help, labels: &[] }
    }

    pub const fn by(self, labels: &'static [MetricLabel]) -> Self {
        Self { labels, ..self }
    }

    fn unit(&self) -> Unit {
        match self.unit {
            "seconds" => Unit::Seconds,
            "bytes" => Unit::Bytes,
            _ => Unit::Count,
        }
    }

    /// Returns every series that is known in advance. Empty if a label's values aren't.
    fn series(&self) -> Vec<Vec<Label>> {
        let mut series = vec![Vec::new()];
        for by in self.labels {
            let with = |series: &Vec<Label>, value: &'static str| {
                series.iter().cloned().chain([Label::from_static_parts(by.label, value)]).collect()
            };
            series = series.iter().flat_map(|begun| by.values.iter().map(|value| with(begun, value))).collect();
        }
        series
    }
}

/// Describes the metrics. Exports counters as 0 from the first scrape on, because Prometheus misses the increase of a counter it hasn't
/// seen before. Gauges with labels start with their first measured value.
pub fn register_metrics(measures: &[Metric]) {
    for measure in measures {
        let Metric { name, help, .. } = *measure;
        match measure.kind {
            Kind::Counter => {
                describe_counter!(name, measure.unit(), help);
                measure.series().into_iter().for_each(|labels| drop(counter!(name, labels)));
            }
            Kind::Gauge => {
                describe_gauge!(name, measure.unit(), help);
                if measure.labels.is_empty() {
                    drop(gauge!(name));
                }
            }
            Kind::Histogram => {
                describe_histogram!(name, measure.unit(), help);
                measure.series().into_iter().for_each(|labels| drop(histogram!(name, labels)));
            }
        }
    }
}

/// Defines metrics and the crate's table `METRICS`, which therefore always lists all of them.
#[macro_export]
macro_rules! metric_definitions {
    ($($name:ident = $measure:expr;)*) => {
        $(const $name: $crate::metric_definitions::Metric = $measure;)*

        pub const METRICS: &[$crate::metric_definitions::Metric] = &[$($name),*];
    };
}

pub mod common {
    use super::{Metric, MetricLabel};

    const METHODS: MetricLabel = MetricLabel { label: "method", description: "HTTP method, or `other`", values: &[] };
    const ROUTE: MetricLabel = MetricLabel { label: "route", description: "route template, or `none`", values: &[] };
    const STATUS: MetricLabel = MetricLabel { label: "status", description: "status code", values: &[] };
    const DEPENDENCY: MetricLabel = MetricLabel {
        label: "dependency",
        description: "`clickhouse`, `database` (PostgreSQL) or `kafka`",
        values: &["clickhouse", "database", "kafka"],
    };

    pub(crate) const SLOW_READER: &str = "slow_reader";
    pub(crate) const ADDRESS_SHARE: &str = "address_share";
    const WHY: MetricLabel =
        MetricLabel { label: "why", description: "`slow_reader` or `address_share`", values: &[SLOW_READER, ADDRESS_SHARE] };
    pub(crate) const LOOKED_UP: &str = "looked_up";
    pub(crate) const REMEMBERED: &str = "remembered";
    pub(crate) const LIMITED: &str = "limited";
    const HOW: MetricLabel = MetricLabel {
        label: "how",
        description: "`looked_up`, `remembered` or `limited`",
        values: &[LOOKED_UP, REMEMBERED, LIMITED],
    };

    /// Pools of slots (`slots::Pool`).
    pub(crate) const POOLS: [&str; 18] = [
        "reads",
        "read_questions",
        "drains",
        "webhooks",
        "sign_in_mails",
        "domain_checks",
        "large_bodies",
        "writes",
        "session_changes",
        "identity_requests",
        "identity_sessions",
        "bodies",
        "responses",
        "statements",
        "robots",
        "key_sets",
        "nonces",
        "statement_files",
    ];
    const POOL: MetricLabel = MetricLabel {
        label: "pool",
        description: "`reads`, `read_questions` (PostgreSQL queries of reads), `drains`, `webhooks`, `sign_in_mails`, `domain_checks`, `large_bodies`, `writes` (to the log), `session_changes`, `identity_requests` (by key), `identity_sessions` (identity requests by session), `bodies` (KiB of request bodies in memory), `responses` (KiB of responses of reads in memory), `statements` (months being closed), `robots` (comparisons with robots.txt), `key_sets` (of agents, being fetched), `nonces` (of reports, being stored) or `statement_files` (statements being converted)",
        values: &POOLS,
    };
    pub(crate) const SHARE: &str = "share";
    pub(crate) const PROCESS: &str = "process";
    pub(crate) const CREDENTIAL: &str = "credential";
    const LIMIT: MetricLabel = MetricLabel {
        label: "limit",
        description: "`share`: the tenant used its share; `process`: all slots were in use; `credential`: the key or person reached its limit",
        values: &[SHARE, PROCESS, CREDENTIAL],
    };

    crate::metric_definitions! {
        REQUESTS = Metric::counter("http_requests_total", "requests", "HTTP requests").by(&[METHODS, ROUTE, STATUS]);
        REQUEST_DURATION = Metric::duration(
            "http_request_duration_seconds",
            "Time from the complete request head to the response head",
        )
        .by(&[ROUTE]);
        DEPENDENCY_UP = Metric::gauge(
            "dependency_up",
            "boolean",
            "Result of the last readiness check of a dependency: 1 available, 0 unavailable",
        )
        .by(&[DEPENDENCY]);
        CONNECTIONS_CUT = Metric::counter(
            "http_connections_cut_total",
            "connections",
            "Connections closed because the client was too slow or its address had too many",
        )
        .by(&[WHY]);
        UNKNOWN_CREDENTIALS = Metric::counter(
            "credentials_refused_total",
            "credentials",
            "Unknown or rejected credentials",
        )
        .by(&[HOW]);
        STALE_LOOKUPS = Metric::counter(
            "lookups_stale_total",
            "lookups",
            "Key and host lookups answered from stale cache entries while PostgreSQL was unavailable",
        );
        SLOTS_TAKEN = Metric::gauge("slots_taken", "slots", "Slots in use, in pools that tenants share").by(&[POOL]);
        SLOTS_REFUSED = Metric::counter("slots_refused_total", "requests", "Requests rejected because no slot was free").by(&[POOL, LIMIT]);
        OVER_BUDGET = Metric::counter("write_budget_exceeded_total", "writes", "Writes rejected or skipped because the tenant's byte budget was exhausted");
    }

    #[expect(clippy::cast_precision_loss, reason = "slot counts are far below 2^53")]
    pub(crate) fn slots_taken(pool: &'static str, slots: usize) {
        metrics::gauge!(SLOTS_TAKEN.name, POOL.label => pool).set(slots as f64);
    }

    pub(crate) fn no_slot(pool: &'static str, limit: &'static str) {
        metrics::counter!(SLOTS_REFUSED.name, POOL.label => pool, LIMIT.label => limit).increment(1);
    }

    pub(crate) fn over_budget() {
        metrics::counter!(OVER_BUDGET.name).increment(1);
    }

    pub(crate) fn request_completed(method: String, route: String, status: u16, after: std::time::Duration) {
        metrics::histogram!(REQUEST_DURATION.name, ROUTE.label => route.clone()).record(after);
        let labels = [(METHODS.label, method), (ROUTE.label, route), (STATUS.label, status.to_string())];
        metrics::counter!(REQUESTS.name, &labels).increment(1);
    }

    pub(crate) fn dependency_up(name: &'static str, is_up: bool) {
        metrics::gauge!(DEPENDENCY_UP.name, DEPENDENCY.label => name).set(if is_up { 1.0 } else { 0.0 });
    }

    pub(crate) fn connection_cut(why: &'static str) {
        metrics::counter!(CONNECTIONS_CUT.name, WHY.label => why).increment(1);
    }

    pub(crate) fn unknown_credential(how: &'static str) {
        metrics::counter!(UNKNOWN_CREDENTIALS.name, HOW.label => how).increment(1);
    }

    pub(crate) fn stale_lookup() {
        metrics::counter!(STALE_LOOKUPS.name).increment(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OVER: MetricLabel = MetricLabel { label: "over", description: "", values: &["a", "b"] };
    const UNDER: MetricLabel = MetricLabel { label: "under", description: "", values: &["c", "d"] };
    const OPEN: MetricLabel = MetricLabel { label: "open", description: "", values: &[] };

    #[test]
    fn registers_every_series_known_in_advance() {
        let counter = Metric::counter("things_total", "things", "");
        assert_eq!(counter.series(), vec![Vec::new()]);
        assert_eq!(counter.by(&[OVER, UNDER]).series().len(), 4);
        assert!(counter.by(&[OVER, OPEN]).series().is_empty(), "the values of the second label are unknown");
    }
}
