//! Identifies the bot that sent a request, and checks whether its operator publishes its address (docs/api/crawlers.md#bot-table).
//!
//! User agents, headers and addresses are never stored or logged here.

mod file;
mod product;
mod signature_agent;
#[cfg(test)]
mod tests;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use file::{AddressList, BotFile, Entry};
use ipnet::IpNet;
use product::product;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

const BUNDLED: &str = include_str!("../data/bots.json");
/// Name and operator of bots that the table doesn't list: a CDN verified them, or they claim an unknown `Signature-Agent`.
pub const OTHER: &str = "other";
/// Cloudflare's categories (`VerifiedBotCategory`) of bots that fetch for answers or training, and their purposes.
const CATEGORIES: &[(&str, Purpose)] = &[
    ("AI Crawler", Purpose::Training),
    ("AI Search", Purpose::Search),
    ("AI Assistant", Purpose::User),
    ("Search Engine Crawler", Purpose::Search),
];

named_enum! {
    pub enum Purpose {
        Training = "training",
        /// To answer searches from an index.
        Search = "search",
        /// To answer a person's request right now.
        User = "user",
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BotTableError(String);

#[derive(Clone, Copy, Debug, Default)]
pub struct Sender<'a> {
    /// The `User-Agent` header; empty if absent.
    pub user_agent: &'a str,
    pub signature_agent: Option<&'a str>,
    /// The CDN's category, such as Cloudflare's `VerifiedBotCategory`.
    pub category: Option<&'a str>,
    pub address: Option<IpAddr>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classified {
    /// Name, or [`OTHER`].
    pub bot: Arc<str>,
    /// The part of the user agent after the name and a hyphen. Visitors choose it, so it is never stored.
    pub variant: Option<String>,
    /// Operator that the bot claims, or [`OTHER`].
    pub operator: Arc<str>,
    pub purpose: Purpose,
    /// Whether the operator publishes the IP address. `None` if the operator publishes no addresses, the address isn't public, or it isn't
    /// in our copy of a frequently changing list.
    pub verified: Option<bool>,
    /// The list that the address was compared with.
    pub list: Option<Arc<AddressSource>>,
    /// The operator's page about the bot; empty for [`OTHER`].
    pub documentation: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AddressSource {
    /// URL of the operator's list.
    pub source: String,
    /// Day of the copy, as `YYYY-MM-DD`.
    pub as_of: String,
    /// Whether the operator changes the list so often that an address outside the copy is unknown.
    pub changes: bool,
}

struct Bot {
    name: Arc<str>,
    operator: Arc<str>,
    purpose: Purpose,
    documentation: Arc<str>,
    addresses: Option<Arc<Addresses>>,
}

struct Addresses {
    networks: Vec<IpNet>,
    source: Arc<AddressSource>,
}

/// Bots by the names in their user agents and by the hosts in their `Signature-Agent` headers.
pub struct BotTable {
    version: Arc<str>,
    names: AhoCorasick,
    /// The bot of each pattern.
    bot_by_pattern: Vec<usize>,
    /// The bot of each `Signature-Agent` host.
    bot_by_signature_agent: HashMap<String, usize>,
    cdns: Vec<String>,
    bots: Vec<Bot>,
}

impl BotTable {
    pub fn bundled() -> Arc<Self> {
        static TABLE: LazyLock<Arc<BotTable>> =
            LazyLock::new(|| Arc::new(BotTable::parse(BUNDLED).expect("a test reads the bundled table")));
        Arc::clone(&TABLE)
    }

    /// Parses a table in the format of the bundled one.
    pub fn parse(text: &str) -> Result<Self, BotTableError> {
        let file = BotFile::parse(text)?;
        let patterns: Vec<&str> = file.bots.iter().flat_map(|bot| bot.patterns.iter().map(String::as_str)).collect();
        let names = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .kind(Some(AhoCorasickKind::DFA))
            .build(&patterns)
            .map_err(|error| BotTableError(error.to_string()))?;
        let signers = file.bots.iter().enumerate().flat_map(|(at, bot)| bot.signature_agents.iter().map(move |host| (host, at)));
        let bot_of_signer = signers.map(|(host, at)| (host.clone(), at)).collect();
        let bot_of = file.bots.iter().enumerate().flat_map(|(at, bot)| std::iter::repeat_n(at, bot.patterns.len())).collect();
        let of_list = |(name, list): (String, AddressList)| {
            let source = AddressSource { source: list.source, as_of: list.as_of, changes: list.changes };
            (name, Arc::new(Addresses { networks: list.networks, source: Arc::new(source) }))
        };
        let addresses: HashMap<String, Arc<Addresses>> = file.addresses.into_iter().map(of_list).collect();
        let bot = |entry: Entry| Bot {
            addresses: entry.addresses.and_then(|list| addresses.get(&list).cloned()),
            name: entry.bot.into(),
            operator: entry.operator.into(),
            purpose: entry.purpose,
            documentation: entry.documentation.into(),
        };
        let cdns = file.cdns.into_iter().map(|cdn| cdn.user_agent).collect();
        let bots = file.bots.into_iter().map(bot).collect();
        Ok(Self {
            version: file.version.into(),
            names,
            bot_by_pattern: bot_of,
            bot_by_signature_agent: bot_of_signer,
            cdns,
            bots,
        })
    }

    /// Edition of the table, stored with each classification.
    pub fn version(&self) -> &Arc<str> {
        &self.version
    }

    /// Identifies the bot that sent a request by its user agent, `Signature-Agent` header or CDN category, in this order. Returns `None`
    /// for people and other programs.
    pub fn classify(&self, sender: &Sender<'_>) -> Option<Classified> {
        if let Some((bot, variant)) = self.find_named(sender.user_agent) {
            return Some(bot.classified(variant, sender.address));
        }
        let signed = sender.signature_agent.and_then(|header| self.claimed_by_header(header));
        signed.or_else(|| sender.category.and_then(other_of_category))
    }

    /// Like `classify`, for a single text: a user agent or an agent's name.
    pub fn classify_text(&self, text: &str) -> Option<Classified> {
        self.classify(&Sender { user_agent: text, ..Sender::default() })
    }

    /// Returns the CDN that uses this user agent. An origin behind a CDN logs it for every visitor.
    pub fn cdn(&self, user_agent: &str) -> Option<&str> {
        self.cdns.iter().find(|cdn| cdn.eq_ignore_ascii_case(user_agent.trim())).map(String::as_str)
    }

    pub fn bots(&self) -> impl Iterator<Item = (&str, &str, Purpose)> {
        self.bots.iter().map(|bot| (bot.name.as_ref(), bot.operator.as_ref(), bot.purpose))
    }

    /// Returns the bot with the longest name in the text, or the first of several.
    fn find_named(&self, user_agent: &str) -> Option<(&Bot, Option<String>)> {
        let text = user_agent.as_bytes();
        let products = self.names.find_overlapping_iter(text);
        let products = products.filter_map(|found| product(text, found.start(), found.end()).map(|product| (found, product)));
        let (found, product) = products.min_by_key(|(found, _)| (Reverse(found.len()), found.start()))?;
        let variant = product.variant.and_then(|range| user_agent.get(range)).map(str::to_owned);
        self.bots.get(self.bot_by_pattern[found.pattern().as_usize()]).map(|bot| (bot, variant))
    }

    /// Returns the bot that the header claims. Doesn't check the address, because the header names a key owner.
    fn claimed_by_header(&self, header: &str) -> Option<Classified> {
        let host = signature_agent::host(header)?;
        let bot = self.bot_by_signature_agent.get(&host).and_then(|at| self.bots.get(*at));
        Some(bot.map_or_else(|| other(Purpose::User), |bot| bot.classified(None, None)))
    }
}

impl Bot {
    fn classified(&self, variant: Option<String>, address: Option<IpAddr>) -> Classified {
        let list = self.addresses.as_ref();
        Classified {
            bot: Arc::clone(&self.name),
            variant,
            operator: Arc::clone(&self.operator),
            purpose: self.purpose,
            verified: list.zip(address).and_then(|(addresses, address)| addresses.verify(address)),
            list: list.filter(|_| address.is_some()).map(|addresses| Arc::clone(&addresses.source)),
            documentation: Arc::clone(&self.documentation),
        }
    }
}

impl Addresses {
    /// Returns whether the operator publishes the address, or `None` if that is unknown.
    fn verify(&self, address: IpAddr) -> Option<bool> {
        let address = address.to_canonical();
        let is_inside = self.networks.iter().any(|network| network.contains(&address));
        let is_known = is_inside || !self.source.changes;
        (is_known && is_public(address)).then_some(is_inside)
    }
}

/// Returns whether an address is public unicast. Documentation addresses count as public, because proxies never use them.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            let is_shared = first == 100 && (64..128).contains(&second);
            let is_reserved = first == 0 || first >= 224;
            !(address.is_private() || address.is_loopback() || address.is_link_local() || is_shared || is_reserved)
        }
        IpAddr::V6(address) => {
            // Global unicast addresses (RFC 4291) have the prefix 2000::/3.
            address.segments()[0] & 0xe000 == 0x2000
        }
    }
}

fn other_of_category(category: &str) -> Option<Classified> {
    let (_, purpose) = CATEGORIES.iter().find(|(name, _)| name.eq_ignore_ascii_case(category))?;
    Some(other(*purpose))
}

fn other(purpose: Purpose) -> Classified {
    let (bot, operator) = (OTHER.into(), OTHER.into());
    Classified { bot, variant: None, operator, purpose, verified: None, list: None, documentation: "".into() }
}
