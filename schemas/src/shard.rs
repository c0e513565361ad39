//! Assigns reports to store shards (docs/operating/scaling.md#clickhouse-shards). Pure.
//!
//! A report's bucket must never change; otherwise two shards could store copies of one report.

use crate::event_key::EventKey;
use crate::log::LogRecord;
use crate::report_keys::ReportKeys;
use crate::session::SessionReport;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Header value of a record that every shard must read.
const ALL: &str = "*";

/// One of 256 parts of all events. Each shard stores some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bucket(u8);

impl Bucket {
    /// Returns the bucket of an event on `site`, a reversed host. All events of a host are in one bucket. An event whose host can't be
    /// owned is in its key's bucket, because several organizations' reports can share that key.
    pub fn new(site: &str, key: impl FnOnce() -> EventKey) -> Self {
        match site {
            "" => Self(key().0.to_be_bytes()[0]),
            site => Self(Sha256::digest(site)[0]),
        }
    }
}

/// The buckets of a record's reports. The gateway writes them to a header, so a shard can skip other shards' records without decoding them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Buckets {
    /// Unknown, because only the worker can look up a click token, or because every shard needs the record's session facts.
    All,
    /// These buckets, possibly none.
    Some(BTreeSet<Bucket>),
}

impl Buckets {
    pub fn for_record(record: &LogRecord) -> Self {
        let LogRecord { org, drain, events, failed_fetches, named_sessions, .. } = record;
        if named_sessions.iter().any(SessionReport::has_facts) || events.iter().any(|event| event.ctx_hash.is_some()) {
            return Self::All;
        }
        let of_events = events.iter().map(|event| Bucket::new(&event.site, || ReportKeys::new(*org, *drain, event).event()));
        let of_fetches = failed_fetches
            .iter()
            .map(|fetch| Bucket::new(&fetch.site, || EventKey::for_report(*org, &fetch.site, fetch.own_key)));
        Self::Some(of_events.chain(of_fetches).collect())
    }

    /// Returns the header: two hexadecimal digits for each bucket, or `*`.
    pub fn to_header(&self) -> String {
        match self {
            Self::All => ALL.to_owned(),
            Self::Some(buckets) => buckets.iter().map(|bucket| format!("{:02x}", bucket.0)).collect(),
        }
    }

    /// Parses the header. If it is missing or invalid, every shard reads the record.
    pub fn from_header(header: Option<&[u8]>) -> Self {
        let text = header.and_then(|bytes| std::str::from_utf8(bytes).ok());
        let digits = text.filter(|text| text.len() % 2 == 0 && text.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let Some(digits) = digits else { return Self::All };
        let bucket = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).ok().map(Bucket);
        Self::Some((0..digits.len()).step_by(2).filter_map(bucket).collect())
    }
}

/// A shard of the store, written as its number and the number of shards, such as `2/3`. Shard 2/3 has every third bucket, starting with the
/// second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: u16,
    count: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardTask {
    /// Skip the record, because it has no report for this shard.
    Skip,
    Read,
    /// Read the record, and count it as rejected if it is invalid. Exactly one shard does, so the counts add up.
    ReadAndCount,
}

impl Shard {
    const MAX_SHARDS: u16 = 256;

    pub fn has(self, bucket: Bucket) -> bool {
        u16::from(bucket.0) % self.count == self.index
    }

    pub fn is_only(self) -> bool {
        self.count == 1
    }

    /// Returns what this shard does with a record in these buckets.
    pub fn duty(self, buckets: &Buckets) -> ShardTask {
        let (is_own, counting) = match buckets {
            Buckets::All => (true, 0),
            Buckets::Some(buckets) => {
                let counting = buckets.first().map_or(0, |bucket| u16::from(bucket.0) % self.count);
                (buckets.iter().any(|bucket| self.has(*bucket)), counting)
            }
        };
        match (is_own, counting == self.index) {
            (_, true) => ShardTask::ReadAndCount,
            (true, false) => ShardTask::Read,
            (false, false) => ShardTask::Skip,
        }
    }
}

impl Default for Shard {
    fn default() -> Self {
        Self { index: 0, count: 1 }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index + 1, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers =
            text.split_once('/').and_then(|(number, count)| Some((number.parse::<u16>().ok()?, count.parse::<u16>().ok()?)));
        match numbers {
            Some((number, count)) if 1 <= number && number <= count && count <= Self::MAX_SHARDS => {
                Ok(Self { index: number - 1, count })
            }
            _ => Err(format!("use SHARD/SHARDS, such as 1/2, with at most {} shards", Self::MAX_SHARDS)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogEvent;

    fn shards(count: u16) -> impl Iterator<Item = Shard> {
        (0..count).map(move |index| Shard { index, count })
    }

    fn record(members: &str) -> LogRecord {
        let head = r#""v":1,"org":"00000000-0000-0000-0000-000000000001","received_at_us":1790000000000000,"kind":"events""#;
        serde_json::from_str(&format!("{{{head}{members}}}")).unwrap()
    }

    fn event(key: u128, members: &str) -> String {
        format!(r#"{{"own_key":"{key:032x}","type":"content_retrieved","at_ms":0{members}}}"#)
    }

    fn header(members: &str) -> String {
        Buckets::for_record(&record(members)).to_header()
    }

    /// Buckets must never change, because stored rows are distributed by them.
    #[test]
    fn buckets_never_change() {
        let of = |site| Bucket::new(site, || EventKey(0xab << 120)).0;
        assert_eq!(["com.example", "com.example.www2", "test.shop", ""].map(of), [149, 157, 34, 0xab]);
    }

    #[test]
    fn header_contains_every_reports_bucket() {
        let events =
            [event(1, r#","site":"com.example""#), event(2, r#","site":"test.shop""#), event(3, r#","site":"com.example""#)];
        let both = header(&format!(r#","events":[{}]"#, events.join(",")));
        assert_eq!(both.len(), 4, "{both}");
        let fetch = r#"{"own_key":"00000000000000000000000000000001","at_ms":0,"site":"test.shop","path":"/","bot":"b","operator":"o","purpose":"training","status":404}"#;
        assert_eq!(both, header(&format!(r#","events":[{}],"failed_fetches":[{fetch}]"#, events[0])));
        assert_eq!(header(""), "");
        let session = r#""session_id":"00000000-0000-0000-0000-000000000001""#;
        let named = |said: &str| header(&format!(r#","events":[{}],"named_sessions":[{{{session}{said}}}]"#, events.join(",")));
        assert_eq!(named(""), both, "any shard that reads the record stores the session");
        assert_eq!(named(r#","agent_id":"bot""#), "*", "events of every shard get the agent");
        let hash = "35cd9e19021627ec4370175f47eb4d73385c2770a7eda01f351817fccc0eae4f";
        assert_eq!(header(&format!(r#","events":[{},{}]"#, events[0], event(4, &format!(r#","ctx_hash":"{hash}""#)))), "*");
        let buckets = Buckets::for_record(&record(&format!(r#","events":[{}]"#, events.join(","))));
        assert_eq!(Buckets::from_header(Some(both.as_bytes())), buckets);
        assert_eq!(Buckets::from_header(Some(b"")), Buckets::Some(BTreeSet::new()));
        for unreadable in [None, Some(&b"*"[..]), Some(b"0"), Some(b"+1"), Some(b"zz"), Some(&[0xff, 0xff])] {
            assert_eq!(Buckets::from_header(unreadable), Buckets::All, "{unreadable:?}");
        }
    }

    /// Observers share a key across organizations.
    #[test]
    fn observers_of_a_hostless_event_share_a_bucket() {
        let members = format!(r#","events":[{}]"#, event(1, r#","correlation_key":"00000000000000000000000000000007""#));
        let other = LogRecord { org: crate::ids::OrgId(uuid::Uuid::from_u128(2)), ..record(&members) };
        assert_eq!(Buckets::for_record(&record(&members)), Buckets::for_record(&other));
        let event: &LogEvent = &other.events[0];
        let copy = LogEvent { own_key: EventKey(99), ..event.clone() };
        assert_eq!(Buckets::for_record(&LogRecord { events: vec![copy], ..record(&members) }), Buckets::for_record(&other));
    }

    #[test]
    fn every_bucket_belongs_to_exactly_one_shard() {
        let some = |buckets: &[u8]| Buckets::Some(buckets.iter().copied().map(Bucket).collect());
        for count in [1, 2, 3, 7, 255, 256] {
            for bucket in 0..=255 {
                assert_eq!(shards(count).filter(|shard| shard.has(Bucket(bucket))).count(), 1, "{bucket} of {count}");
            }
            for buckets in [Buckets::All, some(&[]), some(&[0]), some(&[255]), some(&[6, 7, 200]), some(&[5, 250])] {
                let duties: Vec<ShardTask> = shards(count).map(|shard| shard.duty(&buckets)).collect();
                assert_eq!(duties.iter().filter(|duty| **duty == ShardTask::ReadAndCount).count(), 1, "{buckets:?} of {count}");
                for (shard, duty) in shards(count).zip(duties) {
                    let is_own = match &buckets {
                        Buckets::All => true,
                        Buckets::Some(buckets) => buckets.iter().any(|bucket| shard.has(*bucket)),
                    };
                    assert!(!is_own || duty != ShardTask::Skip, "{buckets:?} of {count}");
                }
            }
        }
    }

    #[test]
    fn formats_shards_as_number_and_count() {
        for text in ["1/1", "2/3", "256/256"] {
            assert_eq!(text.parse::<Shard>().map(|shard| shard.to_string()).as_deref(), Ok(text));
        }
        assert_eq!("1/1".parse(), Ok(Shard::default()));
        for bad in ["", "1", "0/2", "3/2", "1/257", "1/0", "-1/2", "a/b", "1/2/3"] {
            assert!(bad.parse::<Shard>().is_err(), "{bad}");
        }
    }
}
