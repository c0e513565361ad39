//! Compaction: the reports of delta parts are merged into the base, and then the parts are dropped.
//!
//! Must drop a part only after the base is seen to have all of its reports: seen means that the attempt's own row is there. Must not
//! run two attempts on one store at a time: the server holds all compactors to that, because their statements have one query_id.

use super::client;
use crate::crash_point;
use crate::settings::ClickHouseSettings;
use clickhouse::error::Error;
use schemas::store::COMPACT;
use std::ops::RangeInclusive;
use std::time::Duration;
use tokio::time::sleep;

/// Delta rows of one attempt at most: what mostly fits into the memory that an attempt may use, and into one block.
pub const STEP_ROWS: u64 = 200_000;

/// Bytes of memory that one attempt may use.
const MEMORY: u64 = 4_000_000_000;

/// How often the keys of an attempt are halved. What needs more memory than a thousandth of them should is not helped by fewer keys.
const HALVINGS: u32 = 10;

/// How often an attempt is sent while another one is at work.
const TRIES: u32 = 4;
/// Before it is sent again.
const PAUSE: Duration = Duration::from_millis(50);

/// Of an attempt. One block, whatever its size, so that all of it is there or nothing; and never dropped as a repeat.
const SETTINGS: [(&str, &str); 8] = [
    ("max_threads", "1"),
    ("max_insert_threads", "1"),
    ("min_insert_block_size_rows", "1000000000"),
    ("min_insert_block_size_bytes", "1000000000000"),
    ("insert_deduplicate", "0"),
    ("deduplicate_insert_select", "disable"),
    ("async_insert", "0"),
    ("max_execution_time", "600"),
];

/// How far the store has merged the base.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Base {
    /// Its rows, replaced ones included.
    pub rows: u64,
    /// Those of them in parts that no merge has written yet.
    pub young: u64,
    /// How often merges have written a row, at most and on average.
    pub merges_per_row: f64,
}

impl Base {
    /// Of its parts by name, and their rows.
    fn of(parts: impl IntoIterator<Item = (String, u64)>) -> Self {
        let (mut base, mut written) = (Self::default(), 0);
        for (name, rows) in parts {
            // How many merges one upon the other made it: each wrote its rows.
            let level = name.split('_').nth(3).and_then(|level| level.parse().ok()).unwrap_or(0_u64);
            base.rows += rows;
            base.young += if level == 0 { rows } else { 0 };
            written += level * rows;
        }
        base.merges_per_row = if base.rows == 0 { 0.0 } else { written as f64 / base.rows as f64 };
        base
    }
}

/// A part of the delta.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeltaPart {
    /// Its name, never given again.
    pub name: String,
    /// How many reports it has.
    pub rows: u64,
}

impl DeltaPart {
    /// The numbers of its inserts, first and last; parts of one table never share one.
    pub fn blocks(&self) -> Option<(u64, u64)> {
        let mut fields = self.name.split('_').skip(1).map(str::parse);
        Some((fields.next()?.ok()?, fields.next()?.ok()?))
    }
}

/// What came of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The base has the reports for good; so many rows of it were written.
    Covered {
        /// Rows of the base that changed.
        written: u64,
    },
    /// Another compaction is at work or was there first, or this one was not seen to be done: nothing may be dropped.
    Lost,
}

/// What came of all attempts that some parts took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Covered {
    /// Rows of the base that changed.
    pub written: u64,
    /// The number of the last attempt.
    pub epoch: u64,
}

/// Compacts one store. Any number may do so at the same time.
#[derive(Clone)]
pub struct Compactor {
    client: clickhouse::Client,
    /// The same for every compactor of a database, on one server.
    query_id: String,
    memory: u64,
}

impl Compactor {
    /// Of this store.
    pub fn connect(settings: &ClickHouseSettings) -> anyhow::Result<Self> {
        Ok(Self { client: client(settings)?, query_id: format!("compact-{}", settings.clickhouse_database), memory: MEMORY })
    }

    /// The same whose attempts may use so many bytes of memory.
    #[must_use]
    pub fn with_memory(self, memory: u64) -> Self {
        Self { memory, ..self }
    }

    /// The number of the last compaction; 0 before the first.
    pub async fn epoch(&self) -> Result<u64, Error> {
        let statement = "SELECT max(revision) FROM retrieval_index WHERE tier = 'base' AND site = ''";
        self.client.query(statement).fetch_one().await
    }

    /// The parts of the delta, the oldest inserts first.
    pub async fn parts(&self) -> Result<Vec<DeltaPart>, Error> {
        let found = self.parts_of("delta").await?;
        let mut parts: Vec<_> = found.into_iter().map(|(name, rows)| DeltaPart { name, rows }).collect();
        parts.sort_by_key(DeltaPart::blocks);
        Ok(parts)
    }

    /// How far the base is merged.
    pub async fn base(&self) -> Result<Base, Error> {
        Ok(Base::of(self.parts_of("base").await?))
    }

    async fn parts_of(&self, tier: &str) -> Result<Vec<(String, u64)>, Error> {
        let statement = "SELECT toString(_part) AS name, count() FROM retrieval_index WHERE tier = ? GROUP BY name";
        self.client.query(statement).bind(tier).fetch_all().await
    }

    /// One attempt, as the one that follows compaction `epoch`: merges the reports of these parts whose lower half of the key is
    /// in `keys`. A part that is gone has none.
    pub async fn attempt(&self, epoch: u64, parts: &[DeltaPart], keys: RangeInclusive<u64>) -> Result<Attempt, Error> {
        // Of this attempt alone: the server may still be at work on an earlier one whose answer was lost.
        let compactor = uuid::Uuid::new_v4().as_u64_pair().0;
        crash_point::reached("before_compaction");
        for _ in 0..TRIES {
            match self.insert(epoch, compactor, parts, keys.clone()).await {
                // Another one's, or the one before of this compactor, whose answer comes a moment before its end.
                Err(error) if error.to_string().contains("(QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING)") => sleep(PAUSE).await,
                Err(error) => return Err(error),
                Ok(()) => {
                    crash_point::reached("after_compaction_before_drop");
                    return self.seen(epoch, compactor).await;
                }
            }
        }
        Ok(Attempt::Lost)
    }

    /// The statement itself, by a compactor of this number; tells nothing of what came of it.
    pub async fn insert(&self, epoch: u64, compactor: u64, parts: &[DeltaPart], keys: RangeInclusive<u64>) -> Result<(), Error> {
        let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
        let statement = self.client.query(COMPACT).param("epoch", epoch).param("compactor", compactor);
        let statement = statement.param("parts", names).param("low", *keys.start()).param("high", *keys.end());
        let statement = SETTINGS.iter().fold(statement, |statement, (name, value)| statement.with_setting(*name, *value));
        let statement = statement.with_setting("max_memory_usage", self.memory.to_string());
        statement.with_setting("query_id", self.query_id.clone()).execute().await
    }

    /// Whether the base has what this compactor inserted. A row that a later compaction has replaced is not seen, and the
    /// parts are compacted once more, to no effect.
    async fn seen(&self, epoch: u64, compactor: u64) -> Result<Attempt, Error> {
        let statement = "SELECT countIf(site = ''), countIf(site != '') FROM retrieval_index \
            WHERE tier = 'base' AND revision = ? AND compactor = ?";
        let seen = self.client.query(statement).bind(epoch + 1).bind(compactor).fetch_one();
        let (own, written): (u64, u64) = seen.await?;
        Ok(if own > 0 { Attempt::Covered { written } } else { Attempt::Lost })
    }

    /// Drops a part whose reports the base has. One that has been merged away meanwhile is left alone: what it became is
    /// compacted next.
    pub async fn drop_part(&self, part: &DeltaPart) -> Result<(), Error> {
        crash_point::reached("before_drop_of_compacted_part");
        let statement = format!("ALTER TABLE retrieval_index DROP PART '{}'", part.name);
        match self.client.query(&statement).execute().await {
            Err(error) if error.to_string().contains("(NO_SUCH_DATA_PART)") => Ok(()),
            done => done,
        }
    }

    /// The ranges of keys in which parts of so many rows are compacted.
    pub fn slices(rows: u64) -> Vec<RangeInclusive<u64>> {
        let count = rows.div_ceil(STEP_ROWS).max(1);
        let width = u64::MAX / count;
        let end = |slice: u64| if slice + 1 == count { u64::MAX } else { (slice + 1) * width - 1 };
        (0..count).map(|slice| slice * width..=end(slice)).collect()
    }

    /// Compacts and drops everything that is in the delta now; what is inserted meanwhile may stay.
    pub async fn compact_all(&self) -> Result<(), Error> {
        let Some(last) = self.parts().await?.iter().filter_map(DeltaPart::blocks).map(|(_, last)| last).max() else {
            return Ok(());
        };
        loop {
            let mut parts = self.parts().await?;
            parts.retain(|part| part.blocks().is_some_and(|(first, _)| first <= last));
            if parts.is_empty() {
                return Ok(());
            }
            if self.cover(self.epoch().await?, &parts).await?.is_some() {
                for part in &parts {
                    self.drop_part(part).await?;
                }
            } else {
                sleep(PAUSE).await;
            }
        }
    }

    /// Merges all of these parts after compaction `epoch`, by ranges of keys when they are too many rows for one attempt, and by halves
    /// of a range that takes more memory than there is. None when one was lost: nothing may be dropped.
    pub async fn cover(&self, epoch: u64, parts: &[DeltaPart]) -> Result<Option<Covered>, Error> {
        let mut covered = Covered { written: 0, epoch };
        let slices = Self::slices(parts.iter().map(|part| part.rows).sum());
        let mut waiting: Vec<_> = slices.into_iter().rev().map(|keys| (keys, 0)).collect();
        while let Some((keys, halved)) = waiting.pop() {
            match self.attempt(covered.epoch, parts, keys.clone()).await {
                Ok(Attempt::Covered { written }) => {
                    covered = Covered { written: covered.written + written, epoch: covered.epoch + 1 };
                }
                Ok(Attempt::Lost) => return Ok(None),
                Err(error) if is_too_large(&error) && halved < HALVINGS => {
                    tracing::info!("a compaction takes half of its keys at a time: {error}");
                    waiting.extend(halves(&keys).map(|keys| (keys, halved + 1)));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Some(covered))
    }
}

/// Whether it needs more memory than it may have, and not whether the server has none left.
fn is_too_large(error: &Error) -> bool {
    error.to_string().contains("Query memory limit")
}

/// The upper half of a range, and the lower one.
fn halves(keys: &RangeInclusive<u64>) -> [RangeInclusive<u64>; 2] {
    let middle = keys.start().midpoint(*keys.end());
    [middle + 1..=*keys.end(), *keys.start()..=middle]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_cover_every_key_once() {
        for rows in [0, 1, STEP_ROWS, STEP_ROWS + 1, 10 * STEP_ROWS, 1_000 * STEP_ROWS + 7] {
            let slices = Compactor::slices(rows);
            assert_eq!(slices.len() as u64, rows.div_ceil(STEP_ROWS).max(1));
            assert_eq!((*slices[0].start(), *slices[slices.len() - 1].end()), (0, u64::MAX));
            for pair in slices.windows(2) {
                assert_eq!(*pair[0].end() + 1, *pair[1].start());
            }
        }
    }

    #[test]
    fn halves_of_a_range_have_each_of_its_keys_once() {
        for keys in [0..=1_023, 6..=8, 0..=u64::MAX, u64::MAX - 1..=u64::MAX] {
            let [upper, lower] = halves(&keys);
            assert_eq!((lower.start(), *lower.end() + 1, upper.end()), (keys.start(), *upper.start(), keys.end()));
            assert!(!upper.is_empty() && !lower.is_empty(), "{keys:?}");
        }
    }

    #[test]
    fn parts_say_how_far_the_base_is_merged() {
        let parts = [("0_1_1_0", 10), ("0_2_5_1", 20), ("0_6_90_4_91", 10)].map(|(name, rows)| (name.to_owned(), rows));
        assert_eq!(Base::of(parts), Base { rows: 40, young: 10, merges_per_row: 1.5 });
        assert_eq!(Base::of([]), Base::default());
    }

    #[test]
    fn a_part_says_which_inserts_it_has() {
        let part = |name: &str| DeltaPart { name: name.to_owned(), rows: 1 };
        assert_eq!(part("1_7_12_3").blocks(), Some((7, 12)));
        assert_eq!(part("1_7_12_3_20").blocks(), Some((7, 12)), "a mutated part has one more number");
        assert_eq!(part("else").blocks(), None);
    }
}
