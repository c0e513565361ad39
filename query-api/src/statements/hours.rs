//! The hours of a month with server data, by host (docs/api/statements.md#evidence).

use crate::access::visibility::Visibility;
use crate::parameters::period::Period;
use crate::reads::Reads;
use chrono::{DateTime, Utc};
use serde::Serialize;
use service_kit::http::ApiError;
use sqlx::PgPool;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

const HOUR_MS: i64 = 3_600_000;

/// Hours since 1970 by host.
#[derive(Debug, Default)]
pub(super) struct CoveredHours(BTreeMap<String, BTreeSet<i64>>);

/// A row of the evidence file. Members are in canonical order.
#[derive(Serialize)]
struct HourRow<'a> {
    at_ms: i64,
    host: &'a str,
    row: &'static str,
}

impl CoveredHours {
    pub(super) async fn read(reads: &Reads, pool: &PgPool, seen: &Visibility, period: &Period) -> Result<Self, ApiError> {
        let owner = seen.organization_id().0;
        let partners: Vec<Uuid> =
            sqlx::query_scalar("SELECT grantee_org_id FROM delegations WHERE grantor_org_id = $1 AND revoked_at IS NULL")
                .bind(owner)
                .fetch_all(pool)
                .await?;
        let observers: Vec<Uuid> = std::iter::once(owner).chain(partners).collect();
        let by_host = reads.evidence_hours(seen, period, &observers).await?;
        let mut covered = Self(by_host.into_iter().map(|(host, hours)| (host, hours.into_iter().collect())).collect());
        let instant = |ms: Option<i64>| ms.and_then(DateTime::<Utc>::from_timestamp_millis);
        let of_drains: Vec<(i64, Option<Vec<String>>)> = sqlx::query_as(include_str!("hours/drain_hours.sql"))
            .bind(owner)
            .bind(instant(period.from_ms))
            .bind(instant(period.before_ms))
            .fetch_all(pool)
            .await?;
        for (hour, hosts) in of_drains {
            covered.add_drain(hour, &hosts.unwrap_or_default(), seen.domains());
        }
        Ok(covered)
    }

    /// Adds an hour with data from a drain that accepts these hosts, or all hosts if the list is empty. A host covers the domains above it.
    fn add_drain(&mut self, hour: i64, hosts: &[String], domains: &[String]) {
        for domain in domains {
            let in_domain = |host: &&String| is_within(host, domain);
            let is_whole = hosts.is_empty() || hosts.iter().any(|host| is_within(domain, host));
            for host in hosts.iter().filter(in_domain).chain(is_whole.then_some(domain)) {
                self.0.entry(host.clone()).or_default().insert(hour);
            }
        }
    }

    /// Appends the rows to the evidence file: by hour and host. Returns their number.
    pub(super) fn write(&self, file: &mut Vec<u8>) -> i64 {
        let by_hour: BTreeSet<(i64, &str)> =
            self.0.iter().flat_map(|(host, hours)| hours.iter().map(|hour| (*hour, host.as_str()))).collect();
        for (hour, host) in &by_hour {
            let row = HourRow { at_ms: hour * HOUR_MS, host, row: "hour" };
            serde_json::to_writer(&mut *file, &row).expect("rows contain only strings and numbers");
            file.push(b'\n');
        }
        i64::try_from(by_hour.len()).unwrap_or(i64::MAX)
    }

    /// Returns the number of hours of a host and those above it.
    pub(super) fn hours_of(&self, host: &str) -> u64 {
        let covering = self.0.iter().filter(|(above, _)| is_within(host, above));
        covering.flat_map(|(_, hours)| hours).collect::<BTreeSet<_>>().len() as u64
    }

    pub(super) fn total(&self) -> u64 {
        self.0.values().flatten().collect::<BTreeSet<_>>().len() as u64
    }
}

fn is_within(host: &str, above: &str) -> bool {
    host.strip_suffix(above).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drains_cover_their_hosts() {
        let domains = ["a.test".to_owned(), "b.test".to_owned()];
        let covered = |hosts: &[&str]| {
            let mut covered = CoveredHours::default();
            covered.add_drain(2, &hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>(), &domains);
            let mut file = Vec::new();
            covered.write(&mut file);
            let row = |host: &str| format!("{{\"at_ms\":7200000,\"host\":\"{host}\",\"row\":\"hour\"}}\n");
            assert_eq!(String::from_utf8(file).unwrap(), covered.0.keys().map(|host| row(host)).collect::<String>());
            (covered.hours_of("x.a.test"), covered.hours_of("b.test"), covered.total())
        };
        assert_eq!(covered(&[]), (1, 1, 1));
        assert_eq!(covered(&["a.test"]), (1, 0, 1));
        assert_eq!(covered(&["x.a.test"]), (1, 0, 1));
        assert_eq!(covered(&["y.a.test", "b.test"]), (0, 1, 1));
        assert_eq!(covered(&["test"]), (1, 1, 1));
        assert_eq!(covered(&["other.test", "aa.test"]), (0, 0, 0));
    }

    #[test]
    fn lines_include_the_hours_of_parent_hosts() {
        let hours = |hours: &[i64]| hours.iter().copied().collect();
        let covered = CoveredHours([("a.test".to_owned(), hours(&[1, 2])), ("x.a.test".to_owned(), hours(&[2, 3]))].into());
        assert_eq!(
            (covered.hours_of("a.test"), covered.hours_of("x.a.test"), covered.hours_of("xa.test"), covered.total()),
            (2, 3, 0, 3)
        );
    }
}
