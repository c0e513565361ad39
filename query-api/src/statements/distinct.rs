//! Counts the distinct sessions and responses of lines and of the whole statement, exactly. Sorted runs are in a temporary file
//! without a name, so the memory doesn't grow with their number.

use super::figures::Line;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, Write};
use std::mem;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Entries in memory, 12 bytes each.
const MOST: usize = 1 << 20;
/// Entries that are read at once from a run.
const BLOCK: u64 = 1 << 12;
const BYTES: u64 = 12;
/// Stands for all lines of the statement.
const ALL: u32 = u32::MAX >> 2;

#[derive(Clone, Copy)]
#[repr(u32)]
pub(super) enum Kind {
    Session,
    Request,
    Investigation,
    Response,
}

/// Line and kind, and both halves of the digest.
type Entry = [u32; 3];

pub(super) struct Distinct {
    entries: Vec<Entry>,
    most: usize,
    file: Option<File>,
    runs: Vec<Run>,
}

/// A sorted part of the file, in entries. The next ones are in `block`, in reverse order.
#[derive(Default)]
struct Run {
    rest: Range<u64>,
    block: Vec<Entry>,
}

impl Default for Distinct {
    fn default() -> Self {
        Self { entries: Vec::new(), most: MOST, file: None, runs: Vec::new() }
    }
}

impl Distinct {
    pub(super) fn add(&mut self, line: usize, kind: Kind, digest: u64) -> io::Result<()> {
        let line = u32::try_from(line).unwrap_or(ALL);
        self.push(line, kind, digest)?;
        if matches!(kind, Kind::Session | Kind::Response) { self.push(ALL, kind, digest) } else { Ok(()) }
    }

    fn push(&mut self, line: u32, kind: Kind, digest: u64) -> io::Result<()> {
        if self.entries.len() >= self.most {
            self.sort();
            if self.entries.len() > self.most / 2 {
                self.store()?;
            }
        }
        self.entries.push([line << 2 | kind as u32, (digest >> 32) as u32, digest as u32]);
        Ok(())
    }

    fn sort(&mut self) {
        self.entries.sort_unstable();
        self.entries.dedup();
    }

    fn store(&mut self) -> io::Result<()> {
        let file = if let Some(file) = &mut self.file { file } else { self.file.insert(tempfile::tempfile()?) };
        file.write_all(&self.entries.iter().flatten().flat_map(|part| part.to_le_bytes()).collect::<Vec<u8>>())?;
        let begin = self.runs.last().map_or(0, |run| run.rest.end);
        self.runs.push(Run { rest: begin..begin + self.entries.len() as u64, block: Vec::new() });
        self.entries.clear();
        Ok(())
    }

    /// Adds the figures to the lines. Returns the distinct sessions and responses of the statement.
    pub(super) fn finish(mut self, lines: &mut [Line]) -> io::Result<(u64, u64)> {
        self.sort();
        let in_memory = Run { block: mem::take(&mut self.entries).into_iter().rev().collect(), ..Run::default() };
        let mut runs: Vec<Run> = self.runs.drain(..).chain([in_memory]).collect();
        let (mut next, mut last, mut of_all) = (BinaryHeap::new(), None, [0, 0]);
        for (number, run) in runs.iter_mut().enumerate() {
            next.extend(run.next(self.file.as_ref())?.map(|entry| Reverse((entry, number))));
        }
        while let Some(Reverse((entry, number))) = next.pop() {
            next.extend(runs[number].next(self.file.as_ref())?.map(|entry| Reverse((entry, number))));
            if last.replace(entry) == Some(entry) {
                continue;
            }
            let (line, kind) = (entry[0] >> 2, entry[0] & 3);
            if line == ALL {
                of_all[usize::from(kind == Kind::Response as u32)] += 1;
                continue;
            }
            let line = &mut lines[line as usize];
            *match kind {
                0 => &mut line.sessions,
                1 => &mut line.counter.unique_requests,
                2 => &mut line.counter.unique_investigations,
                _ => &mut line.counter.responses,
            } += 1;
        }
        Ok((of_all[0], of_all[1]))
    }
}

impl Run {
    fn next(&mut self, file: Option<&File>) -> io::Result<Option<Entry>> {
        if let (true, false, Some(file)) = (self.block.is_empty(), self.rest.is_empty(), file) {
            let count = BLOCK.min(self.rest.end - self.rest.start);
            let mut bytes = vec![0; usize::try_from(count * BYTES).unwrap_or_default()];
            file.read_exact_at(&mut bytes, self.rest.start * BYTES)?;
            self.rest.start += count;
            let part = |bytes: &[u8], n: usize| u32::from_le_bytes([bytes[n], bytes[n + 1], bytes[n + 2], bytes[n + 3]]);
            let entries = bytes.chunks_exact(12).rev().map(|bytes| [0, 4, 8].map(|n| part(bytes, n)));
            self.block.extend(entries);
        }
        Ok(self.block.pop())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};
    use service_kit::testing::random_seed;
    use std::collections::HashSet;

    #[test]
    fn counts_like_a_set_with_few_entries_in_memory() {
        const KINDS: [Kind; 4] = [Kind::Session, Kind::Request, Kind::Investigation, Kind::Response];
        let random = &mut StdRng::seed_from_u64(random_seed());
        for (most, digests) in [(4, 3), (7, 1_000), (64, 20), (100, u64::MAX), (5_000, u64::MAX)] {
            let mut distinct = Distinct { most, ..Distinct::default() };
            let mut expected = HashSet::new();
            for _ in 0..20_000 {
                let (line, kind) = (random.random_range(0..5_usize), random.random_range(0..4_usize));
                let digest = random.random_range(0..=digests);
                distinct.add(line, KINDS[kind], digest).unwrap();
                expected.insert((line, kind, digest));
                assert!(distinct.entries.len() <= most);
            }
            let mut lines = vec![Line::default(); 5];
            let found = distinct.finish(&mut lines).unwrap();
            let of_all = |kind: usize| {
                expected.iter().filter(|(_, of, _)| *of == kind).map(|(.., digest)| digest).collect::<HashSet<_>>().len() as u64
            };
            assert_eq!(found, (of_all(0), of_all(3)), "{most} {digests}");
            for (number, line) in lines.iter().enumerate() {
                let count = |kind| expected.iter().filter(|(line, of, _)| (*line, *of) == (number, kind)).count() as u64;
                let counter = &line.counter;
                let found = [line.sessions, counter.unique_requests, counter.unique_investigations, counter.responses];
                assert_eq!(found, [0, 1, 2, 3].map(count), "{most} {digests}");
            }
        }
    }
}
