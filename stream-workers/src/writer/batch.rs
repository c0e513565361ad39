//! The reports of some records, stored as one block, and the division of batches that are too large.

use crate::consume::partition_stats::CountsByPartition;
use crate::consume::{Block, DeadLetter, Offsets, Origin, QUARANTINED, named_buckets};
use crate::record::new_report::NewReport;
use schemas::shard::{Bucket, Shard, ShardTask};
use store::row_binary::Encoder;
use store::tables::FailedFetchRow;

/// The records of a block; empty for a replay.
#[derive(Default)]
pub(super) struct Records {
    pub(super) all: Vec<Origin>,
    /// The records of the failed fetches, in the same order.
    pub(super) of_failed_fetches: Vec<Origin>,
}

pub(super) struct Batch {
    pub(super) reports: Vec<NewReport>,
    /// Failed fetches in all of a block's records. Their rows depend only on the record, so the first half of a divided batch contains all
    /// of them.
    pub(super) failed_fetches: Vec<(Origin, FailedFetchRow)>,
    /// Records in the order of reading.
    pub(super) records: Vec<Origin>,
    pub(super) offsets: Offsets,
    pub(super) tally: CountsByPartition,
    /// Records that became dead letters, and the number of their events.
    letters: Vec<(Origin, u64)>,
}

/// Placeholder for the record of a replay's failed fetch.
const NO_RECORD: Origin = (-1, -1);

impl Batch {
    /// Selects the part of a block that a shard stores.
    pub(super) fn new(block: Block, records: Records, shard: Shard) -> Self {
        let Block { mut reports, failed_fetches, offsets, mut tally, dead_letters, .. } = block;
        reports.retain(|new| shard.has(Bucket::new(&new.event.site, || new.report.group())));
        let origins = records.of_failed_fetches.into_iter().chain(std::iter::repeat(NO_RECORD));
        let is_own = |(_, row): &(Origin, FailedFetchRow)| shard.has(Bucket::new(&row.fetch.site, || row.accepted.identity));
        let failed_fetches = origins.zip(failed_fetches).filter(is_own).collect();
        reports.iter().for_each(|new| tally.entry(new.origin.0).or_default().stored += 1);
        let is_counted = |letter: &&DeadLetter| is_counted(letter, shard);
        let letters = dead_letters.iter().filter(is_counted);
        let letters: Vec<_> = letters.map(|letter| ((letter.partition, letter.offset), letter.events as u64)).collect();
        count(&letters, &mut tally);
        Self { reports, failed_fetches, records: records.all, offsets, tally, letters }
    }

    fn from_parts(reports: Vec<NewReport>, records: Vec<Origin>, letters: Vec<(Origin, u64)>) -> Self {
        let (mut offsets, mut tally) = (Offsets::new(), CountsByPartition::default());
        for (partition, offset) in &records {
            let range = offsets.entry(*partition).or_insert((*offset, *offset));
            *range = (range.0.min(*offset), range.1.max(*offset));
            tally.entry(*partition).or_default().records += 1;
        }
        count(&letters, &mut tally);
        reports.iter().for_each(|new| tally.entry(new.origin.0).or_default().stored += 1);
        Self { reports, failed_fetches: Vec::new(), records, offsets, tally, letters }
    }

    /// Divides the batch into two with whole records, in storage order; `None` if there is only one record.
    pub(super) fn halves(self) -> Option<[Self; 2]> {
        let Self { mut reports, failed_fetches, mut records, mut letters, .. } = self;
        records.sort_unstable();
        reports.sort_by_key(|new| new.origin);
        // Earlier partitions are in the first half and later ones in the second, so each partition is stored in order.
        let middle = reports.get(reports.len() / 2).map_or(records[records.len() / 2], |new| new.origin);
        let boundary = middle.max(*records.get(1)?);
        let later_reports = reports.split_off(reports.partition_point(|new| new.origin < boundary));
        let later_records = records.split_off(records.partition_point(|record| *record < boundary));
        let later_letters = letters.extract_if(.., |(record, _)| *record >= boundary).collect();
        let first = Self { failed_fetches, ..Self::from_parts(reports, records, letters) };
        Some([first, Self::from_parts(later_reports, later_records, later_letters)])
    }

    /// Sorts reports and failed fetches by record, and returns the records that have any.
    pub(super) fn sort_by_record(&mut self) -> Vec<Origin> {
        self.reports.sort_by_key(|new| new.origin);
        self.failed_fetches.sort_by_key(|(record, _)| *record);
        let of_failed_fetches = self.failed_fetches.iter().map(|(record, _)| *record);
        let mut records: Vec<Origin> = self.reports.iter().map(|new| new.origin).chain(of_failed_fetches).collect();
        records.sort_unstable();
        records.dedup();
        records
    }

    /// Returns the sorted reports in the records up to this one.
    pub(super) fn reports_up_to(&self, last: Origin) -> &[NewReport] {
        &self.reports[..self.reports.partition_point(|new| new.origin <= last)]
    }

    /// Returns the rows of the sorted failed fetches in the records up to this one.
    pub(super) fn failed_fetches_up_to(&self, last: Origin) -> Encoder {
        let mut rows = Encoder::default();
        self.failed_fetches.iter().take_while(|(record, _)| *record <= last).for_each(|(_, row)| row.encode(&mut rows));
        rows
    }

    pub(super) fn remove(&mut self, record: Origin) {
        self.reports.retain(|new| new.origin != record);
        self.failed_fetches.retain(|(own, _)| *own != record);
    }
}

/// Returns whether this shard counts a dead letter. Several shards reject an unreadable record, but only one counts it. Other shards may
/// store a quarantined record.
fn is_counted(letter: &DeadLetter, shard: Shard) -> bool {
    letter.reason.starts_with(QUARANTINED) || shard.duty(&named_buckets(Some(&letter.headers))) == ShardTask::ReadAndCount
}

fn count(letters: &[(Origin, u64)], tally: &mut CountsByPartition) {
    for ((partition, _), events) in letters {
        let counts = tally.entry(*partition).or_default();
        counts.rejected_records += 1;
        counts.rejected += events;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consume::partition_stats::{Counts, sum};
    use crate::record::decode::decode;
    use rdkafka::Timestamp;
    use rdkafka::message::{Header, OwnedHeaders, OwnedMessage};
    use schemas::log::header;

    const EVENTS: usize = 60;

    fn reports(origin: Origin, events: usize) -> Vec<NewReport> {
        NewReport::from_record(decode(record_of(events, false).as_bytes()).unwrap(), origin)
    }

    /// Returns a record with this number of events, each on another host or without a host.
    fn record_of(events: usize, have_hosts: bool) -> String {
        let site = |n| if have_hosts { format!(r#","site":"com.example{n}""#) } else { String::new() };
        let event = |n| format!(r#"{{"own_key":"{n:032x}","type":"content_engaged","at_ms":1790000000000{}}}"#, site(n));
        let events: Vec<String> = (0..events).map(event).collect();
        format!(
            r#"{{"v":1,"org":"00000000-0000-0000-0000-000000000001","received_at_us":1790000000000000,"kind":"events","events":[{}]}}"#,
            events.join(",")
        )
    }

    #[test]
    fn exactly_one_shard_counts_an_unreadable_record() {
        let message = |offset, payload: &str| {
            let headers = OwnedHeaders::new().insert(Header { key: header::BUCKETS, value: Some("*") });
            let payload = Some(payload.as_bytes().to_vec());
            OwnedMessage::new(payload, None, "log".to_owned(), Timestamp::NotAvailable, 0, offset, Some(headers))
        };
        let batch = |shard: &str| {
            let mut block = Block::default();
            block.push(&message(0, &record_of(EVENTS, true)), |_| true);
            block.push(&message(1, "{"), |_| true);
            block.push_unread(&message(2, "{"), format!("{QUARANTINED}: writers died"));
            block.skip(&message(3, "{"));
            Batch::new(block, Records::default(), shard.parse().unwrap())
        };
        assert_eq!(
            sum(batch("1/1").tally.values()),
            Counts { records: 4, stored: EVENTS as u64, rejected_records: 2, rejected: 0 }
        );
        let parts = ["1/3", "2/3", "3/3"].map(|shard| sum(batch(shard).tally.values()));
        assert_eq!(parts.map(|counts| counts.records), [4, 4, 4], "every shard passes all offsets");
        assert_eq!(parts.map(|counts| counts.rejected_records), [2, 1, 1]);
        let stored = parts.map(|counts| counts.stored);
        assert!(stored.iter().all(|count| *count > 0) && stored.iter().sum::<u64>() == EVENTS as u64, "{stored:?}");
    }

    #[test]
    fn splits_blocks_between_records() {
        let sizes = [((0, 5), 3), ((1, 2), 1), ((0, 6), 9), ((1, 3), 0), ((2, 8), 2), ((0, 9), 1)];
        let records: Vec<Origin> = sizes.iter().map(|(record, _)| *record).collect();
        let all = sizes.iter().flat_map(|(record, events)| reports(*record, *events)).collect();
        let (mut waiting, mut stored, mut counts) =
            (vec![Batch::from_parts(all, records, vec![((1, 3), 4)])], Vec::new(), Counts::default());
        while let Some(batch) = waiting.pop() {
            if batch.records.len() == 1 {
                counts += sum(batch.tally.values());
                assert_eq!(batch.offsets.len(), 1);
                assert!(batch.reports.iter().all(|new| new.origin == batch.records[0]));
                stored.push((batch.records[0], batch.reports.len()));
                continue;
            }
            let [first, second] = batch.halves().unwrap();
            assert!(!first.records.is_empty() && !second.records.is_empty());
            waiting.extend([second, first]);
        }
        let mut expected = sizes.to_vec();
        expected.sort_unstable();
        assert_eq!(stored, expected);
        assert_eq!(counts, Counts { records: 6, stored: 16, rejected_records: 1, rejected: 4 });
        assert!(Batch::from_parts(reports((0, 1), 2), vec![(0, 1)], Vec::new()).halves().is_none());
    }
}
