//! Deletes months of events and reports when the operator's setting says so (`TELEMETRY_EVENTS_KEEP`).
//!
//! Partitions are months of acceptance, so a month is deleted whole, when its last event is old enough. The index keeps
//! its keys until the next start; the writer treats them as absent, because it finds no rows.

use super::server::Server;
use chrono::{DateTime, Months, NaiveDate, TimeDelta, Utc};
use service_kit::clock::Clock;
use std::time::Duration;
use store::report::Home;
use store::row_binary::Decoder;

/// Interval between checks.
const EVERY: Duration = Duration::from_secs(60 * 60);

/// Deletes expired months every hour. Never returns.
pub(super) async fn apply_hourly(server: &Server, keep_days: Option<u32>, clock: &Clock) {
    let Some(days) = keep_days.filter(|days| *days > 0) else { return std::future::pending().await };
    loop {
        if let Err(error) = apply(server, days, clock.now()).await {
            tracing::error!("failed to delete events that are older than {days} days: {error:#}");
        }
        tokio::time::sleep(EVERY).await;
    }
}

async fn apply(server: &Server, days: u32, now: DateTime<Utc>) -> anyhow::Result<()> {
    let response = server.read(include_str!("sql/homes.sql"), &[]).await?;
    for home in Decoder(&response).rows(Decoder::u32)?.into_iter().map(Home) {
        if is_expired(home, days, now) {
            let parameters = [("home", home.0.to_string())];
            // Reports last: an event names reports.
            for sql in [include_str!("sql/drop_events.sql"), include_str!("sql/drop_reports.sql")] {
                server.read(sql, &parameters).await?;
            }
            tracing::info!(month = home.0, "deleted a month of events");
        }
    }
    Ok(())
}

/// Returns whether a month ended at least `days` ago.
fn is_expired(home: Home, days: u32, now: DateTime<Utc>) -> bool {
    let month = i32::try_from(home.0 / 100).ok().and_then(|year| NaiveDate::from_ymd_opt(year, home.0 % 100, 1));
    let end = month.and_then(|month| month.checked_add_months(Months::new(1)));
    end.is_some_and(|end| end.and_time(chrono::NaiveTime::MIN).and_utc() + TimeDelta::days(days.into()) <= now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_expires_when_its_last_day_is_too_old() {
        let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
        assert!(!is_expired(Home(202_601), 30, at("2026-03-02T23:59:59Z")));
        assert!(is_expired(Home(202_601), 30, at("2026-03-03T00:00:00Z")));
        assert!(is_expired(Home(202_512), 1, at("2026-01-02T00:00:00Z")));
        // Not a month: never deleted.
        assert!(!is_expired(Home(0), 1, at("2026-03-03T00:00:00Z")));
        assert!(!is_expired(Home(202_613), 1, at("2027-03-03T00:00:00Z")));
    }
}
