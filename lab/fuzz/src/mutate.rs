//! Generates inputs by mutating seeds. The same seed number gives the same inputs.

use crate::Target;
use anyhow::Context;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::ops::Range;
use std::path::Path;

/// Longest input in bytes. Tests of the size limits use longer ones.
const MAX_BYTES: usize = 16 * 1024;
/// Text fragments that mean something to one of the parsers.
#[rustfmt::skip]
const PIECES: &[&str] = &[
    "null", "true", "{", "}", "[", "]", "\"", ",", ":", "{}", "[]", "\\u0000", "\\ud800", "\\ud83d\\ude00", "\\\"", "\\",
    "-0", "1e400", "18446744073709551616", "0.1", "2026-01-01T00:00:00Z", "2026-01-01", "+05:00", "-23:59", " ", "%00", "%2B",
    "%63tx=", "ctx=", "ctx_", "&", "=", "?", "since=", "until=", "svc_pk_", "svc_pub_", "@", "#", "/", "..", ".", "。", "[::1]",
    "0x7f.1", "xn--", "*.", "_", ":443", "\"ip_hash\":1,", "ip\\u005fhash", "é", "\u{feff}", "\u{202e}", "\u{ad}", "\0", "\r\n",
    "\t", "urn:uuid:",
];
/// Replacements for JSON values.
#[rustfmt::skip]
const VALUES: &[&str] = &[
    "null", "true", "7", "-1", "1e400", "18446744073709551616", "[]", "{}", "[[1]]", "{\"a\":{\"ip_hash\":1}}", "\"\"",
    "\"content_retrieved\"", "\"content_displayed\"", "\"content_engaged\"", "\"turn_completed\"", "\"checkout_completed\"",
    "\"com.example.x\"", "\"edge\"", "\"origin\"", "\"index\"", "\"agent\"", "\"full\"", "\"minimal\"", "\"0.1\"", "\"1.0\"",
    "\"2026-03-28T08:20:00Z\"", "\"2016-12-31T23:59:60.9Z\"", "\"2026-03-28T08:20:00.0001-12:00\"", "\"660e8400e29b41d4a716446655440007\"",
    "\"https://u:p@Example.com.:443/ü?ctx=1&%63tx=2#f\"", "\"http://[::1]/\"", "\"\\u0000\"", "\"\\ud800\"", "\"ip_hash\"",
    "\"privacy_level\"", "\"query_text\"", "\"turn\"", "\"data\"", "\"id\"", "\"bot_category\"", "\"purpose\"", "\"unclassified\"",
];

pub struct Inputs {
    seeds: Vec<Vec<u8>>,
    random: StdRng,
}

impl Inputs {
    /// Loads a target's seeds. Fails if there are none.
    pub fn for_target(target: &Target, seed: u64) -> anyhow::Result<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target.name);
        let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot read the seeds in {}", folder.display()))?;
        let mut files = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
        files.sort();
        let seeds = files.iter().map(|file| Ok(std::fs::read(file)?)).collect::<anyhow::Result<Vec<_>>>()?;
        anyhow::ensure!(!seeds.is_empty(), "{} has no seeds", folder.display());
        Ok(Self { seeds, random: StdRng::seed_from_u64(seed) })
    }

    pub fn seeds(&self) -> &[Vec<u8>] {
        &self.seeds
    }

    pub fn next_input(&mut self) -> Vec<u8> {
        let mut input = self.pick();
        for _ in 0..self.random.random_range(1..6) {
            self.mutate(&mut input);
        }
        input.truncate(MAX_BYTES);
        input
    }

    fn pick(&mut self) -> Vec<u8> {
        self.seeds[self.random.random_range(0..self.seeds.len())].clone()
    }

    fn mutate(&mut self, input: &mut Vec<u8>) {
        let at = self.random.random_range(0..=input.len());
        let end = (at + self.random.random_range(0..24)).min(input.len());
        match self.random.random_range(0..10) {
            0 if at < input.len() => input[at] ^= 1 << self.random.random_range(0..8),
            1 => drop(input.drain(at..end)),
            2 => {
                let piece = PIECES[self.random.random_range(0..PIECES.len())];
                input.splice(at..at, piece.bytes());
            }
            3 => {
                let copied = input[at..end].to_vec();
                let to = self.random.random_range(0..=input.len());
                input.splice(to..to, copied);
            }
            4 => {
                let other = self.pick();
                let from = self.random.random_range(0..=other.len());
                input.splice(at..end, other[from..].iter().copied().take(64));
            }
            5 => input.truncate(input.len().min(at.max(1))),
            _ => self.replace_value(input),
        }
    }

    /// Replaces a JSON value with another one, so that most documents remain valid JSON.
    fn replace_value(&mut self, input: &mut Vec<u8>) {
        let literals = literals(input);
        if literals.is_empty() {
            return;
        }
        let place = literals[self.random.random_range(0..literals.len())].clone();
        let value = if self.random.random() {
            VALUES[self.random.random_range(0..VALUES.len())].as_bytes().to_vec()
        } else {
            input[literals[self.random.random_range(0..literals.len())].clone()].to_vec()
        };
        input.splice(place, value);
    }
}

/// Returns the positions of strings, numbers and words in text that resembles JSON.
fn literals(text: &[u8]) -> Vec<Range<usize>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let start = at;
        if text[at] == b'"' {
            at += 1;
            while at < text.len() && text[at] != b'"' {
                at += if text[at] == b'\\' { 2 } else { 1 };
            }
            at = (at + 1).min(text.len());
            found.push(start..at);
        } else if text[at].is_ascii_alphanumeric() || text[at] == b'-' {
            while at < text.len() && matches!(text[at], b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z') {
                at += 1;
            }
            found.push(start..at);
        } else {
            at += 1;
        }
    }
    found
}
