//! What an edge or an origin says of a request that a bot made, besides what was fetched (docs/api/crawlers.md#columns).

use crate::bots::{Classified, Purpose};
use serde::{Deserialize, Serialize};

/// Longest text that is kept in a column of its own.
const MAX_TEXT_BYTES: usize = 128;

/// Each of its members is a column of the table `reports`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Crawler {
    /// The bot's name, `other`, or empty where it is not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bot: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub operator: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<Purpose>,
    /// Whether it asked from an address of its operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
    /// HTTP status of the answer; 0 where it is not known.
    #[serde(skip_serializing_if = "is_zero")]
    pub response_status: u16,
    #[serde(skip_serializing_if = "is_zero")]
    pub response_bytes: u64,
    /// Whether the cache had it, in the words of who reports it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cache_status: String,
    /// The autonomous system of the request; 0 where it is not known.
    #[serde(skip_serializing_if = "is_zero")]
    pub asn: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub country: String,
    /// Media type of the answer, without parameters.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub media_type: String,
    /// The edition of the table of bots that was asked.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bots_version: String,
}

impl Crawler {
    /// The verified state as the column has it: unknown, no, yes.
    pub fn verified_code(verified: Option<bool>) -> i8 {
        match verified {
            None => 0,
            Some(false) => 1,
            Some(true) => 2,
        }
    }

    /// Puts in who it was, by the table of `version`.
    pub fn put(&mut self, classified: &Classified, version: &str) {
        self.bot = classified.bot.to_string();
        self.operator = classified.operator.to_string();
        self.purpose = Some(classified.purpose);
        self.verified = classified.verified;
        version.clone_into(&mut self.bots_version);
    }

    /// Itself, unless there is nothing in it.
    pub fn known(self) -> Option<Self> {
        Some(self).filter(|crawler| *crawler != Self::default())
    }

    /// A text as a column takes it: one that is too long says nothing.
    pub fn text(text: &str) -> String {
        if text.len() > MAX_TEXT_BYTES { String::new() } else { text.to_owned() }
    }

    /// A media type without its parameters.
    pub fn media_type(content_type: &str) -> String {
        Self::text(content_type.split(';').next().unwrap_or_default().trim()).to_ascii_lowercase()
    }
}

fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}
