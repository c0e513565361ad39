//! Deletes months of events and reports when the operator's setting says so (`TELEMETRY_EVENTS_KEEP`).
//!
//! Partitions are months of acceptance, so a month is deleted whole, when its last report is old enough. The row of an event and the rows
//! of its reports can be in different months. An event is deleted with the first of them: otherwise it would name reports that don't
//! exist, or a copy of a report would get a second row.
//!
//! The active writer does this between two blocks, as one of its epoch's statements, and forgets the rows that it remembers. A drop can't
//! be fenced: one that was sent before a takeover and arrives long after it deletes only what its successor would delete, too.

use super::block::Destination;
use super::keep_beating;
use super::server::{Ended, Outcome, Server};
use super::state::State;
use chrono::{DateTime, Months, NaiveDate, TimeDelta, Utc};
use schemas::event_key::EventKey;
use schemas::ids::OrgId;
use schemas::site::Site;
use std::time::Duration;
use store::report::Home;
use store::row::{EventPlace, EventWrite, ReportPlace};
use store::row_binary::{Decoder, Encoder, Malformed};
use store::tables::{encode_event, encode_report};
use tokio::time::Instant;

/// Interval between checks.
const EVERY: Duration = Duration::from_secs(60 * 60);
/// Time until the next check after one that failed.
const RETRY_AFTER: Duration = Duration::from_secs(60);
/// Most events that are deleted by one statement.
const MOST_EVENTS: u64 = 20_000;

/// When months are deleted.
pub(super) struct Retention {
    keep_days: Option<u32>,
    due: Instant,
}

impl Retention {
    pub(super) fn new(keep_days: Option<u32>) -> Self {
        Self { keep_days: keep_days.filter(|days| *days > 0), due: Instant::now() }
    }

    /// Deletes expired months, once an hour.
    ///
    /// # Errors
    ///
    /// If the epoch is fenced. Any other failure is logged, and the month is deleted a minute later.
    pub(super) async fn apply_if_due(
        &mut self,
        now: DateTime<Utc>,
        (state, to): (&mut State, Destination<'_>),
    ) -> Result<(), Ended> {
        let Some(days) = self.keep_days.filter(|_| self.due <= Instant::now() && state.cover.is_empty()) else { return Ok(()) };
        self.due = Instant::now() + EVERY;
        match apply(days, now, (state, to)).await {
            Err(Ended::Failed(error)) => {
                tracing::error!("failed to delete events that are older than {days} days: {error:#}");
                self.due = Instant::now() + RETRY_AFTER;
                Ok(())
            }
            applied => applied,
        }
    }
}

async fn apply(days: u32, now: DateTime<Utc>, (state, to): (&mut State, Destination<'_>)) -> Result<(), Ended> {
    let homes = to.server.read(include_str!("sql/homes.sql"), &[]).await.map_err(anyhow::Error::from)?;
    let homes = Decoder(&homes).rows(Decoder::u32)?.into_iter().map(Home);
    for home in homes.filter(|home| is_expired(*home, days, now)) {
        while let deleted @ 1.. = delete_divided(home, (state, to)).await? {
            tracing::info!(events = deleted, month = home.0, "deleted events of which a part is in this month");
        }
        state.hot.forget_month(home);
        tokio::select! {
            dropped = drop_month(home, (state, to.server)) => dropped?,
            ended = keep_beating(to.server, (to.topic, to.beat_every), state) => match ended? {},
        }
        tracing::info!(month = home.0, "deleted a month of events");
    }
    Ok(())
}

/// If it is interrupted, events name reports that don't exist until the next try, which is at the start of a writer. The other way
/// round, a copy of a report without an event could get a second row.
async fn drop_month(home: Home, (state, server): (&State, &Server)) -> Result<(), Ended> {
    let parameters = [("home", home.0.to_string())];
    let all =
        [include_str!("sql/drop_reports.sql"), include_str!("sql/drop_events.sql"), include_str!("sql/drop_failed_fetches.sql")];
    for sql in all {
        loop {
            match server.run(&state.epoch.slot, sql, &parameters, &[]).await {
                Outcome::Done => break,
                // The statement before has been answered and has not left the process list yet.
                Outcome::SlotInUse => server.wait_for_slot(&state.epoch.slot).await,
                outcome => {
                    server.wait_for_slot(&state.epoch.slot).await;
                    return Err(anyhow::anyhow!("a month wasn't dropped: {outcome:?}").into());
                }
            }
        }
    }
    Ok(())
}

/// Deletes events that have a row in this month and one in another; returns how many.
async fn delete_divided(home: Home, (state, to): (&mut State, Destination<'_>)) -> Result<usize, Ended> {
    let parameters = [("home", home.0.to_string()), ("most", MOST_EVENTS.to_string())];
    let response = to.server.read(include_str!("sql/divided.sql"), &parameters).await.map_err(anyhow::Error::from)?;
    let divided = Decoder(&response).rows(Divided::decode)?;
    if divided.is_empty() {
        return Ok(0);
    }
    let (version, mut reports, mut events) = (state.take_version(), Encoder::default(), Encoder::default());
    for event in &divided {
        event.reports.iter().for_each(|(place, issuer)| encode_report(place, *issuer, None, version, &mut reports));
        encode_event(&EventWrite::Tombstone(event.place.clone()), version, &mut events);
    }
    let epoch = [("epoch", state.epoch.number.to_string())];
    // As long as the event is there, it is found again.
    to.server.insist(&state.epoch, include_str!("sql/insert_reports.sql"), &epoch, &reports.0).await?;
    to.server.insist(&state.epoch, include_str!("sql/insert_events.sql"), &epoch, &events.0).await?;
    divided.iter().for_each(|event| state.forget(event.place.key));
    Ok(divided.len())
}

/// An event and the rows of its reports; those of issuers have their organization.
struct Divided {
    place: EventPlace,
    reports: Vec<(ReportPlace, Option<OrgId>)>,
}

impl Divided {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (home, site) = (Home(from.u32()?), from.text()?);
        let site = Some(site).filter(|site| !site.is_empty()).map(|site| Site::from_stored(&site));
        let place = EventPlace { home, site, at_ms: from.i64()?, key: EventKey(from.u128()?) };
        let organizations = from.array(|from| from.uuid().map(OrgId))?;
        let platforms = from.array(|from| from.uuid().map(OrgId))?;
        let (times, identities, homes) = (from.array(Decoder::i64)?, from.array(Decoder::u128)?, from.array(Decoder::u32)?);
        let mut reports = Vec::new();
        let columns = organizations.into_iter().zip(platforms).zip(times.into_iter().zip(identities).zip(homes));
        for ((org, platform), ((at_ms, identity), own_home)) in columns {
            let identity = if identity == 0 { place.key } else { EventKey(identity) };
            let row = ReportPlace { home: if own_home == 0 { home } else { Home(own_home) }, org, at_ms, identity };
            reports.push((row, None));
            reports.extend((platform != org).then_some((row, Some(platform))));
        }
        Ok(Self { place, reports })
    }
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
