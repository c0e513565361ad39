//! Whose bot a user agent is, what for, and whether it asks from an address of its operator (docs/api/crawlers.md#bot-table).
//!
//! Must not keep what it is asked: a user agent or an address goes in and only the name of a bot comes out. Whoever is not in
//! the table is nobody.

mod file;
#[cfg(test)]
mod tests;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use file::{AddressList, BotFile, Entry};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

/// The table of this build.
const BUNDLED: &str = include_str!("../data/bots.json");
/// The bot and the operator of a user agent that the table does not know and the CDN calls a crawler or an assistant.
pub const OTHER: &str = "other";
/// What Cloudflare calls the verified bots that fetch for answers or for training (`VerifiedBotCategory`), and what they fetch for.
const CATEGORIES: &[(&str, Purpose)] = &[
    ("AI Crawler", Purpose::Training),
    ("AI Search", Purpose::Search),
    ("AI Assistant", Purpose::User),
    ("Search Engine Crawler", Purpose::Search),
];

/// What a bot fetches for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// To train models.
    Training,
    /// To answer searches from an index.
    Search,
    /// Because a person asks at this moment.
    User,
}

impl Purpose {
    /// As it is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Training => "training",
            Self::Search => "search",
            Self::User => "user",
        }
    }
}

/// Why a file is no table.
#[derive(Debug)]
pub struct BotTableError(String);

impl std::fmt::Display for BotTableError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BotTableError {}

/// What is known of the sender of a request that is no person's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classified {
    /// The bot's name, or [`OTHER`].
    pub bot: Arc<str>,
    /// Whose bot it says it is, or [`OTHER`].
    pub operator: Arc<str>,
    /// What it fetches for.
    pub purpose: Purpose,
    /// Whether the address is one of its operator's; none where the operator publishes no addresses, changes them so often that a copy
    /// cannot tell, or none is given.
    pub verified: Option<bool>,
    /// Where its operator documents it; empty for [`OTHER`].
    pub documentation: Arc<str>,
}

struct Bot {
    name: Arc<str>,
    operator: Arc<str>,
    purpose: Purpose,
    documentation: Arc<str>,
    /// None where its operator publishes nothing.
    addresses: Option<Arc<Addresses>>,
}

/// What an operator publishes.
struct Addresses {
    networks: Vec<IpNet>,
    /// Whether an address outside of them is not its operator's.
    is_complete: bool,
}

/// Bots by the names they give themselves in their user agents.
pub struct BotTable {
    version: Arc<str>,
    names: AhoCorasick,
    /// The bot of each pattern.
    bot_of: Vec<usize>,
    bots: Vec<Bot>,
}

impl BotTable {
    /// The table of this build.
    pub fn bundled() -> Arc<Self> {
        static TABLE: LazyLock<Arc<BotTable>> =
            LazyLock::new(|| Arc::new(BotTable::parse(BUNDLED).expect("a test reads the bundled table")));
        Arc::clone(&TABLE)
    }

    /// A table from a file of the same form as the bundled one.
    pub fn parse(text: &str) -> Result<Self, BotTableError> {
        let file = BotFile::parse(text)?;
        let patterns: Vec<&str> = file.bots.iter().flat_map(|bot| bot.patterns.iter().map(String::as_str)).collect();
        let names = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .kind(Some(AhoCorasickKind::DFA))
            .build(&patterns)
            .map_err(|error| BotTableError(error.to_string()))?;
        let bot_of = file.bots.iter().enumerate().flat_map(|(at, bot)| std::iter::repeat_n(at, bot.patterns.len())).collect();
        let of_list = |(name, list): (String, AddressList)| {
            (name, Arc::new(Addresses { networks: list.networks, is_complete: !list.changes }))
        };
        let addresses: HashMap<String, Arc<Addresses>> = file.addresses.into_iter().map(of_list).collect();
        let bot = |entry: Entry| Bot {
            addresses: entry.addresses.and_then(|list| addresses.get(&list).cloned()),
            name: entry.bot.into(),
            operator: entry.operator.into(),
            purpose: entry.purpose,
            documentation: entry.documentation.into(),
        };
        Ok(Self { version: file.version.into(), names, bot_of, bots: file.bots.into_iter().map(bot).collect() })
    }

    /// Which edition this is; stored with what it decided.
    pub fn version(&self) -> &Arc<str> {
        &self.version
    }

    /// Who sent a request: by the user agent; else, where the CDN says of what kind the bot is that it verified, some other
    /// bot of that kind. None for everybody else.
    pub fn classify(&self, user_agent: &str, category: Option<&str>, address: Option<IpAddr>) -> Option<Classified> {
        match self.named(user_agent) {
            Some(bot) => Some(bot.classified(address)),
            None => category.and_then(some_other),
        }
    }

    /// The bot whose name stands in the text; of several, the longest name, and of these the first.
    fn named(&self, user_agent: &str) -> Option<&Bot> {
        let text = user_agent.as_bytes();
        let is_word = |at: Option<usize>| {
            at.and_then(|at| text.get(at)).is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        let stands_alone = |start: usize, end: usize| !is_word(start.checked_sub(1)) && !is_word(Some(end));
        let found = self.names.find_overlapping_iter(text).filter(|found| stands_alone(found.start(), found.end()));
        let longest = found.min_by_key(|found| (std::cmp::Reverse(found.len()), found.start()))?;
        self.bots.get(self.bot_of[longest.pattern().as_usize()])
    }
}

impl Bot {
    fn classified(&self, address: Option<IpAddr>) -> Classified {
        Classified {
            bot: Arc::clone(&self.name),
            operator: Arc::clone(&self.operator),
            purpose: self.purpose,
            verified: self.addresses.as_ref().zip(address).and_then(|(addresses, address)| addresses.hold(address)),
            documentation: Arc::clone(&self.documentation),
        }
    }
}

impl Addresses {
    /// Whether the address is of the operator; none where that cannot be told.
    fn hold(&self, address: IpAddr) -> Option<bool> {
        let address = address.to_canonical();
        let is_inside = self.networks.iter().any(|network| network.contains(&address));
        (is_inside || self.is_complete).then_some(is_inside)
    }
}

fn some_other(category: &str) -> Option<Classified> {
    let (_, purpose) = CATEGORIES.iter().find(|(name, _)| name.eq_ignore_ascii_case(category))?;
    Some(Classified { bot: OTHER.into(), operator: OTHER.into(), purpose: *purpose, verified: None, documentation: "".into() })
}
