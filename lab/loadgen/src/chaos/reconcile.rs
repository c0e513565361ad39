//! Locates every event after the load: every accepted or unanswered request must be on the log, and every event on the log must be stored
//! or rejected exactly once.
//!
//! It reads the log itself. From the services, it uses only the numbers that it checks.

use super::cluster::Cluster;
use super::requests::{LOG, Requests};
use super::sender::LoadState;
use crate::client::{Connection, Endpoint, Exchange};
use crate::drive::lock;
use crate::oracle::Fate;
use anyhow::{Context as _, bail, ensure};
use hyper::header::HeaderValue;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};
use rdkafka::{Offset, TopicPartitionList};
use schemas::log::header;
use service_kit::kafka;
use service_kit::settings::KafkaSettings;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;
use stream_workers::partition_stats::{Counts, PartitionStats};
use stream_workers::progress_by_partition;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

/// Time limit for draining the spills and storing the last records, once all acknowledged events are readable.
const PATIENCE: Duration = Duration::from_secs(180);
const ASK_AGAIN: Duration = Duration::from_millis(500);
const READ_PATIENCE: Duration = Duration::from_secs(30);
const DEADLINE: Duration = Duration::from_secs(10);
const PENDING: &str = "gateway_spill_pending_events ";

struct Logged {
    partition: i32,
    id: String,
    events: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    accepted: u64,
    unanswered: u64,
    again: u64,
    by_logs: u64,
    settled: Counts,
}

impl fmt::Display for Sums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { accepted, unanswered, again, by_logs, settled } = self;
        let Counts { stored, rejected, .. } = settled;
        let logged = accepted + unanswered + again + by_logs;
        write!(
            f,
            "{accepted} events accepted + {unanswered} logged without a response + {again} logged again + {by_logs} of the CDN log = \
             {logged} on the log "
        )?;
        write!(f, "= {stored} stored + {rejected} rejected; the spills are empty")
    }
}

/// Waits until the spills are empty and everything on the log is stored, then compares the sums.
pub(super) async fn reconcile(cluster: &Cluster, front: &LoadState) -> anyhow::Result<Sums> {
    let shards = wait_until_processed(cluster).await?;
    let until = shards.iter().flatten().map(|(partition, settled)| (*partition, settled.next)).collect();
    // Connect directly, without the proxies.
    let settings = cluster.fresh.addresses.kafka.clone();
    let logged = spawn_blocking(move || read(&settings, &until)).await??;
    let mut requests = lock(&front.requests).clone();
    requests.0.extend(lock(&front.logs.requests).0.clone());
    add_up(&requests, &logged, &shards)
}

/// Returns the processed records of each partition by shard. Fails if anything is still pending.
async fn processed_when_idle(cluster: &Cluster) -> anyhow::Result<Vec<BTreeMap<i32, PartitionStats>>> {
    nothing_is_spilled(cluster).await?;
    let mut shards = Vec::new();
    for (tables, shard) in cluster.tables().zip(1..) {
        // Connect directly, without the proxies.
        let found = progress_by_partition(&cluster.fresh.addresses.kafka, tables).await?;
        for (partition, (settled, end)) in &found {
            ensure!(settled.next == *end, "shard {shard} has stored partition {partition} up to {} of {end}", settled.next);
        }
        shards.push(found.into_iter().map(|(partition, (settled, _))| (partition, settled)).collect());
    }
    Ok(shards)
}

/// Waits until the spills are empty and everything on the log is stored. Returns the processed records of each partition by shard. Fails
/// after [`PATIENCE`] without progress. The whole wait may take longer, because a busy machine can be minutes behind.
pub(super) async fn wait_until_processed(cluster: &Cluster) -> anyhow::Result<Vec<BTreeMap<i32, PartitionStats>>> {
    let (mut stored, mut deadline) = (0, Instant::now() + PATIENCE);
    loop {
        let error = match processed_when_idle(cluster).await {
            Ok(shards) => return Ok(shards),
            Err(error) => error,
        };
        let now = stored_records(cluster).await.unwrap_or(0);
        if now > stored {
            (stored, deadline) = (now, Instant::now() + PATIENCE);
        }
        if Instant::now() > deadline {
            return Err(error.context(format!("no progress for {PATIENCE:?}")));
        }
        sleep(ASK_AGAIN).await;
    }
}

async fn stored_records(cluster: &Cluster) -> anyhow::Result<i64> {
    let mut stored = 0;
    for tables in cluster.tables() {
        let found = progress_by_partition(&cluster.fresh.addresses.kafka, tables).await?;
        stored += found.values().map(|(settled, _)| settled.next).sum::<i64>();
    }
    Ok(stored)
}

/// Fails if a gateway's metrics show a non-empty spill.
async fn nothing_is_spilled(cluster: &Cluster) -> anyhow::Result<()> {
    for gateway in &cluster.gateways {
        let mut connection = Connection::new(Endpoint::parse(&gateway.slot.metrics())?, DEADLINE);
        let asked = connection.get("/metrics", &HeaderValue::from_static("")).await;
        let Exchange::Responded(answer) = asked else { bail!("{} returned no metrics", gateway.slot.name) };
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let pending = text.lines().find_map(|line| line.strip_prefix(PENDING)).context("the spill metric is missing")?;
        ensure!(pending == "0", "{} has {pending} events in its spill", gateway.slot.name);
    }
    Ok(())
}

fn read(kafka: &KafkaSettings, until: &BTreeMap<i32, i64>) -> anyhow::Result<Vec<Logged>> {
    let consumer: BaseConsumer =
        kafka::client(kafka)?.set("group.id", "chaos-reads-by-hand").set("enable.auto.commit", "false").create()?;
    let mut parts = TopicPartitionList::new();
    for partition in until.keys() {
        parts.add_partition_offset(&kafka.topic, *partition, Offset::Beginning)?;
    }
    consumer.assign(&parts)?;
    let mut missing: BTreeMap<i32, i64> = until.iter().filter(|(_, next)| **next > 0).map(|(p, next)| (*p, *next)).collect();
    let mut logged = Vec::new();
    while !missing.is_empty() {
        let message = consumer.poll(READ_PATIENCE).context("the log does not return a stored record")??;
        let (partition, offset) = (message.partition(), message.offset());
        if let Some(next) = missing.get(&partition).copied() {
            if offset < next {
                logged.push(Logged::from_message(&message)?);
            }
            if offset + 1 >= next {
                missing.remove(&partition);
            }
        }
    }
    Ok(logged)
}

impl Logged {
    fn from_message(message: &BorrowedMessage<'_>) -> anyhow::Result<Self> {
        #[derive(serde::Deserialize)]
        struct Record {
            events: Vec<serde::de::IgnoredAny>,
        }
        let record: Record = serde_json::from_slice(message.payload().unwrap_or_default()).context("invalid record")?;
        let id = message.headers().and_then(|headers| headers.iter().find(|found| found.key == header::REQUEST_ID)?.value);
        let id = String::from_utf8_lossy(id.context("a record without a request id")?).into_owned();
        Ok(Self { partition: message.partition(), id, events: record.events.len() as u64 })
    }
}

/// Compares the requests, the log and the processed records of each shard.
fn add_up(requests: &Requests, logged: &[Logged], shards: &[BTreeMap<i32, PartitionStats>]) -> anyhow::Result<Sums> {
    let mut sums = Sums::default();
    let mut of_partition: BTreeMap<i32, (u64, u64)> = BTreeMap::new();
    let mut seen: HashMap<&str, u64> = HashMap::new();
    let mut of_log: HashMap<&str, u64> = HashMap::new();
    for Logged { partition, id, events } in logged {
        let found = of_partition.entry(*partition).or_default();
        *found = (found.0 + 1, found.1 + events);
        let times = seen.entry(id).or_default();
        *times += 1;
        let Some((sent, fate)) = requests.0.get(id) else { bail!("{id} is on the log, but was not sent") };
        if id.starts_with(LOG) {
            // The body of a CDN log is split into several records, which may also be repeated.
            sums.by_logs += events;
            *of_log.entry(id).or_default() += events;
            continue;
        }
        ensure!(sent == events, "{id} was sent with {sent} events, but has {events} on the log");
        match fate {
            _ if *times > 1 => sums.again += events,
            Fate::Acked => sums.accepted += events,
            Fate::Unknown => sums.unanswered += events,
            Fate::Refused => bail!("{id} was rejected, but is on the log"),
        }
    }
    // A CDN log body without lines to store produces no record.
    let is_lost =
        |(id, (sent, fate)): &(&String, &(u64, Fate))| *sent > 0 && *fate == Fate::Acked && !seen.contains_key(id.as_str());
    let lost = requests.0.iter().filter(is_lost);
    let lost: Vec<&String> = lost.map(|(id, _)| id).collect();
    ensure!(lost.is_empty(), "{} accepted requests are neither on the log nor in a spill: {lost:?}", lost.len());
    let acked = |id: &str| requests.0.get(id).filter(|(_, fate)| *fate == Fate::Acked).map_or(0, |(kept, _)| *kept);
    if let Some((id, events)) = of_log.iter().find(|(id, events)| **events < acked(id)) {
        bail!("{id} was accepted with {} stored lines, but has {events} on the log", acked(id));
    }
    // Faults cause some repeated records. A gateway that repeats records for no reason would repeat most of them.
    ensure!(
        sums.again * 2 <= sums.accepted + sums.unanswered,
        "{} events were logged again, of {}",
        sums.again,
        sums.accepted + sums.unanswered
    );
    sums.settled = add_up_shards(&of_partition, shards)?;
    Ok(sums)
}

/// Compares each partition's records and events with the shards' counts: each shard counts all records and only its own events.
fn add_up_shards(logged: &BTreeMap<i32, (u64, u64)>, shards: &[BTreeMap<i32, PartitionStats>]) -> anyhow::Result<Counts> {
    let mut sum = Counts::default();
    let mut events_of: BTreeMap<i32, u64> = logged.keys().map(|partition| (*partition, 0)).collect();
    for (shard, number) in shards.iter().zip(1..) {
        let mut own = 0;
        for (partition, settled) in shard {
            let records = logged.get(partition).map_or(0, |(records, _)| *records);
            let PartitionStats { since, counts, .. } = settled;
            ensure!(*since == 0, "shard {number} counts partition {partition} only from {since}: {settled:?}");
            ensure!(
                counts.records == records && settled.missing() == 0,
                "partition {partition} has {records} records on the log, but shard {number} has processed {settled:?}"
            );
            ensure!(counts.rejected_records == 0, "partition {partition}: shard {number} rejected valid records: {settled:?}");
            *events_of.entry(*partition).or_default() += counts.events();
            own += counts.events();
            sum += *counts;
        }
        ensure!(own > 0 || logged.is_empty(), "shard {number} has no events");
    }
    for (partition, settled) in events_of {
        let events = logged.get(&partition).map_or(0, |(_, events)| *events);
        ensure!(settled == events, "partition {partition} has {events} events on the log, but {settled} are processed");
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(partition: i32, id: &str, events: u64) -> Logged {
        Logged { partition, id: id.to_owned(), events }
    }

    /// Returns the counts of partitions 0 and 1, with all records processed.
    fn settled(counts: [(u64, u64); 2]) -> BTreeMap<i32, PartitionStats> {
        let of = |(records, stored): (u64, u64)| PartitionStats {
            since: 0,
            next: i64::try_from(records).unwrap(),
            counts: Counts { records, stored, ..Counts::default() },
        };
        [(0, of(counts[0])), (1, of(counts[1]))].into()
    }

    fn requests(fates: &[(u64, Fate)]) -> Requests {
        let mut requests = Requests::default();
        for (events, fate) in fates {
            let id = requests.begin(*events);
            requests.record_fate(&id, *fate);
        }
        requests
    }

    #[test]
    fn accounts_for_every_event_exactly_once() {
        let sent = requests(&[(3, Fate::Acked), (5, Fate::Unknown), (7, Fate::Refused), (9, Fate::Unknown)]);
        let on_log = || vec![logged(0, "chaos-0", 3), logged(1, "chaos-1", 5), logged(1, "chaos-0", 3)];
        let whole = settled([(1, 3), (2, 8)]);
        let sums = add_up(&sent, &on_log(), std::slice::from_ref(&whole)).unwrap();
        assert_eq!((sums.accepted, sums.unanswered, sums.again, sums.settled.events()), (3, 5, 3, 11));

        for (wrong, said) in [
            (settled([(1, 3), (2, 5)]), "are processed"),
            (settled([(1, 3), (3, 8)]), "has processed"),
            (settled([(0, 0), (2, 8)]), "has processed"),
        ] {
            let error = add_up(&sent, &on_log(), &[wrong]).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let twice = vec![logged(0, "chaos-0", 3), logged(1, "chaos-1", 5), logged(1, "chaos-1", 5), logged(1, "chaos-0", 3)];
        let error = add_up(&sent, &twice, &[settled([(1, 3), (3, 13)])]).unwrap_err().to_string();
        assert!(error.contains("8 events were logged again, of 8"), "{error}");
        let mut logs = requests(&[(3, Fate::Acked), (5, Fate::Unknown)]);
        let body = logs.begin_log(6);
        logs.record_fate(&body, Fate::Acked);
        // Only people's lines, so no record.
        let nothing_kept = logs.begin_log(0);
        logs.record_fate(&nothing_kept, Fate::Acked);
        let with_body = |events: [u64; 2]| {
            let mut with_body = on_log();
            with_body.extend(events.map(|events| logged(0, &body, events)));
            with_body
        };
        let sums = add_up(&logs, &with_body([4, 2]), &[settled([(3, 9), (2, 8)])]).unwrap();
        assert_eq!((sums.accepted, sums.by_logs, sums.settled.events()), (3, 6, 17));
        let error = add_up(&logs, &with_body([4, 1]), &[settled([(3, 8), (2, 8)])]).unwrap_err().to_string();
        assert!(error.contains("with 6 stored lines, but has 5 on the log"), "{error}");
        let mut late = whole.clone();
        late.insert(1, PartitionStats { since: 1, ..late[&1] });
        assert!(add_up(&sent, &on_log(), &[late]).unwrap_err().to_string().contains("only from 1"));
        for (fates, said) in [
            (vec![(3, Fate::Acked), (5, Fate::Refused)], "chaos-1 was rejected, but is on the log"),
            (vec![(3, Fate::Acked)], "chaos-1 is on the log, but was not sent"),
            (vec![(3, Fate::Acked), (4, Fate::Acked)], "sent with 4 events, but has 5 on the log"),
            (vec![(3, Fate::Acked), (5, Fate::Acked), (1, Fate::Acked)], "1 accepted requests are neither"),
        ] {
            let error = add_up(&requests(&fates), &on_log(), std::slice::from_ref(&whole)).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn shards_count_all_records_and_share_events() {
        let sent = requests(&[(3, Fate::Acked), (5, Fate::Acked)]);
        let on_log = [logged(0, "chaos-0", 3), logged(1, "chaos-1", 5)];
        let add_up = |first: [(u64, u64); 2], second: [(u64, u64); 2]| {
            add_up(&sent, &on_log, &[settled(first), settled(second)]).map(|sums| sums.settled.stored)
        };
        assert_eq!(add_up([(1, 2), (1, 5)], [(1, 1), (1, 0)]).unwrap(), 8);
        for (second, said) in [
            ([(0, 1), (1, 0)], "but shard 2 has processed"),
            ([(1, 1), (1, 1)], "partition 1 has 5 events on the log, but 6 are processed"),
            ([(1, 0), (1, 0)], "shard 2 has no events"),
        ] {
            let error = add_up([(1, 2), (1, 5)], second).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
