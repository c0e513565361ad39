//! The file that a table is read from.
//!
//! Must refuse what would match nothing, or everything.

use super::{BotTableError, Purpose};
use ipnet::IpNet;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Shorter names stand in the user agents of people.
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
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AddressList {
    #[serde(rename = "source")]
    _source: String,
    #[serde(rename = "as_of")]
    _as_of: String,
    /// Whether the operator changes it so often that an address outside of a copy proves nothing.
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
    pub(super) patterns: Vec<String>,
    /// The name of a list.
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
        let mut names = BTreeSet::new();
        for bot in &self.bots {
            bot.check(&self.addresses)?;
            for pattern in &bot.patterns {
                if !names.insert(pattern.to_ascii_lowercase()) {
                    return refuse(format!("{pattern} is the pattern of two bots"));
                }
            }
        }
        if names.len() > MAX_PATTERNS {
            return refuse(format!("more than {MAX_PATTERNS} patterns"));
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
        let is_pattern = |text: &String| text.is_ascii() && (MIN_PATTERN_BYTES..=MAX_PATTERN_BYTES).contains(&text.len());
        if self.patterns.is_empty() || !self.patterns.iter().all(is_pattern) {
            let limits = format!("{MIN_PATTERN_BYTES} to {MAX_PATTERN_BYTES} ASCII characters");
            return Err(BotTableError(format!("{}: needs patterns of {limits}", self.bot)));
        }
        match &self.addresses {
            Some(list) if !lists.contains_key(list) => {
                Err(BotTableError(format!("{}: there is no list of addresses {list}", self.bot)))
            }
            _ => Ok(()),
        }
    }
}
