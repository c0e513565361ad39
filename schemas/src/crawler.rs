//! What an edge or origin reports about a bot's request, besides the fetched content (docs/api/crawlers.md#columns).

use crate::bots::{Classified, Purpose};
use serde::{Deserialize, Serialize};

/// Maximum length of a string in a column.
const MAX_TEXT_BYTES: usize = 128;

/// Columns of the `reports` table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Crawler {
    /// The bot's name, `other`, or empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bot: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub operator: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<Purpose>,
    /// Whether the request came from an address of the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
    /// HTTP status of the response; 0 if unknown.
    #[serde(skip_serializing_if = "is_zero")]
    pub response_status: u16,
    #[serde(skip_serializing_if = "is_zero")]
    pub response_bytes: u64,
    /// Cache status, in the reporter's words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cache_status: String,
    /// Autonomous system of the request; 0 if unknown.
    #[serde(skip_serializing_if = "is_zero")]
    pub asn: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub country: String,
    /// Media type of the response, without parameters.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub media_type: String,
    /// Edition of the bot table that classified the request.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bots_version: String,
}

impl Crawler {
    /// Returns the stored code: unknown, no, yes.
    pub fn verified_code(verified: Option<bool>) -> i8 {
        match verified {
            None => 0,
            Some(false) => 1,
            Some(true) => 2,
        }
    }

    /// Sets the bot's columns. `version` is the edition of the bot table.
    pub fn put(&mut self, classified: &Classified, version: &str) {
        self.bot = classified.bot.to_string();
        self.operator = classified.operator.to_string();
        self.purpose = Some(classified.purpose);
        self.verified = classified.verified;
        version.clone_into(&mut self.bots_version);
    }

    /// Returns `None` if all columns have their defaults.
    pub fn known(self) -> Option<Self> {
        Some(self).filter(|crawler| *crawler != Self::default())
    }

    /// Returns the text, or an empty string if it is too long.
    pub fn text(text: &str) -> String {
        if text.len() > MAX_TEXT_BYTES { String::new() } else { text.to_owned() }
    }

    /// Returns a media type without its parameters.
    pub fn media_type(content_type: &str) -> String {
        Self::text(content_type.split(';').next().unwrap_or_default().trim()).to_ascii_lowercase()
    }
}

fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}
