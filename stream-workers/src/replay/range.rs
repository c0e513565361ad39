//! The part of the log that a replay reads: `--from` and `--to`, as times or offsets. Missing parts of the log are reported, never silently
//! skipped.

use crate::consume::topic_reader::{OffsetRange, TopicReader};
use anyhow::bail;
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use std::str::FromStr;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// The record's timestamp in the log.
    Time(DateTime<Utc>),
    /// Offset by partition. Other partitions are not read.
    Offsets(BTreeMap<i32, i64>),
}

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(time) = DateTime::parse_from_rfc3339(text) {
            return Ok(Self::Time(time.to_utc()));
        }
        let pair = |pair: &str| {
            let (partition, offset) = pair.split_once(':')?;
            Some((partition.parse().ok()?, offset.parse().ok()?))
                .filter(|(partition, offset): &(i32, i64)| *partition >= 0 && *offset >= 0)
        };
        let pairs: Option<Vec<_>> = text.split(',').map(pair).collect();
        let unique =
            pairs.map(|pairs| (pairs.len(), BTreeMap::from_iter(pairs))).filter(|(named, offsets)| offsets.len() == *named);
        match unique {
            Some((_, offsets)) => Ok(Self::Offsets(offsets)),
            None => Err("use a time such as 2026-11-01T00:00:00Z, or offsets by partition such as 0:1200,3:77".to_owned()),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Range {
    pub(crate) parts: Vec<OffsetRange>,
    /// Partitions whose first records are missing, with their first remaining offset.
    pub(crate) gaps: Vec<(i32, i64)>,
}

impl Range {
    pub(crate) async fn find(reader: &TopicReader, from: Option<&Bound>, to: Option<&Bound>) -> anyhow::Result<Self> {
        let whole = reader.whole().await?;
        let (starts, ends) = (RangeEnds::query(reader, from, &whole).await?, RangeEnds::query(reader, to, &whole).await?);
        Self::within(&whole, &starts, &ends)
    }

    fn within(whole: &[OffsetRange], starts: &RangeEnds, ends: &RangeEnds) -> anyhow::Result<Self> {
        let mut range = Self { parts: Vec::new(), gaps: Vec::new() };
        let is_unknown = |named: &i32| !whole.iter().any(|part| part.partition == *named);
        if let Some(unknown) = starts.named().chain(ends.named()).find(is_unknown) {
            bail!("the log has no partition {unknown}; it has {}", whole.len());
        }
        for part in whole {
            let partition = part.partition;
            let Some(from) = starts.offset_for(part, part.from) else { continue };
            let Some(to) = ends.offset_for(part, part.to) else { continue };
            for (named, bound) in [("--from", from), ("--to", to)] {
                if !(part.from..=part.to).contains(&bound) {
                    bail!(
                        "{named} {partition}:{bound}: the log has partition {partition} from {} to {}; choose an offset in this range",
                        part.from,
                        part.to
                    );
                }
            }
            if from > to {
                bail!("partition {partition}: --from ({from}) is after --to ({to}); swap them");
            }
            // If the range starts with the log, it may have been meant to include older records.
            if part.from > 0 && from == part.from && !matches!(starts, RangeEnds::Offsets(_)) {
                range.gaps.push((partition, part.from));
            }
            range.parts.push(OffsetRange { partition, from, to });
        }
        Ok(range)
    }

    pub(crate) fn len(&self) -> u64 {
        self.parts.iter().map(OffsetRange::len).sum()
    }
}

/// One end of the range in every partition.
enum RangeEnds {
    Open,
    /// By time. In partitions without such a record, the end of the partition.
    Times(BTreeMap<i32, i64>),
    Offsets(BTreeMap<i32, i64>),
}

impl RangeEnds {
    async fn query(reader: &TopicReader, bound: Option<&Bound>, whole: &[OffsetRange]) -> anyhow::Result<Self> {
        Ok(match bound {
            None => Self::Open,
            Some(Bound::Offsets(offsets)) => Self::Offsets(offsets.clone()),
            Some(Bound::Time(time)) => {
                let partitions = whole.iter().map(|part| part.partition).collect();
                Self::Times(reader.offsets_at(partitions, time.timestamp_millis()).await?)
            }
        })
    }

    /// Returns a partition's offset: `open` without a bound, `None` if the partition isn't read.
    fn offset_for(&self, part: &OffsetRange, open: i64) -> Option<i64> {
        match self {
            Self::Open => Some(open),
            Self::Times(found) => Some(found.get(&part.partition).copied().unwrap_or(part.to).min(part.to)),
            Self::Offsets(named) => named.get(&part.partition).copied(),
        }
    }

    fn named(&self) -> impl Iterator<Item = i32> {
        let named = if let Self::Offsets(named) = self { Some(named) } else { None };
        named.into_iter().flat_map(|named| named.keys().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: [OffsetRange; 2] =
        [OffsetRange { partition: 0, from: 0, to: 10 }, OffsetRange { partition: 1, from: 5, to: 20 }];

    fn offsets(pairs: &[(i32, i64)]) -> RangeEnds {
        RangeEnds::Offsets(pairs.iter().copied().collect())
    }

    fn parts(starts: &RangeEnds, ends: &RangeEnds) -> Vec<(i32, i64, i64)> {
        let found = Range::within(&WHOLE, starts, ends).unwrap();
        found.parts.iter().map(|part| (part.partition, part.from, part.to)).collect()
    }

    #[test]
    fn parses_bounds_as_times_or_offsets() {
        let time: Bound = "2026-11-01T00:00:00+01:00".parse().unwrap();
        assert_eq!(time, Bound::Time("2026-10-31T23:00:00Z".parse().unwrap()));
        assert_eq!("0:12,3:7".parse(), Ok(Bound::Offsets([(0, 12), (3, 7)].into())));
        for bad in ["", "yesterday", "2026-11-01", "0", "0:", "0:1,", "0:1,0:2", "-1:2", "0:-2", "0:1;1:2"] {
            assert!(bad.parse::<Bound>().unwrap_err().contains("2026-11-01T00:00:00Z"), "{bad}");
        }
    }

    #[test]
    fn parts_are_between_the_bounds() {
        assert_eq!(parts(&RangeEnds::Open, &RangeEnds::Open), [(0, 0, 10), (1, 5, 20)]);
        assert_eq!(parts(&offsets(&[(1, 7)]), &RangeEnds::Open), [(1, 7, 20)], "other partitions are not read");
        assert_eq!(parts(&offsets(&[(0, 2), (1, 7)]), &offsets(&[(0, 2), (1, 9)])), [(0, 2, 2), (1, 7, 9)]);
        let (start, end) = (RangeEnds::Times([(0, 4)].into()), RangeEnds::Times([(0, 6), (1, 30)].into()));
        assert_eq!(parts(&start, &end), [(0, 4, 6), (1, 20, 20)], "all of partition 1 is older");
    }

    #[test]
    fn reports_missing_parts_of_the_log() {
        let refused = |starts: &RangeEnds, ends: &RangeEnds| Range::within(&WHOLE, starts, ends).unwrap_err().to_string();
        assert_eq!(refused(&offsets(&[(2, 0)]), &RangeEnds::Open), "the log has no partition 2; it has 2");
        let gone = refused(&offsets(&[(1, 4)]), &RangeEnds::Open);
        assert_eq!(gone, "--from 1:4: the log has partition 1 from 5 to 20; choose an offset in this range");
        assert!(refused(&RangeEnds::Open, &offsets(&[(0, 11)])).starts_with("--to 0:11: the log has"));
        assert!(refused(&offsets(&[(0, 5)]), &offsets(&[(0, 4)])).contains("is after --to"));
        assert_eq!(Range::within(&WHOLE, &RangeEnds::Open, &RangeEnds::Open).unwrap().gaps, [(1, 5)]);
        assert_eq!(Range::within(&WHOLE, &RangeEnds::Times([(0, 4), (1, 6)].into()), &RangeEnds::Open).unwrap().gaps, []);
    }
}
