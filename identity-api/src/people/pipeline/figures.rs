//! Which figures of the services' metrics matter to an operator, and from where on Prometheus' rules wake somebody up.
//!
//! Must name what the services really show, and the limits of the rules: tests hold both to the code and to `rules.yml`.

use std::collections::BTreeMap;

/// One metric that operators are shown.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    pub process: &'static str,
    /// Its name; of several series, their sum.
    pub metric: &'static str,
    /// As the table of the service has it.
    pub unit: &'static str,
    /// What it says, in a few words.
    pub says: &'static str,
    pub alert: Option<Alert>,
}

/// A rule about the figure.
#[derive(Clone, Copy, Debug)]
pub struct Alert {
    /// As in docs/alerts.md.
    pub name: &'static str,
    pub limit: Limit,
}

/// From where on a figure is bad.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    Above(f64),
    /// Above this share of another metric of the same process.
    ShareOf(&'static str, f64),
    Growth,
}

impl Limit {
    /// The number, where there is one.
    pub(super) fn of(self, values: &BTreeMap<&'static str, f64>) -> Option<f64> {
        match self {
            Self::Above(limit) => Some(limit),
            Self::ShareOf(metric, share) => values.get(metric).map(|whole| whole * share),
            Self::Growth => None,
        }
    }
}

const GATEWAY: &str = "ingest-gateway";
const WORKER: &str = "stream-workers";
const DELIVERER: &str = "webhook-deliverer";

const fn figure(process: &'static str, metric: &'static str, unit: &'static str, says: &'static str) -> Figure {
    Figure { process, metric, unit, says, alert: None }
}

impl Figure {
    const fn wakes(self, name: &'static str, limit: Limit) -> Self {
        Self { alert: Some(Alert { name, limit }), ..self }
    }
}

/// What operators are shown, in the order of the pipeline.
pub const FIGURES: &[Figure] = &[
    figure(GATEWAY, "gateway_log_breaker_open", "boolean", "1 while Kafka does not acknowledge")
        .wakes("LogNotAcknowledging", Limit::Above(0.0)),
    figure(GATEWAY, "gateway_spill_pending_records", "records", "Records in the spill, not yet in Kafka")
        .wakes("SpillInUse", Limit::Above(0.0)),
    figure(GATEWAY, "gateway_spill_bytes", "bytes", "Disk space used by the spill")
        .wakes("SpillNearlyFull", Limit::ShareOf(SPILL_QUOTA, 0.7)),
    figure(GATEWAY, "gateway_spill_full_total", "records", "Records rejected because the spill was full")
        .wakes("SpillFull", Limit::Growth),
    figure(GATEWAY, "gateway_spill_write_failures_total", "writes", "Failed writes to the spill")
        .wakes("SpillWriteFailing", Limit::Growth),
    figure(GATEWAY, "gateway_spill_set_aside_total", "files", "Spill files set aside").wakes("SpillSetAside", Limit::Growth),
    figure(GATEWAY, "gateway_requests_overloaded_total", "requests", "Requests rejected because too many were in progress")
        .wakes("GatewayOverloaded", Limit::Growth),
    figure(WORKER, "worker_lag_seconds", "seconds", "Age of the oldest record that was read and is not stored")
        .wakes("WorkerLagging", Limit::Above(30.0)),
    figure(WORKER, "worker_active", "boolean", "1 while this worker is the active one"),
    figure(WORKER, "worker_statements_repeated_total", "statements", "Repeated inserts")
        .wakes("StatementsRepeated", Limit::Growth),
    figure(WORKER, "worker_duplicate_keys", "keys", "Events with two rows, checked daily")
        .wakes("DuplicateKeys", Limit::Above(0.0)),
    figure(WORKER, "worker_records_rejected_total", "records", "Records that became dead letters")
        .wakes("RecordsSetAside", Limit::Growth),
    figure(WORKER, "worker_records_missed_total", "records", "Records Kafka deleted before they were read")
        .wakes("RecordsMissed", Limit::Growth),
    figure(WORKER, "worker_missing_records", "records", "Missed records since counting began"),
    figure(WORKER, "worker_index_keys", "keys", "Events in the key index"),
    figure(DELIVERER, "webhook_deliveries_pending", "deliveries", "Pending deliveries"),
    figure(DELIVERER, "webhook_deliveries_overdue_seconds", "seconds", "How long the oldest delivery is overdue")
        .wakes("WebhooksOverdue", Limit::Above(300.0)),
    figure(DELIVERER, "webhook_deliveries_dead_total", "deliveries", "Deliveries that failed after eight attempts")
        .wakes("WebhooksDeadLettered", Limit::Growth),
    figure(DELIVERER, "webhook_claims_failing", "boolean", "1 while due deliveries cannot be claimed")
        .wakes("WebhooksNotClaimed", Limit::Above(0.0)),
    figure(DELIVERER, "webhook_organizations_without_room", "organizations", "Organizations whose queue was full")
        .wakes("WebhooksWithoutRoom", Limit::Above(2.0)),
    figure(DELIVERER, "webhook_unsigned_total", "attempts", "Attempts postponed because a secret could not be decrypted")
        .wakes("WebhooksUnsigned", Limit::Growth),
    figure("query-api", "query_reads_under_way", "reads", "Reads in progress"),
];

/// Shown as the limit of what it bounds.
pub(super) const SPILL_QUOTA: &str = "gateway_spill_quota_bytes";
