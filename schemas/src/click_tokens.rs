//! Click tokens: bearer secrets that an agent appends to outbound links as the query parameter `ctx`.

use crate::ids::SessionId;
use crate::site::{ContentUrl, Site};
use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub const CLICK_TOKEN_LIFETIME: TimeDelta = TimeDelta::days(90);

/// The 201 of `POST /click-tokens`, the only response with the token.
#[derive(Clone, Serialize, Deserialize)]
pub struct ClickToken {
    /// `ctx_` and 43 base62 characters.
    pub token: String,
    pub session_id: SessionId,
    /// The outbound link target, canonical.
    pub content_url: String,
    #[serde(with = "crate::instant")]
    pub expires_at: DateTime<Utc>,
}

/// How an event's URL relates to the link of its click token, if another organization issued the token
/// (docs/api/click-tokens.md#what-a-token-shows).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkRelation {
    /// The event has no URL and uses the link's. The reporter doesn't see it.
    Taken,
    /// Same host as the link, so its owner may see the click's session.
    Same,
    /// Another host. Its owner can't see the session, because a token holder can name any host, unless the owner also owns the link's host.
    Other,
}

impl LinkRelation {
    /// Compares the hosts of an event's `content_url` and its token's `token_url`. Hosts that can't be owned never match.
    pub fn compare(content_url: &str, token_url: &str) -> Self {
        if site_of_url(token_url).is_some_and(|own| site_of_url(content_url) == Some(own)) { Self::Same } else { Self::Other }
    }

    /// Returns the stored number; 0 if no other organization's token bound the event.
    pub fn code(link: Option<Self>) -> i8 {
        match link {
            None => 0,
            Some(Self::Taken) => 1,
            Some(Self::Same) => 2,
            Some(Self::Other) => 3,
        }
    }
}

/// Returns the site of a URL, or `None` if its host can't be owned.
pub fn site_of_url(url: &str) -> Option<Site> {
    ContentUrl::parse(url).ok()?.site
}

/// The response of a token lookup (docs/api/click-tokens.md#get-ctxtoken). It doesn't contain the session id in any of the forms listed
/// there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClickManifest {
    #[serde(with = "crate::instant")]
    pub started_at: DateTime<Utc>,
    /// The link that the token was created for; null if it contains the session's id.
    pub click_content_url: Option<String>,
    /// Grounded, cited and presented content, oldest first.
    pub events: Vec<ManifestEvent>,
    /// Distinct URLs of the grounded events, in their order.
    pub content_urls_grounded: Vec<String>,
    pub content_urls_cited: Vec<String>,
    pub content_urls_presented: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ManifestEvent {
    /// `content_grounded`, `content_cited` or `content_presented`.
    #[serde(rename = "type")]
    pub event_type: String,
    #[serde(with = "crate::instant")]
    pub timestamp: DateTime<Utc>,
    pub content_url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_id: Option<String>,
    /// The reported members that the session's privacy level allows.
    pub data: Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_links_by_canonical_host() {
        for (url, expected) in [
            ("http://www.example.com./other", LinkRelation::Same),
            ("https://shop.example.com/a", LinkRelation::Other),
            ("https://example-evil.com/a", LinkRelation::Other),
            ("https://com/", LinkRelation::Other),
            ("", LinkRelation::Other),
        ] {
            assert_eq!(LinkRelation::compare(url, "https://Example.com:8443/a?b#c"), expected, "{url}");
        }
        let nobodys = "http://127.0.0.1/";
        assert_eq!(LinkRelation::compare(nobodys, nobodys), LinkRelation::Other, "hosts that can't be owned never match");
        assert_eq!(LinkRelation::compare("https://example.com/", "no url"), LinkRelation::Other);
    }
}
