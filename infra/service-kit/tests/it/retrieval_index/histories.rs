//! Random histories: inserts, compactions of any of the parts by any number of compactors, drops, merges; after every step each
//! figure is what it is by force.

use super::oracle::Store;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use service_kit::retrieval_index::{Attempt, DeltaPart};
use service_kit::testing::{random_seed, size};
use std::collections::BTreeSet;

/// What may be done next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Insert,
    Compact,
    /// A compaction that another one has overtaken.
    CompactLate,
    Drop,
    Merge,
}

const STEPS: [Step; 7] = [Step::Insert, Step::Insert, Step::Compact, Step::Compact, Step::CompactLate, Step::Drop, Step::Merge];

/// Some of the parts.
fn some(parts: Vec<DeltaPart>, random: &mut StdRng) -> Vec<DeltaPart> {
    parts.into_iter().filter(|_| random.random_bool(0.7)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_history_of_inserts_compactions_drops_and_merges_changes_a_figure() {
    let mut random = StdRng::seed_from_u64(random_seed());
    let (store, mut covered) = (Store::fresh().await, BTreeSet::new());
    for number in 0..size("TEST_STEPS", 15) {
        let step = *STEPS.choose(&mut random).unwrap();
        let epoch = store.compactor.epoch().await.unwrap();
        match step {
            Step::Insert => {
                let (reports, keys) = (*[1, 50, 400].choose(&mut random).unwrap(), *[30, 300].choose(&mut random).unwrap());
                store.insert(reports, random.random_range(0..1_000_000_000), keys).await;
            }
            Step::Compact => {
                let (parts, cut) = (some(store.parts().await, &mut random), random.random_range(0..u64::MAX));
                for keys in [0..=cut, cut + 1..=u64::MAX] {
                    let epoch = store.compactor.epoch().await.unwrap();
                    let attempt = store.compactor.attempt(epoch, &parts, keys).await.unwrap();
                    assert!(matches!(attempt, Attempt::Covered { .. }), "nobody else compacts");
                }
                covered.extend(parts.into_iter().map(|part| part.name));
            }
            Step::CompactLate if epoch > 0 => {
                let (parts, late) = (some(store.parts().await, &mut random), random.random_range(0..epoch));
                assert_eq!(store.compactor.attempt(late, &parts, 0..=u64::MAX).await.unwrap(), Attempt::Lost);
                assert_eq!(store.compactor.epoch().await.unwrap(), epoch, "what comes late inserts nothing");
            }
            Step::Drop => {
                for part in store.parts().await.iter().filter(|part| covered.contains(&part.name)) {
                    store.compactor.drop_part(part).await.unwrap();
                }
            }
            Step::CompactLate | Step::Merge => store.run("OPTIMIZE TABLE retrieval_index").await,
        }
        store.agrees(&format!("step {number}, {step:?}")).await;
    }
}
