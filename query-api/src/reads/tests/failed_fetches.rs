//! Log lines whose request returned no content: random copies, and the ones that count.

use super::reports::{BOTS, HOSTS};
use super::{HOUR_MS, NEW_YEAR_MS, random_time};
use crate::parameters::event_filter::Outcome;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use schemas::bots::Purpose;
use schemas::event_key::EventKey;
use schemas::ids::{DrainId, OrgId};
use schemas::log::FailedFetch;
use schemas::signature::{RecordedSignature, SignatureResult};
use schemas::site::Site;
use std::collections::BTreeMap;
use store::report::Acceptance;
use store::tables::FailedFetchRow;
use uuid::Uuid;

/// Returns up to 40 lines, each accepted one to three times within some months. Bot and status differ between copies, as if the bot table
/// had changed.
pub(super) fn random(random: &mut StdRng) -> Vec<FailedFetchRow> {
    let mut copies = Vec::new();
    for line in 0..random.random_range(0..40_u32) {
        let (host, at_ms) = (HOSTS[random.random_range(0..HOSTS.len())], random_time(random));
        for _ in 0..random.random_range(1..4) {
            let late_ms = HOUR_MS * [0, 1, 800, 1_600][random.random_range(0..4)];
            // Acceptance times are unique.
            let at_us = (NEW_YEAR_MS + late_ms) * 1_000 + copies.len() as i64;
            let place = random.random_range(0..4_096);
            let accepted = Acceptance { at_us, place, identity: EventKey(u128::from(line)) };
            copies.push(FailedFetchRow {
                organization: OrgId(Uuid::from_u128(1)),
                drain: random.random::<bool>().then(|| DrainId(Uuid::from_u128(7))),
                accepted,
                fetch: fetch(random, host, at_ms),
            });
        }
    }
    copies.shuffle(random);
    copies
}

fn fetch(random: &mut StdRng, host: &str, at_ms: i64) -> FailedFetch {
    let (bot, operator, purpose) = BOTS[random.random_range(1..BOTS.len())];
    FailedFetch {
        own_key: EventKey(0),
        at_ms,
        site: Site::from_domain(host).map(|site| site.as_str().to_owned()).unwrap_or_default(),
        path: (*["/", "/blog/a", "/blog/", "/b%C3%A4/a", "/bl_g/a"].choose(random).unwrap()).to_owned(),
        bot: bot.to_owned(),
        operator: operator.to_owned(),
        purpose: if purpose == "user" { Purpose::User } else { Purpose::Training },
        verified: [None, Some(false), Some(true)][random.random_range(0..3)],
        status: *[0, 301, 304, 403, 404, 500].choose(random).unwrap(),
        signature: recorded(*SignatureResult::ALL.choose(random).unwrap()),
    }
}

fn recorded(result: SignatureResult) -> Option<Box<RecordedSignature>> {
    let signature = RecordedSignature { result, reason: String::new(), signed_by: String::new(), proof: None };
    (result != SignatureResult::None).then(|| Box::new(signature))
}

pub(super) fn signature(line: &FailedFetch) -> SignatureResult {
    line.signature.as_ref().map_or(SignatureResult::None, |signature| signature.result)
}

/// Returns the first accepted copy of each line.
pub(super) fn counted(copies: &[FailedFetchRow]) -> Vec<&FailedFetch> {
    let mut first: BTreeMap<EventKey, &FailedFetchRow> = BTreeMap::new();
    for copy in copies {
        let of_line = first.entry(copy.accepted.identity).or_insert(copy);
        if copy.accepted.at_us < of_line.accepted.at_us {
            *of_line = copy;
        }
    }
    first.into_values().map(|row| &row.fetch).collect()
}

pub(super) fn outcome(fetch: &FailedFetch) -> Outcome {
    if fetch.status == 304 { Outcome::Revalidation } else { Outcome::Failed }
}
