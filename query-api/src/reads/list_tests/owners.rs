//! An owner's list and single events.

use super::model::{one_event, owned, owners_events};
use super::reports::{IDS, org, random_copies};
use super::{Rounds, compare_pages, random_period};
use crate::access::visibility::Visibility;
use crate::parameters::ReadParameters;
use crate::parameters::cursor::Cursor;
use crate::parameters::event_filter::EventFilter;
use crate::parameters::paging::Paging;
use crate::parameters::period::Period;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use schemas::ids::OrgId;
use schemas::problem::Code;
use uuid::Uuid;

fn visibility(owner: usize) -> Visibility {
    Visibility::for_all_domains(OrgId(Uuid::from_u128(100 + owner as u128)), &owned(owner))
}

fn random_filter(random: &mut StdRng) -> EventFilter {
    let platform = org(random.random_range(1..5)).to_string();
    // `reads::tests::filters` compares the other filters, because these reports don't contain fetch details.
    let values: [(&str, &[&str]); 3] = [
        ("event_type", &["content_retrieved", "content_engaged", "turn_started", "content_cited"]),
        ("agent_id", &["", "alpha", "beta"]),
        ("platform_id", &[&platform]),
    ];
    let mut asked = Vec::new();
    for (name, values) in values {
        asked.extend(random.random_bool(0.3).then(|| (name, *values.choose(random).unwrap())));
    }
    EventFilter::parse(&ReadParameters::new(asked)).ok().unwrap()
}

#[tokio::test]
async fn owner_pages_equal_the_model() {
    let mut listed = 0;
    let rounds = Rounds::new().await;
    rounds
        .compare(async |reads, copies, random, trace| {
            for owner in 0..2 {
                let (period, seen) = (random_period(random), visibility(owner));
                for filter in [EventFilter::default(), random_filter(random)] {
                    let expected = owners_events(owner, copies, &period, &filter);
                    let trace = format!("owner {owner} {period:?} {filter:?} {trace}");
                    let read = async |at, walk: &_| reads.owners_events(&seen, &period, &filter, (at, walk)).await;
                    compare_pages(&expected, random, &trace, read).await;
                    listed += expected.len();
                }
            }
            listed > 50
        })
        .await;
}

#[tokio::test]
async fn single_events_equal_the_model() {
    let (mut shown, mut reports) = (0, 0);
    let rounds = Rounds::new().await;
    rounds
        .compare(async |reads, copies, random, trace| {
            let keys = (1..5).chain((1..9).map(|identity| 1 << 100 | identity)).map(|key| Uuid::from_u128(key).to_string());
            let ids: Vec<String> = IDS.iter().map(|id| (*id).to_owned()).chain(keys).collect();
            for owner in 0..2 {
                let (period, seen) = (random_period(random), visibility(owner));
                for id in ids.iter().filter(|id| !id.is_empty()) {
                    let expected = one_event(owner, copies, &period, id);
                    let found = reads.owners_event(&seen, &period, id).await.unwrap();
                    let found = found.map(|found| (found.of_this_id, found.event, found.claimed_and_seen, found.reports));
                    assert_eq!(found, expected, "owner {owner} id {id} {period:?} {trace}");
                    shown += usize::from(expected.is_some());
                    reports += expected.map_or(0, |(_, _, _, reports)| reports.len());
                }
            }
            shown > 20 && reports > shown
        })
        .await;
}

#[tokio::test]
async fn missing_reports_return_503() {
    let mut rounds = Rounds::new().await;
    let copies = loop {
        let copies = random_copies(&mut rounds.random);
        if !owners_events(0, &copies, &Period::default(), &EventFilter::default()).is_empty() {
            break copies;
        }
    };
    rounds.world.accept(&copies).await;
    let (seen, walk) = (visibility(0), Cursor::default());
    let at = Paging { limit: 1_000, offset: 0 };
    let (period, filter) = (Period::default(), EventFilter::default());
    assert!(rounds.reads.owners_events(&seen, &period, &filter, (at, &walk)).await.is_ok());
    rounds.world.delete_reports().await;
    let refused = rounds.reads.owners_events(&seen, &period, &filter, (at, &walk)).await.err();
    assert_eq!(refused.map(|error| error.code()), Some(Code::Unavailable));
}
