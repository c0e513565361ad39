//! Compactions form one chain, whoever runs them: what another has overtaken inserts nothing and drops nothing.

use super::oracle::Store;
use service_kit::retrieval_index::{Attempt, Compactor};

const ALL: std::ops::RangeInclusive<u64> = 0..=u64::MAX;

#[tokio::test(flavor = "multi_thread")]
async fn of_two_compactions_after_the_same_one_only_one_is_ever_inserted() {
    let store = Store::fresh().await;
    for seed in 1..=10 {
        store.insert(200, 2 * seed, 100).await;
        let older = store.parts().await;
        store.insert(200, 2 * seed + 1, 100).await;
        let newer: Vec<_> = store.parts().await.into_iter().filter(|part| !older.contains(part)).collect();
        let epoch = store.compactor.epoch().await.unwrap();
        let (one, other) = tokio::join!(store.compactor.attempt(epoch, &older, ALL), store.compactor.attempt(epoch, &newer, ALL));
        let covered = [one.unwrap(), other.unwrap()].map(|attempt| attempt != Attempt::Lost);
        assert_ne!(covered, [true, true], "at {epoch}");
        assert_ne!(covered, [false, false], "at {epoch}: one of them goes in");
        assert_eq!(store.compactor.epoch().await.unwrap(), epoch + 1);
        let written =
            format!("SELECT countDistinct(compactor) FROM retrieval_index WHERE tier = 'base' AND revision = {}", epoch + 1);
        assert_eq!(store.admin.query(&written).fetch_one::<u64>().await.unwrap(), 1, "at {epoch}");
        for part in [older, newer].iter().zip(covered).filter(|(_, covered)| *covered).flat_map(|(parts, _)| parts) {
            store.compactor.drop_part(part).await.unwrap();
        }
        store.agrees("after both").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_that_comes_long_after_others_inserts_nothing_also_when_their_rows_are_replaced() {
    let store = Store::fresh().await;
    store.insert(300, 1, 100).await;
    let (parts, epoch) = (store.parts().await, store.compactor.epoch().await.unwrap());
    for seed in 2..5 {
        store.insert(300, seed, 100).await;
        store.compactor.compact_all().await.unwrap();
        // The rows of the first compaction are replaced and gone, and what came of it can no longer be seen.
        store.run("OPTIMIZE TABLE retrieval_index FINAL").await;
        let (base, last) = (store.base().await, store.compactor.epoch().await.unwrap());
        assert_eq!(store.compactor.attempt(epoch, &parts, ALL).await.unwrap(), Attempt::Lost);
        assert_eq!((store.base().await, store.compactor.epoch().await.unwrap()), (base, last));
        store.agrees("after the late one").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_whose_answer_was_lost_does_not_pass_for_the_next_one_of_the_same_process() {
    let store = Store::fresh().await;
    store.insert(200, 1, 100).await;
    let before = store.parts().await;
    store.insert(200, 2, 100).await;
    let both = store.parts().await;
    // The first attempt goes in after the second was sent.
    store.compactor.insert(0, 7, &before, ALL).await.unwrap();
    assert_eq!(store.compactor.attempt(0, &both, ALL).await.unwrap(), Attempt::Lost, "it has other parts");
    store.agrees("after both").await;
    store.compactor.compact_all().await.unwrap();
    store.agrees("once compacted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn compactors_of_one_store_work_beside_each_other_and_beside_inserts() {
    let store = Store::fresh().await;
    let inserts = async {
        for seed in 0..25 {
            store.insert(120, seed, 200).await;
        }
    };
    let compactions = async {
        let compactors = [(); 3].map(|()| Compactor::connect(&store.settings).unwrap());
        for _ in 0..8 {
            let [one, two, three] = &compactors;
            let done = tokio::join!(one.compact_all(), two.compact_all(), three.compact_all());
            for done in [done.0, done.1, done.2] {
                done.unwrap();
            }
            // Each statement of a read sees inserts that the other does not: compared are reads of a store that rests.
        }
    };
    tokio::join!(inserts, compactions);
    store.agrees("at the end").await;
    store.compactor.compact_all().await.unwrap();
    assert_eq!(store.parts().await, []);
    store.agrees("compacted").await;
}
