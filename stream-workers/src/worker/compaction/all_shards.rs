//! What metrics tell of all shards together.
//!
//! Must be what one server has where there is one.

use crate::metrics;
use service_kit::retrieval_index::Base;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What is told of one shard.
pub(super) struct OfShard {
    shard: usize,
    of_each: Arc<Mutex<Vec<Shard>>>,
}

#[derive(Clone, Copy, Default)]
struct Shard {
    parts: usize,
    rows: u64,
    oldest: Duration,
    base: Base,
}

impl OfShard {
    /// One for each of so many.
    pub(super) fn of_each(shards: usize) -> impl Iterator<Item = Self> {
        let of_each = Arc::new(Mutex::new(vec![Shard::default(); shards]));
        (0..shards).map(move |shard| Self { shard, of_each: Arc::clone(&of_each) })
    }

    pub(super) fn delta(&self, parts: usize, rows: u64, oldest: Duration) {
        let all = self.note(|shard| *shard = Shard { parts, rows, oldest, ..*shard });
        let oldest = all.iter().map(|shard| shard.oldest).max().unwrap_or_default();
        metrics::delta(all.iter().map(|shard| shard.parts).sum(), all.iter().map(|shard| shard.rows).sum(), oldest);
    }

    pub(super) fn base(&self, base: Base) {
        let all = self.note(|shard| shard.base = base);
        let Base { rows, young, merges_per_row } = together(&all);
        metrics::base(rows, young, merges_per_row);
    }

    fn note(&self, note: impl FnOnce(&mut Shard)) -> Vec<Shard> {
        let mut of_each = self.of_each.lock().unwrap_or_else(PoisonError::into_inner);
        of_each.get_mut(self.shard).map(note);
        of_each.clone()
    }
}

fn together(all: &[Shard]) -> Base {
    let written: f64 = all.iter().map(|Shard { base, .. }| base.merges_per_row * base.rows as f64).sum();
    let rows: u64 = all.iter().map(|shard| shard.base.rows).sum();
    let merges_per_row = if rows == 0 { 0.0 } else { written / rows as f64 };
    Base { rows, young: all.iter().map(|shard| shard.base.young).sum(), merges_per_row }
}
