//! Parses bot tables. Rejects patterns that would never match, or that would match people.

use super::{BotTableError, Purpose};
use ipnet::IpNet;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Shorter names occur in the user agents of browsers.
const MIN_PATTERN_BYTES: usize = 4;
const MAX_PATTERN_BYTES: usize = 64;
/// The automaton's size grows with the number of patterns.
const MAX_PATTERNS: usize = 2_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BotFile {
    pub(super) version: String,
    #[serde(default, rename = "about")]
    _about: String,
    #[serde(default)]
    pub(super) addresses: BTreeMap<String, AddressList>,
    pub(super) bots: Vec<Entry>,
    #[serde(default)]
    pub(super) cdns: Vec<Cdn>,
}

/// A CDN that fetches with its own user agent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cdn {
    pub(super) user_agent: String,
    #[serde(default, rename = "source")]
    _source: String,
    #[serde(default, rename = "source_date")]
    _source_date: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AddressList {
    pub(super) source: String,
    pub(super) as_of: String,
    /// Whether the operator changes the list so often that an address outside the copy is unknown.
    #[serde(default)]
    pub(super) changes: bool,
    pub(super) networks: Vec<IpNet>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) bot: String,
    pub(super) operator: String,
    pub(super) purpose: Purpose,
    pub(super) documentation: String,
    #[serde(default)]
    pub(super) patterns: Vec<String>,
    /// Hosts in `Signature-Agent` headers, in lowercase.
    #[serde(default)]
    pub(super) signature_agents: Vec<String>,
    /// URL of the list or page that names the bot.
    #[serde(default, rename = "source")]
    _source: String,
    /// Day of the source, as `YYYY-MM-DD`.
    #[serde(default, rename = "source_date")]
    _source_date: String,
    #[serde(default)]
    pub(super) addresses: Option<String>,
}

impl BotFile {
    pub(super) fn parse(text: &str) -> Result<Self, BotTableError> {
        let file: Self = serde_json::from_str(text).map_err(|error| BotTableError(error.to_string()))?;
        file.check()?;
        Ok(file)
    }

    fn check(&self) -> Result<(), BotTableError> {
        let refuse = |why: String| Err(BotTableError(why));
        if self.version.is_empty() || self.version.len() > MAX_PATTERN_BYTES {
            return refuse(format!("version must have 1 to {MAX_PATTERN_BYTES} bytes"));
        }
        let (mut names, mut signers) = (BTreeSet::new(), BTreeSet::new());
        for bot in &self.bots {
            bot.check(&self.addresses)?;
            for pattern in &bot.patterns {
                if !names.insert(pattern.to_ascii_lowercase()) {
                    return refuse(format!("two bots have the pattern {pattern}"));
                }
            }
            if let Some(host) = bot.signature_agents.iter().find(|host| !signers.insert(host.as_str())) {
                return refuse(format!("two bots have the signature agent {host}"));
            }
        }
        if names.len() > MAX_PATTERNS {
            return refuse(format!("the table must have at most {MAX_PATTERNS} patterns"));
        }
        if self.cdns.iter().any(|cdn| cdn.user_agent.trim().len() < MIN_PATTERN_BYTES) {
            return refuse(format!("user agents of CDNs must have at least {MIN_PATTERN_BYTES} bytes"));
        }
        Ok(())
    }
}

impl Entry {
    fn check(&self, lists: &BTreeMap<String, AddressList>) -> Result<(), BotTableError> {
        let is_name = |text: &str| (1..=MAX_PATTERN_BYTES).contains(&text.len()) && !text.chars().any(char::is_control);
        if !is_name(&self.bot) || !is_name(&self.operator) {
            return Err(BotTableError(format!("bot and operator must have 1 to {MAX_PATTERN_BYTES} bytes: {:?}", self.bot)));
        }
        let is_identified = !self.patterns.is_empty() || !self.signature_agents.is_empty();
        if !is_identified || !self.patterns.iter().all(|pattern| is_pattern(pattern)) {
            let limits = format!("{MIN_PATTERN_BYTES} to {MAX_PATTERN_BYTES} ASCII characters, including a letter");
            return Err(BotTableError(format!("{}: patterns must have {limits}", self.bot)));
        }
        if let Some(wrong) = self.signature_agents.iter().find(|host| !is_host(host)) {
            return Err(BotTableError(format!("{}: signature agents must be lowercase hosts, not {wrong:?}", self.bot)));
        }
        match &self.addresses {
            Some(list) if !lists.contains_key(list) => {
                Err(BotTableError(format!("{}: the address list {list} does not exist", self.bot)))
            }
            _ => Ok(()),
        }
    }
}

/// Patterns that begin or end with a separator would never match.
fn is_pattern(text: &str) -> bool {
    let is_name = text.is_ascii() && text.bytes().any(|byte| byte.is_ascii_alphabetic());
    is_name && (MIN_PATTERN_BYTES..=MAX_PATTERN_BYTES).contains(&text.len()) && text.trim_matches(['-', ' ']) == text
}

fn is_host(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'-');
    text.contains('.') && text.bytes().all(is_part)
}
