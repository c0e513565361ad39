//! Measures reads: fills the real store with a year of reports, reads over HTTP with periods of different lengths, and compares the times
//! with simpler SQL statements in the same run.
//!
//! The reports are inserted without the log, which is faster and stores the same rows.

mod growth;
mod history;
mod manifests;
mod reporter_reads;
mod plan_cost;
mod windows;

use crate::Verdict;
use crate::client::{Connection, Endpoint, Exchange};
use crate::drive::Latencies;
use crate::options::ReadBenchOptions;
use crate::report::Quantiles;
use crate::tenants;
use crate::test_bed::FreshStores;
use anyhow::{Context as _, ensure};
use history::{ReportGenerator, Span};
use hyper::header::HeaderValue;
use local::stack::Endpoints;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use schemas::event::SourceRole;
use schemas::event_key::{EventKey, OwnId};
use schemas::ids::OrgId;
use schemas::log::LogRecord;
use service_kit::server;
use std::time::{Duration, Instant};
use stream_workers::EventLoader;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Reports per block, as many as the worker uses.
const BLOCK: usize = 90_000;
const DAY_MS: i64 = 86_400_000;
/// Period lengths in days. The second has a thirtieth of a year's events; the last is unlimited.
const WINDOWS: [i64; 4] = [1, 12, 30, EVERYTHING];
const EVERYTHING: i64 = 1_001;
/// One in this many batches is reported again.
const REPEATED: usize = 20;
const WARM_UP: usize = 2;
const READS: [(&str, &str); 4] = [
    ("summary", "/content-owners/summary?"),
    ("events", "/content-owners/events?"),
    ("urls", "/content-owners/urls?limit=20&"),
    ("series by day", "/content-owners/series?by=day&"),
];
/// Reads that are less common in practice.
const OTHERS: [(&str, &str); 5] = [
    ("crawlers", "/content-owners/crawlers?"),
    ("corroboration", "/content-owners/corroboration?"),
    ("funnel by agent", "/content-owners/funnel?"),
    ("funnel by url", "/content-owners/funnel?by=url&"),
    ("funnel by day", "/content-owners/funnel?by=day&"),
];
/// Reads of a platform's own reports.
const OWN: [(&str, &str); 1] = [("agent/events", "/agent/events?")];

/// Simpler statements that count the owner's events, for comparison: one doesn't merge row versions, so it isn't exact, and one does.
/// `{site}` is replaced with the condition on the owner's sites.
const ALTERNATIVES: [(&str, &str); 2] = [
    ("rows, not exact", "SELECT type, count() FROM events WHERE {site} GROUP BY type"),
    (
        "rows, exact",
        "SELECT type, count() FROM events FINAL WHERE {site} GROUP BY type \
         SETTINGS do_not_merge_across_partitions_select_final = 1",
    ),
];
/// The organization that also claims another agent's fetch.
const SECOND_CLAIMANT: OrgId = OrgId(Uuid::from_u128(0x7000));

/// Median time of a read without a period.
struct Measured {
    what: String,
    p50_ms: f64,
}

/// Fills a store and measures it. With `--growth`, also measures two smaller stores.
pub async fn run(options: &ReadBenchOptions, stop: CancellationToken) -> anyhow::Result<Verdict> {
    if let Some(runs) = options.plan {
        plan_cost::run(runs, &stop).await?;
        return Ok(Verdict::Clean);
    }
    let options = &options.resolved();
    let whole = measure_one(options, &stop).await?;
    let mut smaller = Vec::new();
    for store in options.growth.then(|| growth::smaller(options)).into_iter().flatten() {
        println!("\n{} reports, one in {} about the owner", store.options.reports, store.options.share);
        let measured = measure_one(&store.options, &stop).await?;
        smaller.push((store, measured));
    }
    smaller.iter().for_each(|(store, measured)| store.print(measured, &whole));
    Ok(Verdict::Clean)
}

async fn measure_one(options: &ReadBenchOptions, stop: &CancellationToken) -> anyhow::Result<Vec<Measured>> {
    let name = crate::test_bed::run_name();
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
    let tenant = tenants::seed(&stores.pool, name, 1).await?.pop().context("one tenant was requested")?;
    let client = service_kit::databases::clickhouse(&stores.addresses.clickhouse)?;
    let mut loader = EventLoader::connect(&stores.addresses.clickhouse).await?;
    fill(options, &mut loader, &tenant.domain, stop).await?;
    print_size(&client).await?;
    repeat(options, &mut loader, &tenant.domain).await?;

    let (place, serving) = serve_reads(stores, stop).await?;
    let mut connection = Connection::new(place, Duration::from_secs(90));

    println!("{:>8}  {:34} {:>10} {:>10} {:>10}", "days", "read", "p50 ms", "p99 ms", "x floor");
    let random = SmallRng::seed_from_u64(options.seed);
    let site = reversed(&tenant.domain);
    let range = format!("(site = '{site}' OR startsWith(site, '{site}.'))");
    let floor = measure_alternatives(&client, &range, options.runs.div_ceil(4)).await?;
    let latencies = manifests::measure(stores, &client, &mut connection, options.runs).await?;
    print_line("-", "manifest of a click token", &Quantiles::from(&latencies), floor);
    let reporter = reporter_reads::Reporter::find(stores, &client).await?;
    let latencies = reporter.documents(&mut connection, options.runs).await?;
    print_line("-", "document of a session", &Quantiles::from(&latencies), floor);
    let span = Span::last_days(options.days.into());
    let (key, of_everything) = (tenant.owner_key.clone(), Vec::new());
    let mut reader = Reader { connection, key, random, span, floor, runs: options.runs, of_everything };
    for days in WINDOWS {
        reader.measure_window(days, "", &READS).await?;
    }
    for days in [30, EVERYTHING] {
        reader.measure_window(days, "", &OTHERS).await?;
    }
    let end_of_arrivals = stop.child_token();
    let arriving = tokio::spawn(arrive(options.clone(), loader, tenant.domain.clone(), end_of_arrivals.clone()));
    let measured = reader.measure_window(EVERYTHING, ", rows arriving", &READS).await;
    end_of_arrivals.cancel();
    let mut loader = arriving.await??;
    measured?;
    claim_twice(options, &mut loader, &tenant.domain).await?;
    for days in [EVERYTHING, 30] {
        reader.measure_window(days, ", one claimed twice", &READS).await?;
    }
    if options.windows {
        windows::measure(&mut reader.connection, &reader.key, &client, span).await?;
    }
    reader.key = reporter.key.clone();
    for days in WINDOWS {
        reader.measure_window(days, "", &OWN).await?;
    }
    serving.abort();
    Ok(reader.of_everything)
}

/// Measures the statements in [`ALTERNATIVES`]. Returns the median of the first one in milliseconds.
async fn measure_alternatives(client: &clickhouse::Client, range: &str, runs: usize) -> anyhow::Result<f64> {
    let mut floor = 0.0;
    for (what, statement) in ALTERNATIVES {
        let statement = format!("SELECT * FROM ({}) FORMAT Null", statement.replace("{site}", range));
        let mut latencies = Latencies::default();
        for nth in 0..runs + WARM_UP {
            let begun = Instant::now();
            client.query(&statement).execute().await?;
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

/// Serves the reads from these stores in this process, without the lookup limit.
async fn serve_reads(stores: &FreshStores, stop: &CancellationToken) -> anyhow::Result<(Endpoint, JoinHandle<()>)> {
    let settings = query_api::Settings {
        clicks: query_api::ClickSettings { click_lookup_rate: 0 },
        ..query_api::Settings::with_stores(stores.addresses.clickhouse.clone(), stores.addresses.postgres.clone())
    };
    let state = query_api::State::connect(&settings).await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let place = Endpoint::parse(&format!("http://{}", listener.local_addr()?))?;
    let limits = server::ServerLimits::default();
    let serving = tokio::spawn(server::serve(listener, query_api::router(state), limits, stop.child_token()));
    Ok((place, serving))
}

struct Reader {
    connection: Connection,
    key: HeaderValue,
    random: SmallRng,
    span: Span,
    floor: f64,
    runs: usize,
    of_everything: Vec<Measured>,
}

impl Reader {
    /// Measures each read over periods of this many days.
    async fn measure_window(&mut self, days: i64, beside: &str, reads: &[(&str, &str)]) -> anyhow::Result<()> {
        // Skip periods that happen to cover everything, except for the unlimited one.
        if days >= self.span.days && days != EVERYTHING {
            return Ok(());
        }
        for (what, path) in reads {
            let mut latencies = Latencies::default();
            for nth in 0..self.runs.div_ceil(WINDOWS.len()) + WARM_UP {
                let path = format!("{path}{}", self.span.window(days * DAY_MS, |free| self.random.random_range(free)));
                let begun = Instant::now();
                let Exchange::Responded(answer) = self.connection.get(&path, &self.key).await else {
                    anyhow::bail!("{path} got no response");
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
            let window = if days >= self.span.days { "all".to_owned() } else { days.to_string() };
            print_line(&window, &what, &quantiles, self.floor);
            if days >= self.span.days {
                self.of_everything.push(Measured { what, p50_ms: quantiles.p50_ms });
            }
        }
        Ok(())
    }
}

/// Inserts more reports until `stop`. Returns the loader.
async fn arrive(
    options: ReadBenchOptions,
    mut loader: EventLoader,
    domain: String,
    stop: CancellationToken,
) -> anyhow::Result<EventLoader> {
    let more = ReadBenchOptions { seed: options.seed.wrapping_add(1), reports: u64::MAX / 2, ..options };
    let (mut block, mut reports) = (Vec::new(), 0);
    let mut tick = tokio::time::interval(Duration::from_millis(500));
    for records in ReportGenerator::new(&more, &domain) {
        reports += events_of(&records);
        block.extend(records);
        if reports >= more.ingest / 2 {
            tokio::select! {
                () = stop.cancelled() => break,
                _ = tick.tick() => loader.insert(std::mem::take(&mut block)).await?,
            }
            reports = 0;
        }
    }
    Ok(loader)
}

async fn fill(
    options: &ReadBenchOptions,
    loader: &mut EventLoader,
    domain: &str,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let (begun, mut block, mut reports, mut filled) = (Instant::now(), Vec::new(), 0, 0);
    for records in ReportGenerator::new(options, domain) {
        ensure!(!stop.is_cancelled(), "stopped");
        reports += events_of(&records);
        block.extend(records);
        if reports >= BLOCK as u64 {
            loader.insert(std::mem::take(&mut block)).await?;
            filled += std::mem::take(&mut reports);
            eprint!("\rfilled {filled} of {} in {:.0?} ", options.reports, begun.elapsed());
        }
    }
    loader.insert(block).await?;
    eprintln!("\rfilled {} in {:.0?}          ", filled + reports, begun.elapsed());
    Ok(())
}

/// Repeats one in [`REPEATED`] batches one second later, spread over the whole time.
async fn repeat(options: &ReadBenchOptions, loader: &mut EventLoader, domain: &str) -> anyhow::Result<()> {
    let (mut block, mut reports, mut repeated) = (Vec::new(), 0, 0);
    for mut records in ReportGenerator::new(options, domain).step_by(REPEATED) {
        records.iter_mut().for_each(|record| record.received_at_us += 1_000_000);
        reports += events_of(&records);
        block.extend(records);
        if reports >= BLOCK as u64 {
            loader.insert(std::mem::take(&mut block)).await?;
            repeated += std::mem::take(&mut reports);
        }
    }
    loader.insert(block).await?;
    println!("{} reports sent again", repeated + reports);
    Ok(())
}

/// Reports a second agent's fetch of the owner's content.
async fn claim_twice(options: &ReadBenchOptions, loader: &mut EventLoader, domain: &str) -> anyhow::Result<()> {
    let is_owners = |record: &LogRecord| {
        record.events.iter().position(|event| event.correlation_key.is_some() && event.site.starts_with(&reversed(domain)))
    };
    let found =
        ReportGenerator::new(options, domain).flatten().find_map(|record| is_owners(&record).map(|place| (record, place)));
    let (mut record, place) = found.context("the history contains no fetch of the owner's content")?;
    let mut event = record.events.swap_remove(place);
    let id = Uuid::from_u128(0x7001).to_string();
    event.own_key = EventKey::own(&OwnId::Reported { org: SECOND_CLAIMANT, id: &id });
    (event.id, event.source_role) = (Some(id), Some(SourceRole::Agent));
    (record.org, record.events) = (SECOND_CLAIMANT, vec![event]);
    record.received_at_us += 1_000_000;
    loader.insert(vec![record]).await
}

fn events_of(records: &[LogRecord]) -> u64 {
    records.iter().map(|record| record.events.len() as u64).sum()
}

/// Returns a host in the tables' format.
fn reversed(host: &str) -> String {
    host.split('.').rev().collect::<Vec<_>>().join(".")
}

fn instant(ms: i64) -> String {
    let at = chrono::DateTime::from_timestamp_millis(ms).unwrap_or_default();
    at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

async fn print_size(client: &clickhouse::Client) -> anyhow::Result<()> {
    let statement = "SELECT table, count(), sum(rows), sum(bytes_on_disk) FROM system.parts \
                     WHERE active AND database = currentDatabase() GROUP BY table ORDER BY table";
    let (mut all, mut reports) = (0, 0);
    for (table, parts, rows, bytes) in client.query(statement).fetch_all::<(String, u64, u64, u64)>().await? {
        println!("{table}: {rows} rows in {parts} parts, {:.1} bytes each", each(bytes, rows));
        all += bytes;
        reports += if table == "reports" { rows } else { 0 };
    }
    println!("all tables: {:.1} bytes per report", each(all, reports));
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "only for display")]
fn each(bytes: u64, rows: u64) -> f64 {
    bytes as f64 / rows.max(1) as f64
}

fn print_line(days: &str, what: &str, quantiles: &Quantiles, floor: f64) {
    let ratio = quantiles.p50_ms / floor;
    println!("{days:>8}  {what:34} {:>10.1} {:>10.1} {ratio:>10.1}", quantiles.p50_ms, quantiles.p99_ms);
}
