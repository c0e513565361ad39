//! Deletes expired months of events and reports, if the operator has set a limit (`TELEMETRY_EVENTS_KEEP`).
//!
//! Partitions are months of acceptance, so a month is deleted as a whole, when its last report is old enough. An event's row and its
//! reports' rows can be in different months. The event is deleted with the first of them; otherwise it would refer to missing reports, or a
//! copy of a report would get a second row.
//!
//! A writer deletes expired months when it takes over, before it reads the index, and takes over from itself when a month
//! expires. So earlier inserts can't arrive later, no block runs between the statements, and an interrupted deletion is
//! repeated before any block. Afterwards the writer doesn't store rows in expired months: a drop can't be fenced, so one that was
//! sent before a takeover may arrive long after it. An interrupted block may have left a report in two events; the report's row
//! stays if one of the events stays. The simulator in `store/src/simulation.rs` breaks each of these rules.

use super::epoch::Epoch;
use super::statements::{ERROR_PAUSE, Outcome, Parameters, Server, WriterExit};
use chrono::{DateTime, Datelike, TimeDelta, Utc};
use schemas::event_key::EventKey;
use schemas::ids::OrgId;
use schemas::site::Site;
use service_kit::crash_point;
use std::collections::HashSet;
use store::report::Home;
use store::row::{EventPlace, EventWrite, ReportPlace};
use store::row_binary::{Decoder, Encoder, Malformed};
use store::tables::{encode_event, encode_report};

/// Maximum events per deletion statement.
const MOST_EVENTS: u64 = 20_000;

/// Returns the first month to keep: the month before it ended more than `keep_days` ago. 0 days means no limit.
pub(super) fn first_month(keep_days: Option<u32>, now: DateTime<Utc>) -> Home {
    let Some(days) = keep_days.filter(|days| *days > 0) else { return Home(0) };
    let oldest = now - TimeDelta::days(days.into());
    Home(u32::try_from(oldest.year() * 100).unwrap_or(0) + oldest.month())
}

/// Deletes the months before `first_month`, with statements of this epoch and rows with this version, which must be unused.
///
/// # Errors
///
/// Fails if the epoch is fenced. Other failures are retried, because no block may be merged after half of a deletion.
pub(super) async fn delete_before(first_month: Home, (server, epoch, version): (&Server, &Epoch, u64)) -> Result<(), WriterExit> {
    if first_month == Home(0) {
        return Ok(());
    }
    let homes = server.read_with_retries(include_str!("sql/homes.sql"), &[]).await;
    let homes = Decoder(&homes).rows(Decoder::u32)?.into_iter().map(Home);
    let expired: Vec<Home> = homes.filter(|home| home.is_expired(first_month)).collect();
    // If a deletion was interrupted before this, the expired months still exist.
    if expired.is_empty() {
        return Ok(());
    }
    delete_divided(first_month, (server, epoch, version)).await?;
    for home in expired {
        drop_month(home, (server, epoch)).await;
        tracing::info!(month = home.0, "deleted a month of events");
    }
    Ok(())
}

async fn drop_month(home: Home, (server, epoch): (&Server, &Epoch)) {
    let parameters = [("home", home.0.to_string())];
    let all =
        [include_str!("sql/drop_reports.sql"), include_str!("sql/drop_events.sql"), include_str!("sql/drop_failed_fetches.sql")];
    for sql in all {
        loop {
            match server.run(&epoch.slot, sql, &parameters, &[]).await {
                Outcome::Done => break,
                // The previous statement has responded but is still in the process list.
                Outcome::SlotInUse => {}
                outcome => {
                    tracing::error!(month = home.0, "failed to delete a month of events, retrying: {outcome:?}");
                    tokio::time::sleep(ERROR_PAUSE).await;
                }
            }
            server.wait_for_slot(&epoch.slot).await;
        }
        crash_point::reached("after_drop");
    }
}

/// Deletes events that have parts both before and after the start of this month.
async fn delete_divided(first_month: Home, (server, epoch, version): (&Server, &Epoch, u64)) -> Result<(), WriterExit> {
    let parameters = [("first_month", first_month.0.to_string()), ("most", MOST_EVENTS.to_string())];
    let mut divided = read_divided(server, &parameters).await?;
    if divided.is_empty() {
        return Ok(());
    }
    // Deleting divided events doesn't change other events, so read this once.
    let surviving = server.read_with_retries(include_str!("sql/surviving_reports.sql"), &parameters[..1]).await;
    let surviving: HashSet<u128> = Decoder(&surviving).rows(Decoder::u128)?.into_iter().collect();
    let number = [("epoch", epoch.number.to_string())];
    while !divided.is_empty() {
        let (mut reports, mut events) = (Encoder::default(), Encoder::default());
        for event in &divided {
            let deleted = event.reports.iter().filter(|(place, _)| !surviving.contains(&place.identity.0));
            deleted.for_each(|(place, issuer)| encode_report(place, *issuer, None, version, &mut reports));
            encode_event(&EventWrite::Tombstone(event.place.clone()), version, &mut events);
        }
        // Delete the reports first, because as long as the event exists, it is found again.
        server.run_until_done(epoch, include_str!("sql/insert_reports.sql"), &number, &reports.0).await?;
        crash_point::reached("after_divided_reports");
        server.run_until_done(epoch, include_str!("sql/insert_events.sql"), &number, &events.0).await?;
        crash_point::reached("after_divided_events");
        tracing::info!(events = divided.len(), "deleted events with a part in an expired month");
        divided = read_divided(server, &parameters).await?;
    }
    Ok(())
}

async fn read_divided(server: &Server, parameters: Parameters<'_>) -> Result<Vec<Divided>, WriterExit> {
    let response = server.read_with_retries(include_str!("sql/divided.sql"), parameters).await;
    Ok(Decoder(&response).rows(Divided::decode)?)
}

/// An event and its reports' rows. Issuers' rows have an organization.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_expire_after_their_last_day() {
        let first_month = |days, now: &str| first_month(days, now.parse().unwrap()).0;
        assert_eq!(first_month(Some(30), "2026-03-02T23:59:59Z"), 202_601);
        assert_eq!(first_month(Some(30), "2026-03-03T00:00:00Z"), 202_602);
        assert_eq!(first_month(Some(1), "2026-01-02T00:00:00Z"), 202_601);
        assert_eq!(first_month(Some(0), "2026-01-02T00:00:00Z"), 0);
        assert_eq!(first_month(None, "2026-01-02T00:00:00Z"), 0);
    }

    #[test]
    fn invalid_months_never_expire() {
        assert!(Home(202_512).is_expired(Home(202_601)));
        assert!(!Home(202_601).is_expired(Home(202_601)) && !Home(0).is_expired(Home(202_601)));
    }
}
