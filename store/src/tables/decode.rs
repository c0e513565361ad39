//! Decodes rows of `events`.

use super::{HAS_OWN_URL, IS_OWNERS, SIGNATURE_SHIFT};
use crate::facts::{Facts, Fetch, ReportFacts};
use crate::report::{Acceptance, Home, Observer};
use crate::row::{Entry, EventRow};
use crate::row_binary::{Decoder, Malformed};
use schemas::event::SourceRole;
use schemas::event_key::EventKey;
use schemas::ids::{DrainId, OrgId};
use schemas::signature::SignatureResult;
use schemas::site::Site;
use std::sync::Arc;

/// Decodes rows with the columns of [`FETCHED_COLUMNS`](super::FETCHED_COLUMNS), without the deleted ones.
///
/// `reports.details` starts with a byte of flags: whether the report's URL differs from the event's, whether the report is the owner's, and
/// the result for its signature. An event with one report has that report's other facts in its own columns. An event with several reports
/// has the role, platform, agent and session of each in `reports`, and the rest in `reports.details`: the URL if it differs, the link's
/// site, and the fetch if there is one.
pub fn decode_events(response: &[u8]) -> Result<Vec<EventRow<Facts>>, Malformed> {
    Ok(Decoder(response).rows(event)?.into_iter().flatten().collect())
}

fn event(from: &mut Decoder<'_>) -> Result<Option<EventRow<Facts>>, Malformed> {
    let site = Some(from.text()?).filter(|site| !site.is_empty()).map(|site| Site::from_stored(&site));
    let (key, home) = (EventKey(from.u128()?), Home(from.u32()?));
    let own =
        OwnValues { event_type: from.text()?, details: Details { url: from.text()?, link_site: from.text()?, fetch: None } };
    let fetch = fetch(from)?;
    let columns = Columns::take(from)?;
    if from.u8()? != 0 {
        return Ok(None);
    }
    let reports = (0..columns.organizations.len()).map(|n| columns.entry(n, (key, home), &own, &fetch));
    Ok(Some(EventRow { key, site, home, reports: reports.collect::<Result<_, _>>()? }))
}

struct OwnValues {
    event_type: String,
    details: Details,
}

#[derive(Clone)]
struct Details {
    url: String,
    link_site: String,
    fetch: Option<Fetch>,
}

impl Details {
    fn take(mut from: Decoder<'_>, has_own_url: bool, url_of_event: &str) -> Result<Self, Malformed> {
        let url = if has_own_url { from.text()? } else { url_of_event.to_owned() };
        let link_site = from.text()?;
        let fetch = if from.is_empty() { None } else { Some(fetch(&mut from)?) };
        Ok(Self { url, link_site, fetch })
    }
}

fn fetch(from: &mut Decoder<'_>) -> Result<Fetch, Malformed> {
    let (bot, operator, purpose) = (from.text()?, from.text()?, from.text()?);
    Ok(Fetch { bot, operator, purpose, verified: from.u8()?, status: from.u16()?, bytes: from.u64()? })
}

struct Columns<'a> {
    organizations: Vec<OrgId>,
    platforms: Vec<OrgId>,
    roles: Vec<u8>,
    drains: Vec<uuid::Uuid>,
    agents: Vec<String>,
    sessions: Vec<u64>,
    times: Vec<i64>,
    received: Vec<u64>,
    identities: Vec<u128>,
    homes: Vec<u32>,
    details: Vec<&'a [u8]>,
}

impl<'a> Columns<'a> {
    fn take(from: &mut Decoder<'a>) -> Result<Self, Malformed> {
        let columns = Self {
            organizations: from.array(|from| from.uuid().map(OrgId))?,
            platforms: from.array(|from| from.uuid().map(OrgId))?,
            roles: from.array(Decoder::u8)?,
            drains: from.array(Decoder::uuid)?,
            agents: from.array(Decoder::text)?,
            sessions: from.array(Decoder::u64)?,
            times: from.array(Decoder::i64)?,
            received: from.array(Decoder::u64)?,
            identities: from.array(Decoder::u128)?,
            homes: from.array(Decoder::u32)?,
            details: from.array(Decoder::bytes)?,
        };
        let lengths = [columns.platforms.len(), columns.roles.len(), columns.drains.len(), columns.agents.len()];
        let others = [columns.sessions.len(), columns.times.len(), columns.received.len(), columns.identities.len()];
        let all = lengths.into_iter().chain(others).chain([columns.homes.len(), columns.details.len()]);
        let is_even = all.into_iter().all(|length| length == columns.organizations.len());
        is_even.then_some(columns).ok_or(Malformed)
    }

    fn entry(&self, n: usize, (key, home): (EventKey, Home), own: &OwnValues, fetch: &Fetch) -> Result<Entry<Facts>, Malformed> {
        let identity = if self.identities[n] == 0 { key } else { EventKey(self.identities[n]) };
        let mut from = Decoder(self.details[n]);
        let flags = from.u8()?;
        let details = if self.details.len() == 1 {
            Details { fetch: Some(fetch).filter(|fetch| **fetch != Fetch::default()).cloned(), ..own.details.clone() }
        } else {
            Details::take(from, flags & HAS_OWN_URL != 0, &own.details.url)?
        };
        let facts = ReportFacts {
            event_type: own.event_type.clone(),
            url: details.url,
            role: self.roles[n],
            platform: self.platforms[n],
            agent: self.agents[n].clone(),
            session: self.sessions[n],
            link_site: details.link_site,
            fetch: details.fetch,
            is_owners: flags & IS_OWNERS != 0,
            signature: SignatureResult::from_code(flags >> SIGNATURE_SHIFT & 3),
        };
        let drain = Some(self.drains[n]).filter(|drain| !drain.is_nil()).map(DrainId);
        Ok(Entry {
            accepted: Acceptance::from_stored(self.received[n], identity),
            observer: Observer { org: self.organizations[n], role: SourceRole::from_code(self.roles[n]), drain },
            at_ms: self.times[n],
            home: if self.homes[n] == 0 { home } else { Home(self.homes[n]) },
            facts: Arc::new(facts),
        })
    }
}
