//! D2: measures what CDN logs cost the gateway: lines per second and core by format, compared with a baseline from the same run, and the
//! memory of a gateway process that receives 1 GiB.

mod gateway_process;

use crate::Verdict;
use crate::log_lines::{BOT_EVERY, Format, Lines};
use crate::options::DrainOptions;
use crate::processes::thread_cpu;
use anyhow::ensure;
use chrono::{DateTime, Utc};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use hyper::body::Bytes;
use ingest_gateway::DrainDryRun;
use schemas::bots::BotTable;
use schemas::site::Site;
use service_kit::clock::Clock;
use std::io::{BufRead as _, BufReader, Cursor, Write as _};
use std::time::Duration;

const WANTED_LINES: f64 = 400_000.0;
const CHUNK_BYTES: usize = 64 * 1024;
const MIB: f64 = 1024.0 * 1024.0;

/// Prints the table and, unless disabled, the cost of a gateway process.
pub async fn run(options: &DrainOptions) -> anyhow::Result<Verdict> {
    measure_formats(options)?;
    if !options.without_gateway {
        gateway_process::run(options).await?;
    }
    Ok(Verdict::Clean)
}

struct Body {
    format: Format,
    lines: u64,
    kept: u64,
    bytes: u64,
    gzip: Bytes,
}

fn measure_formats(options: &DrainOptions) -> anyhow::Result<()> {
    println!(
        "D2  lines/s of one core: unpacked, parsed, classified, dropped or stored; gzip, 1 line in {BOT_EVERY} is from an AI agent"
    );
    println!("    {:<18}{:>10}{:>10}{:>12}{:>12}{:>10}{:>10}", "format", "lines", "MiB", "lines/s", "baseline¹", "÷", "wanted");
    let now = Clock::System.now();
    for format in Format::ALL {
        let body = body(format, options.lines, now)?;
        let (mut least, mut least_baseline) = (Duration::MAX, Duration::MAX);
        for _ in 0..options.rounds {
            least_baseline = least_baseline.min(cpu(|| split_only(&body))?);
            least = least.min(cpu(|| process_body(&body, now))?);
        }
        let (each, baseline) = (per_second(body.lines, least), per_second(body.lines, least_baseline));
        let (name, lines, mib) = (format.name(), body.lines, float(body.bytes) / MIB);
        println!("    {name:<18}{lines:>10}{mib:>10.1}{each:>12.0}{baseline:>12.0}{:>10.2}{WANTED_LINES:>10.0}", each / baseline);
    }
    println!("    ¹ only decompressed and split at newlines; lowest CPU time of {} rounds each", options.rounds);
    Ok(())
}

fn body(format: Format, lines: u32, now: DateTime<Utc>) -> anyhow::Result<Body> {
    let mut writer = Lines::new(format, now, 0);
    let (mut encoder, mut line, mut bytes) = (GzEncoder::new(Vec::new(), Compression::default()), Vec::new(), 0);
    for nth in 0..lines {
        line.clear();
        writer.write(nth + 1 == lines, &mut line);
        bytes += line.len() as u64;
        encoder.write_all(&line)?;
    }
    Ok(Body { format, lines: lines.into(), kept: (lines / BOT_EVERY).into(), bytes, gzip: encoder.finish()?.into() })
}

fn process_body(body: &Body, now: DateTime<Utc>) -> anyhow::Result<()> {
    let hosts = Site::from_domain("example.com").into_iter().collect();
    let dry_run = DrainDryRun { provider: body.format.provider(), host: None, hosts, bots: BotTable::bundled(), now };
    let (lines, kept) = dry_run.gzip_body(Cursor::new(body.gzip.clone()))?;
    let name = body.format.name();
    ensure!((lines, kept) == (body.lines, body.kept), "{name}: {lines} lines, {kept} kept of {} and {}", body.lines, body.kept);
    Ok(())
}

fn split_only(body: &Body) -> anyhow::Result<()> {
    let inflated = MultiGzDecoder::new(Cursor::new(body.gzip.clone()));
    let (mut reader, mut line, mut lines) = (BufReader::with_capacity(CHUNK_BYTES, inflated), Vec::new(), 0);
    while reader.read_until(b'\n', &mut line)? > 0 {
        lines += 1;
        line.clear();
    }
    ensure!(lines == body.lines, "{}: split into {lines}", body.format.name());
    Ok(())
}

/// Returns the CPU time that `work` takes on this thread.
fn cpu(work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Duration> {
    let before = thread_cpu();
    work()?;
    Ok(thread_cpu().saturating_sub(before))
}

fn per_second(lines: u64, took: Duration) -> f64 {
    float(lines) / took.as_secs_f64().max(1e-9)
}

#[expect(clippy::cast_precision_loss, reason = "only for display")]
fn float(number: u64) -> f64 {
    number as f64
}
