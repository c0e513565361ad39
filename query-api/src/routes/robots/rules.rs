//! Rules of robots.txt files (RFC 9309): which line allows or disallows a path for a bot.

use std::collections::{BTreeMap, HashMap};

/// The file that this path returns, which is always allowed.
const ROBOTS_TXT: &str = "/robots.txt";
/// Name of the group for bots without one of their own.
const EVERY_BOT: &str = "*";
/// Maximum `User-agent`, `Allow` and `Disallow` lines. Later ones are ignored.
pub(super) const MAX_LINES: usize = 10_000;
/// Work of looking at one rule, in bytes compared.
const RULE_WORK: usize = 16;

/// A parsed file. Its memory and the work of a comparison are linear in its size, even if each of many groups lists many bots.
#[derive(Debug, Default)]
pub(crate) struct RobotsRules {
    /// Numbers of the groups that name a bot, ascending, by its product token in lower case.
    groups: HashMap<String, Vec<u32>>,
    /// Sorted by text.
    prefixes: Vec<Prefix>,
}

/// The rules of all groups whose patterns have the same text before the first wildcard.
#[derive(Debug)]
struct Prefix {
    text: Vec<u8>,
    /// Index of the longest other text that this one starts with.
    parent: Option<usize>,
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    group: u32,
    is_allow: bool,
    /// Length of the whole pattern, in the form of [`encoded`].
    length: usize,
    /// The pattern from its first wildcard; empty if it has none.
    rest: Vec<u8>,
    line: RuleLine,
}

/// A line with a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleLine {
    /// Starts at 1.
    pub(crate) number: u64,
    /// Without the comment and surrounding spaces.
    pub(crate) text: String,
}

impl RobotsRules {
    /// Parses a file. Groups with the same bot are one group; unknown lines are ignored.
    pub(crate) fn parse(file: &str) -> Self {
        let (mut groups, mut prefixes) = (HashMap::<String, Vec<u32>>::new(), BTreeMap::<Vec<u8>, Vec<Rule>>::new());
        let (mut group, mut has_rules, mut lines) = (0, false, 0);
        let file = file.trim_start_matches('\u{feff}').replace("\r\n", "\n");
        for (number, line) in (1..).zip(file.split(['\n', '\r'])) {
            let text = line.split('#').next().unwrap_or_default().trim();
            let Some((key, value)) = text.split_once(':') else { continue };
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
            if !matches!(key.as_str(), "user-agent" | "allow" | "disallow") {
                continue;
            }
            lines += 1;
            if lines > MAX_LINES {
                break;
            }
            if key == "user-agent" {
                group += u32::from(has_rules);
                has_rules = false;
                let of_bot = groups.entry(product_token(value)).or_default();
                if of_bot.last() != Some(&group) {
                    of_bot.push(group);
                }
                continue;
            }
            has_rules = true;
            // An empty value matches no path, and a line before the first group applies to no bot.
            if !value.is_empty() && !groups.is_empty() {
                let mut pattern = encoded(value);
                let (length, end) = (pattern.len(), literal_length(&pattern));
                let rest = pattern.split_off(end);
                let line = RuleLine { number, text: text.to_owned() };
                prefixes.entry(pattern).or_default().push(Rule { group, is_allow: key == "allow", length, rest, line });
            }
        }
        Self { groups, prefixes: linked(prefixes) }
    }

    /// Returns the line that disallows a path, with its query, for a bot; `None` if the bot may fetch it. Adds the number of bytes
    /// compared to `work`.
    pub(crate) fn disallowing(&self, bot: &str, path: &str, work: &mut usize) -> Option<&RuleLine> {
        if path == ROBOTS_TXT {
            return None;
        }
        let path = encoded(path);
        let groups = self.groups.get(&bot.to_ascii_lowercase()).or_else(|| self.groups.get(EVERY_BOT))?;
        // All prefixes of the path are prefixes of the last text that isn't after it.
        let mut next = self.prefixes.partition_point(|prefix| prefix.text <= path).checked_sub(1);
        let mut deciding: Option<&Rule> = None;
        while let Some(prefix) = next.and_then(|at| self.prefixes.get(at)) {
            next = prefix.parent;
            *work += prefix.text.len();
            let Some(rest) = path.strip_prefix(prefix.text.as_slice()) else { continue };
            *work += RULE_WORK * prefix.rules.len();
            for rule in &prefix.rules {
                let is_weaker = deciding.is_some_and(|deciding| rule.precedence() < deciding.precedence());
                if is_weaker || groups.binary_search(&rule.group).is_err() {
                    continue;
                }
                *work += if rule.rest.is_empty() { 0 } else { rest.len() + rule.rest.len() };
                if rule.rest.is_empty() || matches(&rule.rest, rest) {
                    deciding = Some(rule);
                }
            }
        }
        deciding.filter(|rule| !rule.is_allow).map(|rule| &rule.line)
    }
}

impl Rule {
    /// The longest pattern applies, and `Allow` takes precedence over an equally long one.
    fn precedence(&self) -> (usize, bool, u64) {
        (self.length, self.is_allow, self.line.number)
    }
}

/// Returns the length of a pattern's text before its first wildcard.
fn literal_length(pattern: &[u8]) -> usize {
    let before_end = pattern.len() - usize::from(pattern.ends_with(b"$"));
    memchr::memchr(b'*', pattern).unwrap_or(before_end)
}

/// Links each text with the longest other one that it starts with.
fn linked(prefixes: BTreeMap<Vec<u8>, Vec<Rule>>) -> Vec<Prefix> {
    let (mut linked, mut open) = (Vec::<Prefix>::with_capacity(prefixes.len()), Vec::<usize>::new());
    for (text, rules) in prefixes {
        while open.last().is_some_and(|last| !text.starts_with(&linked[*last].text)) {
            open.pop();
        }
        let parent = open.last().copied();
        open.push(linked.len());
        linked.push(Prefix { text, parent, rules });
    }
    linked
}

/// Returns the letters, hyphens and underscores that a name starts with, in lower case.
fn product_token(name: &str) -> String {
    if name.starts_with(EVERY_BOT) {
        return EVERY_BOT.to_owned();
    }
    let end =
        name.find(|character: char| !character.is_ascii_alphanumeric() && !matches!(character, '-' | '_')).unwrap_or(name.len());
    name[..end].to_ascii_lowercase()
}

/// Returns a path in the form in which the RFC compares paths: percent-encoded, except unreserved ASCII characters.
fn encoded(path: &str) -> Vec<u8> {
    let (bytes, mut written, mut at) = (path.as_bytes(), Vec::with_capacity(path.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        let digits = if byte == b'%' { bytes.get(at..at + 2).and_then(|digits| str::from_utf8(digits).ok()) } else { None };
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        at += if escaped.is_some() { 2 } else { 0 };
        match escaped {
            Some(byte) if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') => written.push(byte),
            Some(byte) => written.extend(format!("%{byte:02X}").into_bytes()),
            None if byte.is_ascii() => written.push(byte),
            None => written.extend(format!("%{byte:02X}").into_bytes()),
        }
    }
    written
}

/// Returns whether a path starts with a pattern. `*` matches any text, and a final `$` the end of the path.
fn matches(pattern: &[u8], path: &[u8]) -> bool {
    let (pattern, is_whole) = pattern.strip_suffix(b"$").map_or((pattern, false), |start| (start, true));
    let mut parts = pattern.split(|byte| *byte == b'*');
    let Some(mut rest) = parts.next().and_then(|first| path.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return !is_whole || rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if is_whole && parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = find(rest, part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    if part.is_empty() { Some(0) } else { memchr::memmem::find(text, part) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};
    use service_kit::testing::random_seed;

    /// Returns the number and text of the disallowing line.
    fn line(file: &str, bot: &str, path: &str) -> Option<(u64, String)> {
        RobotsRules::parse(file).disallowing(bot, path, &mut 0).map(|line| (line.number, line.text.clone()))
    }

    #[test]
    fn longest_rule_of_the_bots_group_applies() {
        let file = "# comment\r\nUser-agent: GPTBot # OpenAI\r\nUser-agent: CCBot\r\nDisallow: /private/\r\nAllow: /private/open\r\n\r\nUser-agent: *\r\nDisallow: /tmp\r\n";
        let private = Some((4, "Disallow: /private/".to_owned()));
        for (bot, path, expected) in [
            ("GPTBot", "/private/a", private.clone()),
            ("gptbot", "/private/a", private.clone()),
            ("CCBot", "/private/", private),
            ("GPTBot", "/private/open/a", None),
            ("GPTBot", "/tmp", None),
            ("ClaudeBot", "/tmp/a", Some((8, "Disallow: /tmp".to_owned()))),
            ("ClaudeBot", "/private/a", None),
            ("ClaudeBot", "/robots.txt", None),
        ] {
            assert_eq!(line(file, bot, path), expected, "{bot} {path}");
        }
    }

    #[test]
    fn patterns_match_as_in_rfc_9309() {
        for (pattern, path, expected) in [
            ("/a", "/ab", true),
            ("/a$", "/ab", false),
            ("/a$", "/a", true),
            ("/*.pdf$", "/x/y.pdf", true),
            ("/*.pdf$", "/x/y.pdf?a", false),
            ("/*.pdf", "/x/y.pdf?a", true),
            ("*/b", "/a/b", true),
            ("/a*b*c", "/a-b-c", true),
            ("/a*b*c", "/a-c-b", false),
            ("/caf\u{e9}", "/caf%c3%a9/menu", true),
            ("/caf%C3%A9", "/caf\u{e9}", true),
            ("/*", "/", true),
            ("/%61", "/a", true),
            ("/a%2fb", "/a/b", false),
            ("/A", "/a", false),
        ] {
            assert_eq!(matches(&encoded(pattern), &encoded(path)), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn ties_empty_values_and_repeated_groups_follow_the_rfc() {
        let file = "User-agent: a\nDisallow: /x\nAllow: /x\nUser-agent: b\nDisallow:\nUser-agent: a\nDisallow: /y\nSitemap: https://example.com/s";
        assert_eq!(line(file, "a", "/x"), None, "Allow wins a tie");
        assert_eq!(line(file, "b", "/x"), None, "an empty value disallows nothing");
        assert_eq!(line(file, "a", "/y"), Some((7, "Disallow: /y".to_owned())), "groups of one bot are merged");
        assert_eq!(line("", "a", "/x"), None);
    }

    /// Compares with a linear search, on random files.
    #[test]
    fn random_files_decide_as_a_linear_search() {
        let mut random = StdRng::seed_from_u64(random_seed());
        for _ in 0..2_000 {
            let mut text =
                |length: usize| (0..length).map(|_| ["a", "b", "/", "*", "$"][random.random_range(0..5)]).collect::<String>();
            let patterns: Vec<String> = (0..8).map(|length| format!("/{}", text(length / 2))).collect();
            let path = format!("/{}", text(6).replace(['*', '$'], "a"));
            let allows = |at: usize| patterns[at].len().is_multiple_of(2) && at.is_multiple_of(3);
            let keys = (0..patterns.len()).map(|at| if allows(at) { "Allow" } else { "Disallow" });
            let lines: Vec<String> = keys.zip(&patterns).map(|(key, pattern)| format!("{key}: {pattern}")).collect();
            let file = format!("User-agent: b\nDisallow: /\nUser-agent: a\n{}", lines.join("\n"));
            let matching = (0..patterns.len()).filter(|at| matches(patterns[*at].as_bytes(), path.as_bytes()));
            let deciding = matching.max_by_key(|at| (patterns[*at].len(), allows(*at), *at));
            let expected = deciding.filter(|at| !allows(*at)).map(|at| (at as u64 + 4, lines[at].clone()));
            assert_eq!(line(&file, "a", &path), expected, "{path} {file}");
        }
    }

    /// Memory and work would be the product of two numbers that the file's author chooses.
    #[test]
    fn hostile_files_need_little_memory_and_work() {
        let agents: String = (0..4_000).map(|number| format!("User-agent: a{number}\n")).collect();
        let rules: String = (0..8_000).map(|number| format!("Disallow: /{number}/\n")).collect();
        let parsed = RobotsRules::parse(&format!("{agents}{rules}"));
        let stored: usize = parsed.prefixes.iter().map(|prefix| prefix.rules.len()).sum();
        assert_eq!((parsed.groups.len(), stored), (4_000, MAX_LINES - 4_000), "lines after the limit are ignored");
        let mut work = 0;
        let line = parsed.disallowing("a7", &format!("/12/{}", "x".repeat(8_000)), &mut work);
        assert_eq!(line.map(|line| line.number), Some(4_013));
        assert!(work < 100, "{work}");
    }
}
