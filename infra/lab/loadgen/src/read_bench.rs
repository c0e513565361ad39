//! What reads cost: a year of observations, written through the worker's own encoding into the real store, then read
//! over HTTP with windows of different lengths, beside plainer ways to ask for the same in the same run.
//!
//! The rows go past the log, by the worker's own insert: quicker, and the same rows. `--through-log` takes the whole way,
//! topic and worker processes.
//!
//! Must not assert a figure: what was measured is printed as it is.

mod growth;
mod history;
mod layouts;
mod manifests;
mod own;
mod through_log;
mod windows;

use crate::Verdict;
use crate::client::{Connection, Endpoint, Exchange};
use crate::drive::Latencies;
use crate::options::ReadBenchOptions;
use crate::report::Quantiles;
use crate::stage::FreshStores;
use crate::tenants;
use anyhow::{Context as _, ensure};
use history::{BEGIN_MS, History, YEAR_MS};
use hyper::header::HeaderValue;
use local::stack::Endpoints;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use schemas::store::OBSERVATIONS;
use service_kit::retrieval_index::Compactor;
use service_kit::server;
use service_kit::settings::ClickHouseSettings;
use std::time::{Duration, Instant};
use stream_workers::BulkLoader;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Observations of a block, as a worker's.
const BLOCK: usize = 90_000;
const DAY_MS: i64 = 86_400_000;
/// Lengths of windows, in days: the second has a thirtieth of the rows, the last is everything, without a window.
const WINDOWS: [i64; 4] = [1, 12, 30, 365];
/// One batch in so many is reported again.
const REPEATED: usize = 20;
/// Reads before any is timed.
const WARM_UP: usize = 2;
const READS: [(&str, &str); 4] = [
    ("summary", "/content-owners/summary?"),
    ("events", "/content-owners/events?"),
    ("urls", "/content-owners/urls?limit=20&"),
    ("series by day", "/content-owners/series?by=day&"),
];
/// Reads that are asked less often.
const OTHERS: [(&str, &str); 5] = [
    ("crawlers", "/content-owners/crawlers?"),
    ("corroboration", "/content-owners/corroboration?"),
    ("funnel by agent", "/content-owners/funnel?"),
    ("funnel by url", "/content-owners/funnel?by=url&"),
    ("funnel by day", "/content-owners/funnel?by=day&"),
];
/// Of a platform's own reports.
const OWN: [(&str, &str); 1] = [("agent/events", "/agent/events?")];

/// Plainer ways to count the owner's events, as ratios to compare by: what any exact read pays at least, and what the
/// alternatives would have cost. `{site}` is the owner's range.
const ALTERNATIVES: [(&str, &str); 4] = [
    ("rows, not exact", "SELECT event_type, count() FROM observations WHERE {site} GROUP BY event_type"),
    ("rows FINAL, observers not merged", "SELECT event_type, count() FROM observations FINAL WHERE {site} GROUP BY event_type"),
    ("distinct keys", "SELECT event_type, uniqExact(event_key) FROM observations WHERE {site} GROUP BY event_type"),
    (
        "the index's base FINAL",
        "SELECT event_type, count() FROM retrieval_index FINAL WHERE tier = 'base' AND {site} GROUP BY event_type",
    ),
];
/// One retrieval of the owner's claimed by a second agent: what the cheaper statements leave to the exact ones.
const ODD: &str = "INSERT INTO observations SELECT * REPLACE (toUUID('00000000-0000-0000-0000-000000007000') AS org_id) \
    FROM observations WHERE {site} AND event_type = 'content_retrieved' AND source_role = 'agent' LIMIT 1";

/// The median of a read over everything.
struct Measured {
    what: String,
    p50_ms: f64,
}

/// Fills a store and measures; with `--growth` two smaller ones after it.
pub async fn run(options: &ReadBenchOptions, stop: CancellationToken) -> anyhow::Result<Verdict> {
    let options = &options.resolved();
    let whole = measure_one(options, &stop).await?;
    let mut smaller = Vec::new();
    for store in options.growth.then(|| growth::smaller(options)).into_iter().flatten() {
        println!("\n{} observations, one in {} the owner's", store.options.observations, store.options.share);
        let measured = measure_one(&store.options, &stop).await?;
        smaller.push((store, measured));
    }
    smaller.iter().for_each(|(store, measured)| store.print(measured, &whole));
    Ok(Verdict::Clean)
}

/// The store is dropped at the end.
async fn measure_one(options: &ReadBenchOptions, stop: &CancellationToken) -> anyhow::Result<Vec<Measured>> {
    let name = crate::stage::run_name();
    let stores = FreshStores::create(Endpoints::of_running_stack()?, &name).await?;
    let outcome = measure_all(options, &stores, &name, stop).await;
    stores.delete().await;
    outcome
}

async fn measure_all(
    options: &ReadBenchOptions,
    stores: &FreshStores,
    name: &str,
    stop: &CancellationToken,
) -> anyhow::Result<Vec<Measured>> {
    let tenant = tenants::seed(&stores.pool, name, 1).await?.pop().context("one tenant was asked for")?;
    let client = service_kit::stores::clickhouse(&stores.addresses.clickhouse)?;
    if options.through_log {
        through_log::fill(options, stores, name, &tenant.domain, stop).await?;
    } else {
        fill(options, stores, &tenant.domain, stop).await?;
    }
    let compactor = Compactor::connect(&stores.addresses.clickhouse)?;
    compactor.compact_all().await?;
    print_size(&client).await?;
    repeat(options, &stores.addresses.clickhouse, &tenant.domain).await?;
    compactor.compact_all().await?;

    let (place, serving) = serve_reads(stores, stop).await?;
    let mut connection = Connection::new(place, Duration::from_secs(90));

    println!("{:>8}  {:34} {:>10} {:>10} {:>10}", "days", "read", "p50 ms", "p99 ms", "x floor");
    let random = SmallRng::seed_from_u64(options.seed);
    let site = tenant.domain.split('.').rev().collect::<Vec<_>>().join(".");
    let range = format!("(site = '{site}' OR startsWith(site, '{site}.'))");
    let floor = measure_alternatives(&client, &range, options.runs.div_ceil(4)).await?;
    let latencies = manifests::measure(stores, &client, &mut connection, options.runs).await?;
    print_line("-", "manifest of a click token", &Quantiles::from(&latencies), floor);
    let reporter = own::Reporter::find(stores, &client).await?;
    let latencies = reporter.documents(&mut connection, options.runs).await?;
    print_line("-", "document of a session", &Quantiles::from(&latencies), floor);
    let mut reader =
        Reader { connection, key: tenant.owner_key.clone(), random, floor, runs: options.runs, of_everything: Vec::new() };
    for days in WINDOWS {
        reader.measure_window(days, "", &READS).await?;
    }
    for days in [30, 365] {
        reader.measure_window(days, "", &OTHERS).await?;
    }
    let arriving =
        tokio::spawn(arrive(options.clone(), stores.addresses.clickhouse.clone(), tenant.domain.clone(), stop.child_token()));
    let compacting = tokio::spawn(compact(compactor.clone()));
    reader.measure_window(365, ", rows arriving", &READS).await?;
    print_delta(&client).await?;
    arriving.abort();
    compacting.abort();
    client.query(&ODD.replace("{site}", &range)).execute().await?;
    for days in [365, 30] {
        reader.measure_window(days, ", one odd retrieval", &READS).await?;
    }
    if options.windows {
        windows::ask(&mut reader.connection, &reader.key, &client).await?;
    }
    reader.key = reporter.key.clone();
    for days in WINDOWS {
        reader.measure_window(days, "", &OWN).await?;
    }
    if options.plans {
        print_plans(&stores.addresses.clickhouse, &tenant.domain, &reporter).await?;
    }
    serving.abort();
    if options.layouts {
        layouts::measure(stores, &range, options.runs.div_ceil(4), options.ingest).await?;
    }
    Ok(reader.of_everything)
}

/// The owner's events counted in plainer ways. Median of the first, the floor, in milliseconds.
async fn measure_alternatives(client: &clickhouse::Client, range: &str, runs: usize) -> anyhow::Result<f64> {
    let mut floor = 0.0;
    for (what, statement) in ALTERNATIVES {
        let statement = statement.replace("{site}", range);
        let mut latencies = Latencies::default();
        for nth in 0..runs + WARM_UP {
            let begun = Instant::now();
            client.query(&format!("{statement} FORMAT Null")).execute().await?;
            if nth >= WARM_UP {
                latencies.record(begun.elapsed());
            }
        }
        let quantiles = Quantiles::from(&latencies);
        floor = if floor == 0.0 { quantiles.p50_ms } else { floor };
        print_line("all", what, &quantiles, floor);
    }
    Ok(floor)
}

/// The reads of these stores, served in this process without a limit on look-ups.
async fn serve_reads(stores: &FreshStores, stop: &CancellationToken) -> anyhow::Result<(Endpoint, JoinHandle<()>)> {
    let settings = query_api::Settings {
        clicks: query_api::ClickSettings { click_lookup_rate: 0 },
        ..query_api::Settings::on(stores.addresses.clickhouse.clone(), stores.addresses.postgres.clone())
    };
    let state = query_api::State::connect(&settings).await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let place = Endpoint::parse(&format!("http://{}", listener.local_addr()?))?;
    let limits = server::Limits::default();
    let serving = tokio::spawn(server::serve(listener, query_api::router(state), limits, stop.child_token()));
    Ok((place, serving))
}

/// The plan of each read, of everything and of a window in the middle of the year.
async fn print_plans(clickhouse: &ClickHouseSettings, domain: &str, reporter: &own::Reporter) -> anyhow::Result<()> {
    let day = |days: i64| Some(instant(BEGIN_MS + days * DAY_MS));
    for (of, window) in [("everything", (None, None)), ("thirty days", (day(180), day(210)))] {
        let (domain, session) = (domain.to_owned(), reporter.session()?);
        let asked = query_api::PlanRequest { domain, reporter: reporter.org, session, window };
        for (read, plan) in query_api::query_plans(clickhouse, &asked).await? {
            println!("\nplan of {read}, of {of}\n{plan}");
        }
    }
    Ok(())
}

/// Who reads, and how often.
struct Reader {
    connection: Connection,
    key: HeaderValue,
    random: SmallRng,
    floor: f64,
    runs: usize,
    of_everything: Vec<Measured>,
}

impl Reader {
    /// Times each read over windows of so many days.
    async fn measure_window(&mut self, days: i64, beside: &str, reads: &[(&str, &str)]) -> anyhow::Result<()> {
        for (what, path) in reads {
            let mut latencies = Latencies::default();
            for nth in 0..self.runs.div_ceil(WINDOWS.len()) + WARM_UP {
                let path = format!("{path}{}", window(days, &mut self.random));
                let begun = Instant::now();
                let Exchange::Answered(answer) = self.connection.get(&path, &self.key).await else {
                    anyhow::bail!("{path} was not answered");
                };
                if answer.status != 200 {
                    println!("{days:>8}  {what}{beside}: {} {}", answer.status, String::from_utf8_lossy(&answer.body));
                    continue;
                }
                if nth >= WARM_UP {
                    latencies.record(begun.elapsed());
                }
            }
            let (what, quantiles) = (format!("{what}{beside}"), Quantiles::from(&latencies));
            print_line(&days.to_string(), &what, &quantiles, self.floor);
            if days * DAY_MS >= YEAR_MS {
                self.of_everything.push(Measured { what, p50_ms: quantiles.p50_ms });
            }
        }
        Ok(())
    }
}

/// More rows of the same kind, as a worker inserts them, until stopped.
async fn arrive(
    options: ReadBenchOptions,
    clickhouse: ClickHouseSettings,
    domain: String,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let filler = BulkLoader::connect(&clickhouse)?;
    let records = History::new(options.seed.wrapping_add(1), &domain, u64::MAX / 2, options.share);
    let (mut block, mut rows) = (Vec::new(), 0_u64);
    let mut tick = tokio::time::interval(Duration::from_millis(500));
    for of_one in records {
        rows += of_one.iter().map(|record| record.events.len() as u64).sum::<u64>();
        block.extend(of_one);
        if rows >= options.ingest / 2 {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                _ = tick.tick() => filler.insert(std::mem::take(&mut block)).await,
            }
            rows = 0;
        }
    }
    Ok(())
}

/// Compacts as a worker does, until it is stopped.
async fn compact(compactor: Compactor) -> anyhow::Result<()> {
    loop {
        compactor.compact_all().await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn fill(options: &ReadBenchOptions, stores: &FreshStores, domain: &str, stop: &CancellationToken) -> anyhow::Result<()> {
    let filler = BulkLoader::connect(&stores.addresses.clickhouse)?;
    let compactor = Compactor::connect(&stores.addresses.clickhouse)?;
    let (begun, mut block, mut rows, mut stored) = (Instant::now(), Vec::new(), 0, 0_usize);
    for records in History::new(options.seed, domain, options.observations, options.share) {
        ensure!(!stop.is_cancelled(), "stopped");
        rows += records.iter().map(|record| record.events.len()).sum::<usize>();
        block.extend(records);
        if rows >= BLOCK {
            filler.insert(std::mem::take(&mut block)).await;
            stored += std::mem::take(&mut rows);
            // As workers do: all of it at the end would be read once for each step.
            compactor.compact_all().await?;
            eprint!("\rfilled {stored} of {} in {:.0?} ", options.observations, begun.elapsed());
        }
    }
    filler.insert(block).await;
    eprintln!("\rfilled {} in {:.0?}          ", stored + rows, begun.elapsed());
    Ok(())
}

/// Reports one batch in [`REPEATED`] again, a second later, spread over the year.
async fn repeat(options: &ReadBenchOptions, clickhouse: &ClickHouseSettings, domain: &str) -> anyhow::Result<()> {
    let loader = BulkLoader::connect(clickhouse)?;
    let (mut block, mut rows, mut repeated) = (Vec::new(), 0, 0);
    for mut records in History::new(options.seed, domain, options.observations, options.share).step_by(REPEATED) {
        records.iter_mut().for_each(|record| record.received_at_us += 1_000_000);
        rows += records.iter().map(|record| record.events.len()).sum::<usize>();
        block.extend(records);
        if rows >= BLOCK {
            loader.insert(std::mem::take(&mut block)).await;
            repeated += std::mem::take(&mut rows);
        }
    }
    loader.insert(block).await;
    println!("{} observations reported again", repeated + rows);
    Ok(())
}

/// A window of so many days somewhere in the year; none for the whole of it.
fn window(days: i64, random: &mut SmallRng) -> String {
    if days * DAY_MS >= YEAR_MS {
        return String::new();
    }
    let since = BEGIN_MS + random.random_range(0..YEAR_MS - days * DAY_MS);
    format!("since={}&until={}", instant(since), instant(since + days * DAY_MS))
}

fn instant(ms: i64) -> String {
    let at = chrono::DateTime::from_timestamp_millis(ms).unwrap_or_default();
    at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

async fn print_size(client: &clickhouse::Client) -> anyhow::Result<()> {
    let statement = "SELECT table, count(), sum(rows), sum(bytes_on_disk) FROM system.parts \
                     WHERE active AND database = currentDatabase() GROUP BY table ORDER BY table";
    let (mut all, mut observations) = (0, 0);
    for (table, parts, rows, bytes) in client.query(statement).fetch_all::<(String, u64, u64, u64)>().await? {
        println!("{table}: {rows} rows in {parts} parts, {:.1} bytes each with indexes and projections", each(bytes, rows));
        all += bytes;
        observations += if table == OBSERVATIONS { rows } else { 0 };
    }
    println!("all tables: {:.1} bytes an observation", each(all, observations));
    print_delta(client).await
}

/// How much of the index is not compacted.
async fn print_delta(client: &clickhouse::Client) -> anyhow::Result<()> {
    let statement = "SELECT countIf(tier = 'delta'), count() FROM retrieval_index";
    let (delta, rows): (u64, u64) = client.query(statement).fetch_one().await?;
    println!("retrieval_index: {delta} of {rows} rows in the delta");
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn each(bytes: u64, rows: u64) -> f64 {
    bytes as f64 / rows.max(1) as f64
}

fn print_line(days: &str, what: &str, quantiles: &Quantiles, floor: f64) {
    let ratio = quantiles.p50_ms / floor;
    println!("{days:>8}  {what:34} {:>10.1} {:>10.1} {ratio:>10.1}", quantiles.p50_ms, quantiles.p99_ms);
}
