//! Sends 1 GiB of NDJSON to a gateway process with Kafka, and measures its memory and CPU time.

use super::{MIB, float};
use crate::client::{Connection, Endpoint, Exchange};
use crate::log_lines::{BOT_EVERY, Format, Lines};
use crate::options::DrainOptions;
use crate::processes::{ProcessMeter, peak_rss_mib};
use crate::test_bed::{Service, TestBed};
use crate::workload::ROLES;
use anyhow::{Context as _, bail, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Bytes;
use hyper::header::HeaderValue;
use schemas::event::SourceRole;
use serde::Deserialize;
use service_kit::clock::Clock;
use std::io::Write as _;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const WANTED_MIB: f64 = 256.0;
/// The gateway's limits for a body. The limit for compressed bodies has a margin.
const MOST_BYTES: u64 = 1024 * 1024 * 1024;
const MOST_LINES: u64 = 1_000_000;
const MOST_WIRE_BYTES: usize = 63 * 1024 * 1024;
/// Longer than the gateway's own time limit for a body.
const DEADLINE: Duration = Duration::from_secs(40);

#[derive(Clone)]
struct Part {
    lines: u64,
    bytes: u64,
    gzip: Bytes,
}

#[derive(Deserialize)]
struct Accepted {
    lines: u64,
    kept: u64,
}

pub(super) async fn run(options: &DrainOptions) -> anyhow::Result<()> {
    let parts = parts(options)?;
    let stage = TestBed::find_or_start(&options.place(), 1).await?;
    let outcome = send(options, &stage, &parts).await;
    stage.tear_down(outcome.is_err()).await?;
    outcome
}

async fn send(options: &DrainOptions, stage: &TestBed, parts: &[Part]) -> anyhow::Result<()> {
    let name = Service::Gateway.name();
    let gateway = stage.measured_processes().into_iter().find(|watched| watched.name == name).context("there is a gateway")?;
    let before_mib = peak_rss_mib(gateway.pid).context("the memory of processes is unavailable on this system")?;
    let keys = stage.tenants.iter().flat_map(|tenant| ROLES.into_iter().zip(&tenant.keys));
    let key = keys.into_iter().find(|(role, _)| *role == SourceRole::Edge).context("an edge reports for a tenant")?.1;
    let watch = ProcessMeter::begin(std::slice::from_ref(&gateway));
    let begun = Instant::now();
    let kept = post_all(options, stage, key, parts).await?;
    let took = begun.elapsed();
    let peak_mib = peak_rss_mib(gateway.pid).context("the gateway has ended")?;
    let cpu_seconds = watch.end().first().map_or(0.0, |cost| cost.cpu_seconds);
    let sum = |of: fn(&Part) -> u64| parts.iter().map(of).sum::<u64>();
    let (lines, bytes, wire_bytes) = (sum(|part| part.lines), sum(|part| part.bytes), sum(|part| part.gzip.len() as u64));
    println!(
        "D2  {:.1} MiB of NDJSON, {:.1} MiB of gzip, in {} bodies, {} at a time: {lines} lines, {kept} kept, acknowledged after {took:.1?}",
        float(bytes) / MIB,
        float(wire_bytes) / MIB,
        parts.len(),
        options.at_once
    );
    println!("    peak RSS of the gateway {before_mib:.0} → {peak_mib:.0} MiB (target ≤ {WANTED_MIB:.0})");
    println!("    CPU of the gateway {cpu_seconds:.1} s, {:.0} lines per CPU-second", float(lines) / cpu_seconds.max(0.01));
    Ok(())
}

/// Sends the bodies, `at_once` at a time. Returns the number of stored lines.
async fn post_all(options: &DrainOptions, stage: &TestBed, key: &HeaderValue, parts: &[Part]) -> anyhow::Result<u64> {
    let (mut posts, mut kept) = (JoinSet::new(), 0);
    for part in parts {
        if posts.len() >= usize::from(options.at_once) {
            kept += posts.join_next().await.context("requests are in flight")???;
        }
        posts.spawn(post(stage.ingest.clone(), key.clone(), part.clone()));
    }
    while let Some(posted) = posts.join_next().await {
        kept += posted??;
    }
    Ok(kept)
}

/// Sends a body and returns the number of stored lines.
async fn post(place: Endpoint, key: HeaderValue, part: Part) -> anyhow::Result<u64> {
    let mut connection = Connection::new(place, DEADLINE);
    let answer = match connection.post_gzip("/drains/ndjson", &key, "load-drains", part.gzip).await {
        Exchange::Responded(answer) => answer,
        Exchange::NeverSent(why) | Exchange::Lost(why) => bail!("a body got no response: {why}"),
    };
    let said = String::from_utf8_lossy(&answer.body);
    ensure!(answer.status == 200, "a body was rejected with {}: {said}", answer.status);
    let counted: Accepted = serde_json::from_str(&said).with_context(|| format!("the response has no counts: {said}"))?;
    let wanted = (part.lines, part.lines / u64::from(BOT_EVERY));
    ensure!((counted.lines, counted.kept) == wanted, "{} lines, {} kept of {wanted:?}", counted.lines, counted.kept);
    Ok(counted.kept)
}

/// Splits the configured number of bytes into as few bodies as possible.
fn parts(options: &DrainOptions) -> anyhow::Result<Vec<Part>> {
    let (mut parts, mut left) = (Vec::new(), options.bytes);
    let mut writer = Lines::new(Format::Ndjson, Clock::System.now(), options.line_bytes.into());
    while left > 0 {
        let part = part(&mut writer, left)?;
        left = left.saturating_sub(part.bytes);
        parts.push(part);
    }
    Ok(parts)
}

fn part(writer: &mut Lines, wanted: u64) -> anyhow::Result<Part> {
    let (mut encoder, mut line) = (GzEncoder::new(Vec::new(), Compression::default()), Vec::new());
    let (mut lines, mut bytes) = (0, 0);
    loop {
        line.clear();
        writer.write(false, &mut line);
        let is_full = lines == MOST_LINES || bytes + line.len() as u64 > MOST_BYTES || encoder.get_ref().len() > MOST_WIRE_BYTES;
        if is_full || bytes >= wanted {
            return Ok(Part { lines, bytes, gzip: encoder.finish()?.into() });
        }
        encoder.write_all(&line)?;
        lines += 1;
        bytes += line.len() as u64;
    }
}
