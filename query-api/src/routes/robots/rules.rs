//! Rules of robots.txt files (RFC 9309): which line allows or disallows a path for a bot.

use std::collections::BTreeMap;

/// The file that this path returns, which is always allowed.
const ROBOTS_TXT: &str = "/robots.txt";
/// Name of the group for bots without one of their own.
const EVERY_BOT: &str = "*";

/// A parsed file.
#[derive(Debug, Default)]
pub(crate) struct RobotsRules {
    /// Rules by the bot's product token, in lower case.
    groups: BTreeMap<String, Vec<Rule>>,
}

#[derive(Clone, Debug)]
struct Rule {
    is_allow: bool,
    /// Pattern, in the form of [`encoded`].
    pattern: Vec<u8>,
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
        let mut groups: BTreeMap<String, Vec<Rule>> = BTreeMap::new();
        let (mut agents, mut has_rules): (Vec<String>, bool) = (Vec::new(), false);
        let file = file.trim_start_matches('\u{feff}').replace("\r\n", "\n");
        for (number, line) in (1..).zip(file.split(['\n', '\r'])) {
            let text = line.split('#').next().unwrap_or_default().trim();
            let Some((key, value)) = text.split_once(':') else { continue };
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
            match key.as_str() {
                "user-agent" => {
                    if has_rules {
                        (agents, has_rules) = (Vec::new(), false);
                    }
                    let agent = product_token(value);
                    groups.entry(agent.clone()).or_default();
                    agents.push(agent);
                }
                "allow" | "disallow" => {
                    has_rules = true;
                    // An empty value matches no path.
                    if value.is_empty() {
                        continue;
                    }
                    let line = RuleLine { number, text: text.to_owned() };
                    let rule = Rule { is_allow: key == "allow", pattern: encoded(value), line };
                    for agent in &agents {
                        groups.entry(agent.clone()).or_default().push(rule.clone());
                    }
                }
                _ => {}
            }
        }
        Self { groups }
    }

    /// Returns the line that disallows a path, with its query, for a bot; `None` if the bot may fetch it.
    pub(crate) fn disallowing(&self, bot: &str, path: &str) -> Option<&RuleLine> {
        if path == ROBOTS_TXT {
            return None;
        }
        let path = encoded(path);
        let rules = self.groups.get(&bot.to_ascii_lowercase()).or_else(|| self.groups.get(EVERY_BOT))?;
        let matching = rules.iter().filter(|rule| matches(&rule.pattern, &path));
        // The longest pattern applies, and `Allow` takes precedence over an equally long one.
        let deciding = matching.max_by_key(|rule| (rule.pattern.len(), rule.is_allow))?;
        (!deciding.is_allow).then_some(&deciding.line)
    }
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

    /// Returns the number and text of the disallowing line.
    fn line(file: &str, bot: &str, path: &str) -> Option<(u64, String)> {
        RobotsRules::parse(file).disallowing(bot, path).map(|line| (line.number, line.text.clone()))
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
}
