//! An owner's list and single events.

use super::model::{one_event, owned, owners_events};
use super::world::{IDS, org};
use super::{Rounds, compare_pages, random_period};
use crate::access::visibility::Visibility;
use crate::parameters::event_filter::EventFilter;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use schemas::ids::OrgId;
use uuid::Uuid;

fn visibility(owner: usize) -> Visibility {
    Visibility::of_everything(OrgId(Uuid::from_u128(100 + owner as u128)), &owned(owner))
}

fn random_filter(random: &mut StdRng) -> EventFilter {
    let types = ["content_retrieved", "content_engaged", "turn_started", "content_cited"];
    EventFilter {
        event_type: random.random_bool(0.3).then(|| types.choose(random).copied().unwrap().to_owned()),
        agent_id: random.random_bool(0.3).then(|| ["", "alpha", "beta"].choose(random).copied().unwrap().to_owned()),
        platform_id: random.random_bool(0.3).then(|| org(random.random_range(1..5))),
    }
}

#[tokio::test]
async fn owners_pages_equal_the_model() {
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
            let keys = [1, 2, 3, 4, 1 << 100 | 1, 1 << 100 | 2, 1 << 100 | 3].map(|key| Uuid::from_u128(key).to_string());
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
