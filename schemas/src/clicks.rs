//! Click tokens: a bearer secret that an agent appends to an outbound link as the query parameter `ctx`.

use crate::ids::SessionId;
use crate::site::{ContentUrl, Site};
use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub const CLICK_TOKEN_LIFETIME: TimeDelta = TimeDelta::days(90);

/// The 201 of `POST /click-tokens`: the only place where the token is shown.
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

/// How the URL of an event that another's click token bound stands to the link that the token was made for
/// (docs/api/click-tokens.md#what-a-token-tells).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClickLink {
    /// It is that link: the reporter named none, and is not told this one.
    Taken,
    /// On the host of that link, whose owner may learn whose click it was.
    Same,
    /// Elsewhere: whoever has a token can name any host with it, so that its owner learns nothing of the session, unless the
    /// host of that link is the same owner's.
    Other,
}

impl ClickLink {
    /// Compares the hosts of an event's `content_url` and of the `token_url` of the token that binds it. Hosts that nobody can own
    /// are never the same.
    pub fn of_reported(content_url: &str, token_url: &str) -> Self {
        if site_of(token_url).is_some_and(|own| site_of(content_url) == Some(own)) { Self::Same } else { Self::Other }
    }

    /// The number under which it is stored; 0 is an event that no other's token bound.
    pub fn code(link: Option<Self>) -> i8 {
        match link {
            None => 0,
            Some(Self::Taken) => 1,
            Some(Self::Same) => 2,
            Some(Self::Other) => 3,
        }
    }
}

/// Returns the site of a URL; `None` when nobody can own its host.
pub fn site_of(url: &str) -> Option<Site> {
    ContentUrl::parse(url).ok()?.site
}

/// What a looked-up token shows (docs/api/click-tokens.md#get-ctxtoken). Never the session's id, in any of the
/// spellings that stand there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClickManifest {
    #[serde(with = "crate::instant")]
    pub started_at: DateTime<Utc>,
    /// The link that the token was made for; null when it holds the session's id.
    pub click_content_url: Option<String>,
    /// Grounded, cited and presented content, oldest first.
    pub events: Vec<ManifestEvent>,
    /// URLs of the grounded ones among `events`, each once, in their order.
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
    /// Of the reported members, those that the session's privacy level lets be shown.
    pub data: Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_host_of_a_tokens_link_is_the_same_however_it_is_spelt() {
        for (url, expected) in [
            ("http://www.example.com./other", ClickLink::Same),
            ("https://shop.example.com/a", ClickLink::Other),
            ("https://example-evil.com/a", ClickLink::Other),
            ("https://com/", ClickLink::Other),
            ("", ClickLink::Other),
        ] {
            assert_eq!(ClickLink::of_reported(url, "https://Example.com:8443/a?b#c"), expected, "{url}");
        }
        let nobodys = "http://127.0.0.1/";
        assert_eq!(ClickLink::of_reported(nobodys, nobodys), ClickLink::Other, "nobody's host is nobody's to learn of");
        assert_eq!(ClickLink::of_reported("https://example.com/", "no url"), ClickLink::Other);
    }
}
