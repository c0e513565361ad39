//! Measures the CPU time and resident memory of processes, from `/proc`.

use crate::drive::lock;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::collections::HashMap;
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasuredProcess {
    pub name: String,
    pub pid: u32,
    /// Whether others may be using the process too.
    pub is_shared: bool,
}

/// A process's CPU time and memory during a measurement.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Cost {
    pub name: String,
    pub cpu_seconds: f64,
    pub rss_before_mib: f64,
    pub rss_most_mib: f64,
    /// Whether the costs may include work for others.
    pub is_shared: bool,
}

/// Measures from its creation until [`ProcessMeter::end`].
#[derive(Debug)]
pub struct ProcessMeter {
    processes: Vec<MeasuredProcess>,
    before: Vec<Usage>,
    most_kib: Arc<Mutex<Vec<u64>>>,
    stop: CancellationToken,
}

#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    ticks: u64,
    rss_kib: u64,
}

/// The relevant fields of `/proc/<pid>/stat`.
struct Row {
    pid: u32,
    parent: u32,
    /// CPU time of the process itself. The next field is that of its ended children.
    ticks: u64,
    ended_children_ticks: u64,
}

impl ProcessMeter {
    pub fn begin(watched: &[MeasuredProcess]) -> Self {
        let before = usages(watched);
        let most_kib = Arc::new(Mutex::new(before.iter().map(|usage| usage.rss_kib).collect()));
        let watch = Self { processes: watched.to_vec(), before, most_kib, stop: CancellationToken::new() };
        tokio::spawn(keep_sampling(watch.processes.clone(), Arc::clone(&watch.most_kib), watch.stop.clone()));
        watch
    }

    pub fn end(self) -> Vec<Cost> {
        self.stop.cancel();
        let after = usages(&self.processes);
        record_peaks(&self.most_kib, &after);
        let most = lock(&self.most_kib).clone();
        let cost = |(place, watched): (usize, &MeasuredProcess)| Cost {
            name: watched.name.clone(),
            cpu_seconds: seconds(after[place].ticks.saturating_sub(self.before[place].ticks)),
            rss_before_mib: mib(self.before[place].rss_kib),
            rss_most_mib: mib(most[place]),
            is_shared: watched.is_shared,
        };
        self.processes.iter().enumerate().map(cost).collect()
    }
}

impl Drop for ProcessMeter {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn keep_sampling(watched: Vec<MeasuredProcess>, most_kib: Arc<Mutex<Vec<u64>>>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        let watched = watched.clone();
        // Reading /proc for many processes would block the senders.
        let Ok(usages) = tokio::task::spawn_blocking(move || usages(&watched)).await else { return };
        record_peaks(&most_kib, &usages);
    }
}

fn record_peaks(most_kib: &Mutex<Vec<u64>>, usages: &[Usage]) {
    for (most, usage) in lock(most_kib).iter_mut().zip(usages) {
        *most = usage.rss_kib.max(*most);
    }
}

/// Returns each process's usage including its children, or zeros if the process has ended.
fn usages(watched: &[MeasuredProcess]) -> Vec<Usage> {
    let rows = rows();
    let mut children: HashMap<u32, Vec<&Row>> = HashMap::new();
    for row in &rows {
        children.entry(row.parent).or_default().push(row);
    }
    let usage_of = |root: &MeasuredProcess| {
        let mut usage = Usage::default();
        let mut left: Vec<&Row> = rows.iter().filter(|row| row.pid == root.pid).collect();
        while let Some(row) = left.pop() {
            usage.ticks += row.ticks + row.ended_children_ticks;
            usage.rss_kib += rss_kib(row.pid);
            left.extend(children.get(&row.pid).into_iter().flatten());
        }
        usage
    };
    watched.iter().map(usage_of).collect()
}

fn rows() -> Vec<Row> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| row(entry.file_name().to_str()?.parse().ok()?)).collect()
}

fn row(pid: u32) -> Option<Row> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain any character.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |place: usize| fields.get(place)?.parse::<u64>().ok();
    Some(Row {
        pid,
        parent: u32::try_from(number(1)?).ok()?,
        ticks: number(11)? + number(12)?,
        ended_children_ticks: number(13)? + number(14)?,
    })
}

fn rss_kib(pid: u32) -> u64 {
    status_kib(pid, "VmRSS:").unwrap_or(0)
}

/// Returns a process's peak resident memory without its children, in MiB.
pub fn peak_rss_mib(pid: u32) -> Option<f64> {
    status_kib(pid, "VmHWM:").map(mib)
}

fn status_kib(pid: u32, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

pub(crate) fn thread_cpu() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), u32::try_from(used.tv_nsec).unwrap_or(0))
}

#[expect(clippy::cast_precision_loss, reason = "only for display")]
fn seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

#[expect(clippy::cast_precision_loss, reason = "only for display")]
fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

/// Returns the process that listens on a port of this machine, if this user may see it.
pub fn listener_on(port: u16) -> Option<u32> {
    let inode = ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().find_map(|table| listening_inode(table, port))?;
    let socket = format!("socket:[{inode}]");
    rows().into_iter().map(|row| row.pid).find(|pid| {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        descriptors.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|target| target.as_os_str() == socket.as_str())
    })
}

fn listening_inode(table: &str, port: u16) -> Option<String> {
    const LISTENING: &str = "0A";
    let text = fs::read_to_string(table).ok()?;
    let local = format!(":{port:04X}");
    let line = text.lines().find(|line| {
        let mut fields = line.split_whitespace();
        fields.nth(1).is_some_and(|address| address.ends_with(&local)) && fields.nth(1) == Some(LISTENING)
    })?;
    line.split_whitespace().nth(9).map(str::to_owned)
}
