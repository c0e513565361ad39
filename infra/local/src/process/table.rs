//! Reads the system's process table: `/proc` on Linux, `ps` elsewhere.

/// A row of the process table.
pub(super) struct Row {
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) is_zombie: bool,
    pub(super) started: u64,
    pub(super) arguments: Vec<String>,
}

#[cfg(target_os = "linux")]
pub(super) fn row(pid: u32) -> Option<Row> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, which can contain spaces and parentheses.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    Some(Row {
        pid,
        is_zombie: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
        arguments: arguments.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned()).collect(),
    })
}

#[cfg(target_os = "linux")]
pub(super) fn rows() -> Vec<Row> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).filter_map(row).collect()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn row(pid: u32) -> Option<Row> {
    rows().into_iter().find(|row| row.pid == pid)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn rows() -> Vec<Row> {
    let listing = std::process::Command::new("ps").args(["-axo", "pid=,ppid=,stat=,lstart=,command="]).output();
    let listing = listing.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&listing).lines().filter_map(parse).collect()
}

/// Parses `pid ppid stat Mon Nov 21 09:41:00 2026 command…`. The start time is hashed, because it is only compared.
#[cfg(not(target_os = "linux"))]
fn parse(line: &str) -> Option<Row> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut started = DefaultHasher::new();
    words.get(3..8)?.hash(&mut started);
    Some(Row {
        pid: words.first()?.parse().ok()?,
        parent: words.get(1)?.parse().ok()?,
        is_zombie: words.get(2)?.starts_with('Z'),
        started: started.finish(),
        arguments: words.get(8..)?.iter().map(ToString::to_string).collect(),
    })
}
